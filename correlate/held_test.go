package correlate

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Two probers hold connections, with clocks of their own. Each is judged on its own clock and placed on the run's;
// what differs is only how well that is known.
func TestHeldConnectionsOfSeveralSourcesAreOnOneAxis(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	run := timeline.Run{
		Meta: timeline.Meta{ID: "fleet", T0: caseZero, Options: timeline.Options{Join: s, Timeout: 800 * ms,
			Duration: 20 * s}},
		Sources: []timeline.Source{{ID: 1, Name: "c", Role: timeline.Coordinator},
			{ID: 2, Name: "a", Role: timeline.Prober, Node: "node1"}, {ID: 3, Name: "b", Role: timeline.Prober,
				Node: "node2"}},
		Syncs: []timeline.Sync{{Source: 2, Min: 3*s - ms, Max: 3*s + ms},
			{Source: 3, Min: -2*s - 5*ms, Max: -2*s + 5*ms}},
	}
	offset := map[timeline.SourceID]time.Duration{2: 3 * s, 3: -2 * s} // run − source
	for _, source := range []timeline.SourceID{2, 3} {
		id := timeline.TargetID(source)
		at := func(onRun time.Duration) time.Duration { return onRun - offset[source] }
		run.Targets = append(run.Targets, timeline.Target{ID: id, Name: "held from " + run.Sources[source-1].Node,
			Kind: timeline.Held, Source: source, Connections: 2, Rate: 2, Timeout: 800 * ms})
		run.Backends = append(run.Backends, timeline.Backend{Source: source, ID: 1, Name: "web-1"},
			timeline.Backend{Source: source, ID: 2, Name: "web-2"})
		run.Held = append(run.Held, timeline.HeldBatch{Source: source, Changes: []timeline.HeldChange{
			{Target: id, Conn: 0, From: at(5 * s), At: at(5*s + ms), Backend: 1},
			{Target: id, Conn: 1, From: at(5 * s), At: at(5*s + ms), Backend: 2},
			{Target: id, Conn: 0, Kind: timeline.HeldCut, Class: timeline.Reset, From: at(9500 * ms),
				Answered: at(9501 * ms), At: at(10 * s), Backend: 1},
			{Target: id, Conn: 0, Kind: timeline.HeldFailed, Class: timeline.Refused, From: at(10 * s),
				At: at(10*s + ms)},
			{Target: id, Conn: 0, From: at(10*s + 11*ms), At: at(10*s + 14*ms), Backend: 2},
		}})
	}
	run.Events = []timeline.Event{{ID: 1, Source: 1, Kind: timeline.RunPhase, To: "measuring"},
		{ID: 2, Source: 1, Seen: 20 * s, Kind: timeline.RunPhase, From: "measuring", To: "ended"}}
	tl := analyzed(t, run)
	if len(tl.Held) != 2 || len(tl.Incidents) != 1 || tl.Incidents[0].Cut != 2 || tl.Incidents[0].Failed != 0 {
		t.Fatalf("held %d, incidents %+v", len(tl.Held), tl.Incidents)
	}
	for i, slack := range []time.Duration{ms, 5 * ms} {
		h := tl.Held[i]
		c := h.List[0]
		drift := 20 * ms // a clock may be off by 1 ms per second since it was compared
		truth := model.Instant{Earliest: 9500 * ms, Latest: 10 * s}
		if c.Cut.Earliest > truth.Earliest-slack || c.Cut.Latest < truth.Latest+slack ||
			c.Cut.Earliest < truth.Earliest-slack-drift || c.Cut.Latest > truth.Latest+slack+drift {
			t.Errorf("%s: cut %+v, want %+v widened by %v", h.Target, c.Cut, truth, slack)
		}
		if *c.After != 14*ms || c.From != "web-1" || c.To != "web-2" || c.Failed != 1 {
			t.Errorf("%s: %+v: how long it took is measured by one clock", h.Target, c)
		}
		if h.Standing != 2 || h.After["web-2"] != 2 || h.Before["web-1"] != 1 || h.Windows[0].ID != i+1 {
			t.Errorf("%s: %+v", h.Target, h)
		}
	}
}

// While the run goes on, a connection that does not stand leaves its window live; facts that come later close it, and
// the whole is as Analyze says.
func TestACutWindowIsLiveUntilItsConnectionsAreBack(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	tr := NewTracker(Options{})
	tr.Add(timeline.Meta{ID: "live", T0: caseZero, Options: timeline.Options{Join: s, Timeout: 800 * ms}})
	tr.Add(timeline.Source{ID: 1, Name: "c", Role: timeline.Coordinator})
	tr.Add(timeline.Target{ID: 1, Name: "held", Kind: timeline.Held, Source: 1, Connections: 1, Rate: 1,
		Timeout: 800 * ms})
	tr.Add(timeline.HeldBatch{Source: 1, Changes: []timeline.HeldChange{{Target: 1, From: ms, At: 2 * ms}}})
	tr.SetEnd(5 * s)
	if h := tr.Brief().Held[0]; h.Standing != 1 || h.Cuts != 0 || len(h.Windows) != 0 {
		t.Errorf("before: %+v", h)
	}
	tr.Add(timeline.HeldBatch{Source: 1, FirstSeq: 1,
		Changes: []timeline.HeldChange{{Target: 1, Kind: timeline.HeldCut, Class: timeline.EOF, From: 4 * s,
			Answered: 4*s + ms, At: 5 * s}}})
	tr.SetEnd(6 * s)
	if h := tr.Brief().Held[0]; h.Standing != 0 || h.Missing != 1 || len(h.Windows) != 1 || !h.Windows[0].Live ||
		!h.Windows[0].Open.End {
		t.Errorf("cut: %+v", h)
	}
	tr.Add(timeline.HeldBatch{Source: 1, FirstSeq: 3,
		Changes: []timeline.HeldChange{{Target: 1, From: 6 * s, At: 6*s + 3*ms}}})
	tr.SetEnd(9 * s)
	h := tr.Brief().Held[0]
	if h.Standing != 1 || h.Missing != 0 || h.Windows[0].Live || h.Windows[0].Open.End || *h.List[0].After != s+3*ms {
		t.Errorf("back: %+v", h)
	}
	if h.NotOnRecord != 1 || !h.Open {
		t.Errorf("a change is missing in the record, and %+v does not say so", h)
	}
}
