package selftest

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// HeldTrial is a run that held connections to a server which cut some of them, on the same clock, and numbered them
// in its name.
type HeldTrial struct {
	Run      *model.Timeline
	Cuts     []faultserver.Cut
	Goodbyes map[string]faultserver.Act // announced ends, by who announced them
	Accepted int                        // connections, by the server
}

// promises returns what is promised of held connections.
func (h *HeldTrial) promises() []Promise {
	return []Promise{h.reportsEachCut(), h.bracketsEachCut(), h.countsAttempts()}
}

func (h *HeldTrial) held() model.Held {
	if len(h.Run.Held) == 0 {
		return model.Held{}
	}
	return h.Run.Held[0]
}

// reportsEachCut requires each cut once, as what it was. Which connection it was is told by who had answered on it.
func (h *HeldTrial) reportsEachCut() Promise {
	const text = "each cut of a connection that was held is reported once, as what it was, and no other"
	p := Promise{Text: text, Outcome: Kept}
	reported := map[string]model.HeldCut{}
	wrong, warned := 0, 0
	for _, c := range h.held().List {
		if _, twice := reported[c.From]; twice {
			wrong++
		}
		reported[c.From] = c
		if c.Warned {
			warned++
			if _, announced := h.Goodbyes[c.From]; !announced {
				wrong++
			}
		}
	}
	for _, cut := range h.Cuts {
		if c, found := reported[cut.Name]; !found || c.Warned || c.Class != classOfCut[cut.Kind].String() {
			wrong++
		}
	}
	unkept := h.held().Failed[timeline.EOF.String()] // ends that were announced in the answer to the first heartbeat
	if len(h.Cuts) == 0 || len(h.Goodbyes) == 0 {
		p.Outcome = Undecided
	}
	if wrong > 0 || len(h.held().List) != len(h.Cuts)+warned || warned+unkept != len(h.Goodbyes) {
		p.Outcome = Broken
	}
	p.Found = fmt.Sprintf("%d of %d cut without a warning, %d of %d announced",
		len(h.held().List)-warned, len(h.Cuts), warned+unkept, len(h.Goodbyes)) +
		also(wrong, "as something else, or twice")
	return p
}

var classOfCut = map[faultserver.Kind]timeline.Class{faultserver.EOF: timeline.EOF, faultserver.Reset: timeline.Reset}

// bracketsEachCut requires the instant of each cut to lie in its bracket.
func (h *HeldTrial) bracketsEachCut() Promise {
	p := Promise{Text: "and its instant lies in its bracket", Outcome: Undecided}
	held, all := 0, 0
	var widest time.Duration
	at := map[string]faultserver.Span{}
	for _, cut := range h.Cuts {
		at[cut.Name] = cut.At
	}
	for name, act := range h.Goodbyes {
		at[name] = faultserver.Span{From: act.At, To: act.At}
	}
	for _, c := range h.held().List {
		truth, known := at[c.From]
		if !known {
			continue
		}
		all++
		if c.Cut.Earliest <= truth.To && truth.From <= c.Cut.Latest {
			held++
		}
		widest = max(widest, c.Cut.Latest-c.Cut.Earliest)
	}
	switch {
	case held < all:
		p.Outcome = Broken
	case all > 0:
		p.Outcome = Kept
	}
	p.Found = fmt.Sprintf("%d of %d, the widest of %s with a heartbeat each %s",
		held, all, quantity.Span(widest), quantity.Span(h.held().Heartbeat))
	return p
}

// countsAttempts requires as many attempts to open connections as the server accepted.
func (h *HeldTrial) countsAttempts() Promise {
	p := Promise{Text: "and every attempt to open one is counted", Outcome: Kept}
	if h.held().Attempts != h.Accepted {
		p.Outcome = Broken
	}
	p.Found = fmt.Sprintf("%d by the run, %d by the server", h.held().Attempts, h.Accepted)
	return p
}
