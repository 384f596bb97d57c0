package correlate

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Analyze judges a recorded run: what a [Tracker] says once it was given every fact. It reads the
// run's batches once and keeps no requests but the failed ones, so ten million need little memory.
//
// Where the record is damaged or breaks off, Analyze judges what is there and says so in Run.Truncated and
// Run.Aborted. Where the run's end is known, the time up to it is unobserved. An error tells that
// there is nothing to judge.
func Analyze(run timeline.Run, o Options) (*model.Timeline, error) {
	t := NewTracker(o)
	t.Add(run.Meta)
	for _, s := range run.Sources {
		t.Add(s)
	}
	for _, s := range run.Syncs {
		t.Add(s)
	}
	for _, target := range run.Targets {
		t.Add(target)
	}
	for _, p := range run.Peers {
		t.Add(p)
	}
	for _, b := range run.Backends {
		t.Add(b)
	}
	for _, e := range run.Events {
		t.Add(e)
	}
	for _, b := range run.Held {
		t.Add(b)
	}
	if run.Batches != nil {
		for b, err := range run.Batches {
			if err != nil {
				t.damage = "the record is not whole: " + err.Error()
				break
			}
			t.Add(b)
		}
	}
	if len(t.order) == 0 {
		return nil, fmt.Errorf("judge the run: it measured no target%s", because(t.damage))
	}
	t.closed = true
	return t.Timeline(), nil
}

func because(damage string) string {
	if damage == "" {
		return ""
	}
	return ": " + damage
}
