package record

import (
	"cmp"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

// A block that is whole, but states what no run can have, is left out like a damaged one, and the error names it.
func TestABlockThatNoRunCanHaveWrittenIsLeftOut(t *testing.T) {
	_, data, _ := damaged(t)
	request := func(r timeline.Request) timeline.Batch {
		r.Target, r.Seq = 1, 100
		return timeline.Batch{Source: 1, FirstSeq: 100, Requests: []timeline.Request{r}}
	}
	for _, test := range []struct {
		says string
		fact timeline.Fact
	}{
		{`target "x": timeout is -1s`, timeline.Target{ID: 2, Name: "x", Timeout: -time.Second}},
		{`target "x": rate is -1 `, timeline.Target{ID: 2, Name: "x", Rate: -1}},
		{`target "x": rate is 1e+308 `, timeline.Target{ID: 2, Name: "x", Rate: 1e308}},
		{`target "x": rate is 1e-300 `, timeline.Target{ID: 2, Name: "x", Rate: 1e-300}},
		{`target "x": connections is -1`, timeline.Target{ID: 2, Name: "x", Connections: -1}},
		{"heartbeats", timeline.Target{ID: 2, Name: "x", Kind: timeline.Held, Connections: 1 << 20, Rate: 1e-8}},
		{"watermark is 2562047h", timeline.Batch{Source: 1, FirstSeq: 100, Watermarks: []timeline.Watermark{{Target: 1, Due: math.MaxInt64 / 1000 * 1000}}}},
		{"sent is 1h0m0s, which is after done", request(timeline.Request{Due: time.Hour, Sent: time.Hour})},
		{"due is 1h0m0s, which is after sent", request(timeline.Request{Due: time.Hour, Done: time.Hour})},
		{"due is 1281023h", request(timeline.Request{Due: 1 << 62, Sent: 1 << 62, Done: 1 << 62})},
		{"event 11: seen is", timeline.Event{ID: 11, Source: 1, Seen: math.MaxInt64}},
		{"event 11: since is", timeline.Event{ID: 11, Source: 1, Since: math.MinInt64}},
		{"event 11: grace is -1s", timeline.Event{ID: 11, Source: 1, Grace: new(-time.Second)}},
		{"event 11: stamp is in the year 9999", timeline.Event{ID: 11, Source: 1, Stamp: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"min is 2s, which is after max, 1s", timeline.Sync{Source: 1, Min: 2 * time.Second, Max: time.Second}},
		{"source 2: t0 is in the year 9999", timeline.Source{ID: 2, T0: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"from is 1h0m0s, which is after at", timeline.HeldBatch{Source: 1, Changes: []timeline.HeldChange{{From: time.Hour}}}},
	} {
		run, batches, err := readAll(t, append(data[:len(data):len(data)], framed(t, test.fact)...))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "are left out: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("error %v, want one that says %q", err, test.says)
		}
		if len(batches) != 10 || len(run.Targets) != 1 || len(run.Events) != 10 || len(run.Syncs)+len(run.Held) > 0 || len(run.Sources) != 1 {
			t.Errorf("%s: it was not left out: %+v", test.says, run)
		}
	}
	for says, options := range map[string]timeline.Options{
		"join is": {Join: 1 << 62}, "minCoverage is -1": {MinCoverage: -1}, "minCoverage is 1.5": {MinCoverage: 1.5},
		"baseline is": {Baseline: -1}, "timeout is": {Timeout: -1}, "rate is": {Rate: 1e12}, "slow is": {Slow: -1}, "resolution is": {Resolution: -1},
		"duration is": {Duration: -1}, "settle is": {Settle: -1},
	} {
		_, _, err := readAll(t, append(header(), framed(t, timeline.Meta{ID: "r1", Options: options})...))
		if want := "the run's description: " + says; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// readAll reads a recording whatever is wrong with it, and returns the first error, of the run or of its batches.
func readAll(t *testing.T, data []byte) (timeline.Run, []timeline.Batch, error) {
	t.Helper()
	path := t.TempDir() + "/crafted.lapse"
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	defer f.Close() // it is called very often
	run, err := f.Run()
	batches, berr := collect(run.Batches)
	return run, batches, cmp.Or(err, berr)
}
