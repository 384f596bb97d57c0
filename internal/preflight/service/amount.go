package service

import "fmt"

// An Amount is how many Pods there are at least and at most. Most is negative if it is not known.
type Amount struct{ Least, Most int }

// Exactly returns an amount that is known.
func Exactly(n int) Amount { return Amount{n, n} }

var unknownAmount = Amount{0, -1}

// Plus returns the sum of both.
func (a Amount) Plus(b Amount) Amount {
	if a.Most < 0 || b.Most < 0 {
		return Amount{a.Least + b.Least, -1}
	}
	return Amount{a.Least + b.Least, a.Most + b.Most}
}

// Known reports whether the most is known.
func (a Amount) Known() bool { return a.Most >= 0 }

// asked returns how many Pods a workload makes, and what says so. a is its autoscaler, nil if none is known.
func (w *Workload) asked(a *Autoscaler) (Amount, Evidence) {
	switch {
	case w.Kind == "DaemonSet":
		return unknownAmount, Evidence{w.Object(), "kind", "DaemonSet: one Pod on each node that it selects"}
	case w.Replicas != nil && *w.Replicas == 0 && (a == nil || a.Kind == "HorizontalPodAutoscaler"): // stops an HPA
		return Exactly(0), Evidence{w.Object(), w.Asks, "0"}
	case a != nil && a.Least() == 0: // some while there is work
		return unknownAmount, a.Evidence()
	case a != nil:
		return Amount{a.Least(), max(a.Least(), a.Max)}, a.Evidence()
	case w.Replicas != nil:
		return Exactly(int(*w.Replicas)), Evidence{w.Object(), w.Asks, fmt.Sprint(*w.Replicas)}
	case w.Asks == "":
		return unknownAmount, Evidence{w.Object(), "spec.replicas", "not set"}
	}
	return Exactly(1), Evidence{w.Object(), w.Asks, "not set: 1"}
}
