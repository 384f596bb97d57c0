package selftest

import (
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/truth"
)

// Fate says what a target reports of an outage.
type Fate string

const (
	Found      Fate = "found"
	Short      Fate = "short"      // not seen, and no longer than two intervals: it may fall between two requests
	Unobserved Fate = "unobserved" // not seen, and the run reports that it did not observe it
	Between    Fate = "between"    // not seen, longer than two intervals, met by no request: the prober was late
	Missed     Fate = "missed"
)

// A Match compares an outage with the windows of one target that show it.
type Match struct {
	Outage     Outage
	Fate       Fate
	Start, End truth.Edge // if found
}

// A Comparison is all that one target reports of the outages.
type Comparison struct {
	Target   model.Target
	Matches  []Match        // by outage
	Invented []model.Window // windows where nothing was wrong
	Excused  []model.Window // of these, those in or beside unobserved time: the machine stood still
}

// compare holds a target's windows against the outages.
func compare(target model.Target, tl *model.Timeline, outages []Outage, l *Ledger) Comparison {
	c := Comparison{Target: target}
	var windows []model.Window
	for _, w := range tl.Windows {
		if w.Target == target.Name {
			windows = append(windows, w)
		}
	}
	for i, o := range outages {
		m := Match{Outage: o}
		shown := slices.DeleteFunc(slices.Clone(windows), func(w model.Window) bool { return !o.Shows(w) })
		if len(shown) > 0 {
			m.Fate = Found
			m.Start, m.End = o.Edges(shown)
		} else {
			m.Fate = unseen(target, tl, o, l.metBy(target.ID, i))
		}
		c.Matches = append(c.Matches, m)
	}
	for _, w := range windows {
		switch {
		case slices.ContainsFunc(outages, func(o Outage) bool { return o.causes(w) }):
		case unobserved(tl, target.Name, w.Start.Earliest, w.End.Latest):
			c.Excused = append(c.Excused, w)
		default:
			c.Invented = append(c.Invented, w)
		}
	}
	return c
}

// causes reports whether w comes from o: it shows o, or it holds requests that a stall held up for less than the
// timeout.
func (o Outage) causes(w model.Window) bool {
	return o.Shows(w) || w.Kind == model.Slow && o.Class == Stalled && o.Touches(truth.Core(w))
}

// unseen says why no window shows an outage.
func unseen(target model.Target, tl *model.Timeline, o Outage, met bool) Fate {
	beside := 2 * target.Interval()
	switch {
	case unobserved(tl, target.Name, o.Start.From-beside, o.End.To+beside):
		return Unobserved
	case met:
		return Missed
	case o.Length() <= beside:
		return Short
	}
	return Between
}

// unobserved reports whether some of the time between two instants was.
func unobserved(tl *model.Timeline, target string, from, to time.Duration) bool {
	return slices.ContainsFunc(tl.Unobserved, func(u model.Unobserved) bool {
		return u.Target == target && u.Start <= to && from <= u.End
	})
}
