package selftest

import (
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/loadgen/faultserver"
)

// Fate says what became of an outage in the eyes of one target.
type Fate string

const (
	Found      Fate = "found"
	Short      Fate = "short"      // not seen, and no longer than two intervals: it may fall between two requests
	Unobserved Fate = "unobserved" // not seen, and the run says that it did not look
	Between    Fate = "between"    // not seen, and longer than two intervals, but no request met it: the prober was late
	Missed     Fate = "missed"
)

// A Sight is a truth as one target saw it.
type Sight struct {
	Truth      Truth
	Target     model.Target
	Fate       Fate
	Start, End *Edge // nil where nothing is claimed: not found, or the window is open there

	windows []model.Window // that show it
	shared  bool           // one of them shows another truth as well
}

// window is the one that shows the truth and nothing else; false if there is none, or more than one.
func (s Sight) window() (model.Window, bool) {
	if len(s.windows) != 1 || s.shared {
		return model.Window{}, false
	}
	return s.windows[0], true
}

// An Edge is a bracket and how far it was from the truth.
type Edge struct {
	Bracket model.Instant
	Basis   model.Basis
	Error   time.Duration // from the middle of the bracket to that of the truth
	Width   time.Duration
	Held    bool
}

// newEdge compares a bracket with the truth. See the package for when it holds.
func newEdge(bracket model.Instant, truth faultserver.Span, basis model.Basis) *Edge {
	middle := (bracket.Earliest + bracket.Latest) / 2
	return &Edge{
		Bracket: bracket,
		Basis:   basis,
		Error:   (middle - (truth.From+truth.To)/2).Abs(),
		Width:   bracket.Latest - bracket.Earliest,
		Held:    bracket.Earliest <= truth.To && truth.From <= bracket.Latest,
	}
}

// A View is all that one target says of the truths.
type View struct {
	Target   model.Target
	Sights   []Sight        // by truth
	Invented []model.Window // windows where nothing was wrong
	Excused  []model.Window // such windows in or beside unobserved time: the machine stood still
}

// look compares a target's windows with the truths. met tells whether a request of the target was sent and done within a
// truth.
func look(target model.Target, tl *model.Timeline, truths []Truth, met func(Truth) bool) View {
	v := View{Target: target}
	windows := windowsOf(tl, target.Name)
	claimed := make([]bool, len(windows))
	shown := make([]int, len(windows)) // how many truths each shows
	for _, t := range truths {
		s := Sight{Truth: t, Target: target}
		var mine []model.Window
		for i, w := range windows {
			if shows(w, t) {
				claimed[i] = true
				shown[i]++
				mine = append(mine, w)
			} else if explains(w, t) {
				claimed[i] = true
			}
		}
		s.compare(mine)
		if len(mine) == 0 {
			s.Fate = s.unseen(tl, met)
		}
		v.Sights = append(v.Sights, s)
	}
	for i, w := range windows {
		if shown[i] > 1 {
			v.share(w)
		}
		switch {
		case claimed[i]:
		case dark(tl, target.Name, w.Start.Earliest, w.End.Latest):
			v.Excused = append(v.Excused, w)
		default:
			v.Invented = append(v.Invented, w)
		}
	}
	return v
}

// share notes that w shows more than one truth.
func (v *View) share(w model.Window) {
	for i := range v.Sights {
		s := &v.Sights[i]
		s.shared = s.shared || slices.ContainsFunc(s.windows, func(o model.Window) bool { return o.ID == w.ID })
	}
}

func windowsOf(tl *model.Timeline, target string) (windows []model.Window) {
	for _, w := range tl.Windows {
		if w.Target == target {
			windows = append(windows, w)
		}
	}
	return windows
}

// shows reports whether w is what t is to look like: of the same sort, and with its failures in it. Where those lay a
// window tells by its inner bounds, the earliest instant at which the fault was known and the latest at which it
// still lasted, in this order or the other.
func shows(w model.Window, t Truth) bool {
	return (w.Kind == model.Slow) == (t.Class() == Slow) && touchesCore(w, t)
}

// explains reports whether w, though not what t is to look like, comes from it: the requests a stall held up for less
// than the timeout are slow.
func explains(w model.Window, t Truth) bool {
	return w.Kind == model.Slow && touchesCore(w, t) && slices.ContainsFunc(t.Outages, func(o Outage) bool { return o.Class == Stalled })
}

func touchesCore(w model.Window, t Truth) bool {
	return t.touches(min(w.Start.Latest, w.End.Earliest), max(w.Start.Latest, w.End.Earliest))
}

// compare notes how the windows that show the truth bracket it. If there are several, it begins with the first
// and ends with the last.
func (s *Sight) compare(windows []model.Window) {
	if len(windows) == 0 {
		return
	}
	s.Fate, s.windows = Found, windows
	first, last := windows[0], windows[len(windows)-1]
	if !first.Open.Start {
		s.Start = newEdge(first.Start, s.Truth.Start, first.Basis)
	}
	if !last.Open.End {
		s.End = newEdge(last.End, s.Truth.End, last.Basis)
	}
}

// unseen says why there is no window.
func (s *Sight) unseen(tl *model.Timeline, met func(Truth) bool) Fate {
	beside := 2 * s.interval()
	switch {
	case dark(tl, s.Target.Name, s.Truth.Start.From-beside, s.Truth.End.To+beside):
		return Unobserved
	case met(s.Truth):
		return Missed
	case s.Truth.Length() <= 2*s.interval():
		return Short
	}
	return Between
}

func (s *Sight) interval() time.Duration {
	return time.Duration(float64(time.Second) / s.Target.Rate)
}

// dark reports whether some of the time between two instants was unobserved.
func dark(tl *model.Timeline, target string, from, to time.Duration) bool {
	return slices.ContainsFunc(tl.Unobserved, func(u model.Unobserved) bool {
		return u.Target == target && u.Start <= to && from <= u.End
	})
}
