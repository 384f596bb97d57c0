package truth

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

const ms = time.Millisecond

func bracket(from, to time.Duration) model.Instant { return model.Instant{Earliest: from, Latest: to} }

func TestABracketHoldsWhatItHasAnInstantInCommonWith(t *testing.T) {
	outage := Outage{Start: Span{From: 100 * ms, To: 102 * ms}, End: At(200 * ms)}
	for _, test := range []struct {
		name       string
		start, end model.Instant
		open       model.Open
		want       [2]bool
	}{
		{"around it", bracket(95*ms, 105*ms), bracket(195*ms, 205*ms), model.Open{}, [2]bool{true, true}},
		{"touching it", bracket(102*ms, 105*ms), bracket(200*ms, 205*ms), model.Open{}, [2]bool{true, true}},
		{"before it", bracket(95*ms, 99*ms), bracket(195*ms, 199*ms), model.Open{}, [2]bool{false, false}},
		{"after it", bracket(103*ms, 105*ms), bracket(201*ms, 205*ms), model.Open{}, [2]bool{false, false}},
		{"open, and the outer bound within", bracket(103*ms, 105*ms), bracket(195*ms, 199*ms),
			model.Open{Start: true, End: true}, [2]bool{true, true}},
		{"open, and the inner bound wrong", bracket(95*ms, 99*ms), bracket(201*ms, 205*ms),
			model.Open{Start: true, End: true}, [2]bool{false, false}},
	} {
		start, end := outage.Edges([]model.Window{{Start: test.start, End: test.end, Open: test.open}})
		if got := [2]bool{start.Held, end.Held}; got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestAWindowShowsTheOutageThatItsFailuresLieIn(t *testing.T) {
	failing, slow := Outage{Start: At(100 * ms), End: At(200 * ms)}, Outage{Start: At(100 * ms), End: At(200 * ms),
		Slow: true}
	within := model.Window{Kind: model.Outage, Start: bracket(95*ms, 105*ms), End: bracket(195*ms, 205*ms)}
	late := model.Window{Kind: model.Slow, Start: within.Start, End: within.End}
	beside := model.Window{Kind: model.Outage, Start: bracket(195*ms, 205*ms), End: bracket(250*ms, 260*ms)}
	// one failure, sent before it ended
	one := model.Window{Kind: model.Partial, Start: bracket(190*ms, 205*ms), End: bracket(199*ms, 220*ms)}
	if !failing.Shows(within) || !failing.Shows(one) || failing.Shows(late) || failing.Shows(beside) ||
		!slow.Shows(late) || slow.Shows(within) {
		t.Errorf("shown by %v %v %v %v, the slow one by %v %v", failing.Shows(within), failing.Shows(one),
			failing.Shows(late), failing.Shows(beside), slow.Shows(late), slow.Shows(within))
	}
}
