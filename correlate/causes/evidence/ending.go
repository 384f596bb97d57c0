package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file is about Pods that end.

// A partialEnd is a Pod whose first container ended some time before the last, by its kubelet's clock.
type partialEnd struct {
	First, Last string
	From, To    time.Time
	Apart       time.Duration // at least
	Event       *model.Event  // of the first
	Serves      bool          // the last one has a probe over the network: it is a server
	Known       bool          // whether it has
	Forced      bool          // the last one did not end until it was killed
}

// apartAtLeast is how far apart the ends of a Pod's containers must be to count as separate.
const apartAtLeast = 2 * time.Second

// EndedInParts returns how a Pod's containers ended one after the other, the first when the Pod stopped. It returns nil
// if they ended together, if the first ended at another time, or if there is only one. Containers that serve a port
// each do not count: no request passes through both.
func (v *Endings) EndedInParts(s *PodStop) *partialEnd {
	var first, last *model.Event
	for _, e := range v.changes.Ends[s.Pod.UID] {
		if first == nil || e.Stamp.Before(first.Stamp) {
			first = e
		}
		if last == nil || e.Stamp.After(last.Stamp) {
			last = e
		}
	}
	if first == nil || v.Run.T0.IsZero() || v.otherPortServed(s) {
		return nil
	}
	const second = time.Second // stamps are rounded down to it
	p := &partialEnd{
		First:  containerOf(first),
		Last:   containerOf(last),
		From:   first.Stamp,
		To:     last.Stamp,
		Apart:  last.Stamp.Sub(first.Stamp) - second,
		Event:  first,
		Forced: last.ExitCode != nil && *last.ExitCode == Killed,
	}
	at := first.Stamp.Sub(v.Run.T0)
	about := model.Instant{Earliest: at - cluster.ClocksApart, Latest: at + second + cluster.ClocksApart}
	if p.First == p.Last || p.Apart < apartAtLeast || !about.Overlaps(s.At) {
		return nil
	}
	if t := v.templates[s.Pod.Template]; t != nil {
		p.Known = true
		for _, c := range t.Containers {
			p.Serves = p.Serves || c.Name == p.Last && asked(&c)
		}
	}
	return p
}

// otherPortServed reports whether another port of the Pod still answered after one had stopped.
func (v *Endings) otherPortServed(s *PodStop) bool {
	stopped := v.traffic.Targets[s.Target]
	if stopped == nil {
		return false
	}
	return slices.ContainsFunc(v.traffic.direct[s.Pod.UID], func(t *model.Target) bool {
		last := v.traffic.Measured(t).FirstLast.LastOK
		return t.Addr.Port() != stopped.Addr.Port() && last != nil && last.Sent > s.At.Latest+apartAtLeast
	})
}

// Why explains how the Pod ended, as far as that is known; the text begins with a semicolon.
func (v *Endings) Why(s *PodStop, c *FormCount) string {
	if c == nil {
		return s.afterwards()
	}
	text := ""
	switch names := v.templates.ContainersOf(s.Pod); {
	case c.Most() == AnswersErrors && c.AsksAnother() && len(names) > 1:
		text = fmt.Sprintf("; a proxy answers so when it cannot reach its server: one of the Pod's containers (%s) "+
			"ended before the other", strings.Join(names, ", "))
	case c.Most() == AnswersErrors && len(names) > 1:
		text = fmt.Sprintf("; one of its containers (%s) may have ended before the other, or its server answers so "+
			"while it ends", strings.Join(names, ", "))
	case c.Most() == AnswersErrors:
		text = "; its server answers so while it ends"
	case c.Most() == isSilent:
		text = "; a busy process of the Pod may still have held the socket"
	}
	if hook := v.templates.endingHook(s.Pod); hook != "" && c.Most() != AnswersErrors {
		text += "; " + hook
	}
	return text + s.afterwards()
}

// ServeOn says how a Pod can keep serving this long after it was asked to end. bySleep is true if a preStop sleep is
// all that it takes.
func (v *Endings) ServeOn(s *PodStop, c *FormCount, needs time.Duration) (how string, bySleep bool) {
	least := quantity.Span(needs)
	hook, stops := v.templates.stoppingHook(s.Pod)
	switch {
	case s.restarted():
		return fmt.Sprintf("let SIGTERM end the server and not restart it (STOPSIGNAL of the image, or a preStop "+
			"hook with the right signal), and keep serving ≥ %s before that (a preStop sleep)", least), false
	case stops && hook.delays() == 0:
		return fmt.Sprintf("let the preStop hook of %s sleep ≥ %s before it runs %s", hook.Name, least,
			hook.runs()), false
	case c.Most() == AnswersErrors && len(v.templates.ContainersOf(s.Pod)) > 1:
		return fmt.Sprintf("keep serving ≥ %s after SIGTERM in every container that requests pass through: the same "+
			"preStop sleep for %s", least, v.templates.Sleeps(s.Pod)), false
	}
	how = fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down)", least)
	return how, true
}
