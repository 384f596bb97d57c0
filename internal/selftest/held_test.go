package selftest

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/loadgen/faultserver"
)

// heldRun is a run in which one connection was closed at 2 s, one reset at 3 s, and the end of one announced at 4 s.
func heldRun() *HeldTrial {
	s := time.Second
	span := func(at time.Duration) faultserver.Span {
		return faultserver.Span{From: at, To: at + time.Microsecond}
	}
	cut := func(name, class string, at time.Duration, warned bool) model.HeldCut {
		return model.HeldCut{From: name, Class: class, Warned: warned, Cut: model.Instant{Earliest: at - s, Latest: at + time.Millisecond}}
	}
	return &HeldTrial{
		Cuts:     []faultserver.Cut{{Kind: faultserver.EOF, Name: "server-1", At: span(2 * s)}, {Kind: faultserver.Reset, Name: "server-2", At: span(3 * s)}},
		Goodbyes: map[string]faultserver.Act{"server-3": {Kind: faultserver.Goodbye, At: 4 * s}, "server-9": {Kind: faultserver.Goodbye, At: 4 * s}},
		Accepted: 7,
		Run: &model.Timeline{Held: []model.Held{{
			Attempts: 7, Failed: map[string]int{"eof": 1}, Heartbeat: s,
			List: []model.HeldCut{cut("server-1", "eof", 2*s, false), cut("server-2", "reset", 3*s, false), cut("server-3", "eof", 4*s, true)},
		}}},
	}
}

func TestHeldConnectionsAreHeldAgainstTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*HeldTrial)
		want   [3]Outcome // reported, bracketed, counted
	}{
		"as it was":        {func(*HeldTrial) {}, [3]Outcome{Kept, Kept, Kept}},
		"a cut is missing": {func(h *HeldTrial) { h.Run.Held[0].List = h.Run.Held[0].List[1:] }, [3]Outcome{Broken, Kept, Kept}},
		"a cut is invented": {func(h *HeldTrial) {
			h.Run.Held[0].List = append(h.Run.Held[0].List, model.HeldCut{From: "server-5", Class: "eof"})
		}, [3]Outcome{Broken, Kept, Kept}},
		"reported twice":        {func(h *HeldTrial) { h.Run.Held[0].List[1].From = "server-1" }, [3]Outcome{Broken, Kept, Kept}},
		"of another class":      {func(h *HeldTrial) { h.Run.Held[0].List[0].Class = "reset" }, [3]Outcome{Broken, Kept, Kept}},
		"warned without a word": {func(h *HeldTrial) { h.Run.Held[0].List[0].Warned = true }, [3]Outcome{Broken, Kept, Kept}},
		"a warning was missed":  {func(h *HeldTrial) { h.Run.Held[0].List[2].Warned = false }, [3]Outcome{Broken, Kept, Kept}},
		"out of its bracket":    {func(h *HeldTrial) { h.Run.Held[0].List[0].Cut.Earliest += 1001 * time.Millisecond }, [3]Outcome{Kept, Broken, Kept}},
		"noticed too early":     {func(h *HeldTrial) { h.Run.Held[0].List[1].Cut.Latest -= 2 * time.Millisecond }, [3]Outcome{Kept, Broken, Kept}},
		"an attempt is hidden":  {func(h *HeldTrial) { h.Accepted++ }, [3]Outcome{Kept, Kept, Broken}},
		"nothing was cut":       {func(h *HeldTrial) { h.Cuts, h.Goodbyes, h.Run.Held[0].List, h.Run.Held[0].Failed = nil, nil, nil, nil }, [3]Outcome{Undecided, Undecided, Kept}},
	} {
		h := heldRun()
		test.change(h)
		for i, p := range h.promises() {
			if p.Outcome != test.want[i] {
				t.Errorf("%s: %q is %s (%s), want %s", name, p.Text, p.Outcome, p.Found, test.want[i])
			}
		}
	}
}
