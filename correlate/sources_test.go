package correlate

import (
	"testing"
	"time"

	"lapse/timeline"
)

// Two probers number their backends each for itself, and a stall of one says nothing of the other.
func TestASourceHasItsOwnStallsAndBackends(t *testing.T) {
	const interval = 10 * time.Millisecond
	run := timeline.Run{
		Meta:     timeline.Meta{ID: "two"},
		Sources:  []timeline.Source{{ID: 1, Name: "east", Node: "node1"}, {ID: 2, Name: "west", Node: "node2"}},
		Backends: []timeline.Backend{{Source: 1, ID: 1, Name: "web-1"}, {Source: 2, ID: 1, Name: "web-2"}},
		Events: []timeline.Event{{ID: 1, Source: 1, Kind: timeline.ProberStall, Since: time.Second,
			Seen: 2 * time.Second}},
	}
	var requests []timeline.Request
	for id := timeline.TargetID(1); id <= 2; id++ {
		run.Targets = append(run.Targets, timeline.Target{ID: id, Name: []string{"east new", "west new"}[id-1],
			Kind: timeline.New, Source: timeline.SourceID(id), Rate: 100, Timeout: time.Second})
		for i := range 300 {
			due := time.Duration(i) * interval
			r := timeline.Request{Target: id, Seq: uint64(i), Due: due, Sent: due, Done: due + time.Millisecond,
				Outcome: timeline.Outcome{Code: 200, Backend: 1}}
			if i == 250 {
				r.Class, r.Code = timeline.HTTP5xx, 503
			}
			requests = append(requests, r)
		}
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) { yield(timeline.Batch{Requests: requests}, nil) }
	tl := analyzed(t, run)
	if len(tl.Unobserved) != 1 || tl.Unobserved[0].Target != "east new" {
		t.Errorf("unobserved: %+v, want the stall of east alone", tl.Unobserved)
	}
	if len(tl.Failures) != 2 || tl.Failures[0].Backend != "web-1" || tl.Failures[1].Backend != "web-2" {
		t.Errorf("failures: %+v, want one of web-1 and one of web-2", tl.Failures)
	}
	if got := tl.Targets[1]; got.Source != "west" || got.Node != "node2" {
		t.Errorf("the second target is of %s on %s", got.Source, got.Node)
	}
}
