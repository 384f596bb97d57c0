package integration

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"lapse/internal/record"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// facts has what a recording holds.
type facts struct {
	run      timeline.Run
	requests map[string][]timeline.Request // by the target's name, by Sent
}

// readFacts reads the intact part of a run's recording, and demands that it is gapless: every request that was due is
// there, once, as far as the recording promises.
func readFacts(t *testing.T, dir string) facts {
	t.Helper()
	file, err := record.Open(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	run, err := file.Run()
	if err != nil && !errors.Is(err, record.ErrTruncated) {
		t.Fatal(err)
	}
	f := facts{run: run, requests: map[string][]timeline.Request{}}
	names := map[timeline.TargetID]string{}
	for _, target := range run.Targets {
		names[target.ID] = target.Name
	}
	promised := map[string]timeline.Watermark{}
	for batch, err := range run.Batches {
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range batch.Requests {
			f.requests[names[q.Target]] = append(f.requests[names[q.Target]], q)
		}
		for _, mark := range batch.Watermarks {
			promised[names[mark.Target]] = mark
		}
	}
	for name, requests := range f.requests {
		slices.SortFunc(requests, func(a, b timeline.Request) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, q := range requests {
			if q.Due < promised[name].Due && q.Seq != uint64(i) {
				t.Fatalf("%s: request %d is missing or there twice", name, i)
			}
		}
		slices.SortFunc(requests, func(a, b timeline.Request) int { return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.Seq, b.Seq)) })
	}
	return f
}

// told returns the requests whose outcome says something about the target, by Sent.
func (f facts) told(target string) (told []timeline.Request) {
	for _, q := range f.requests[target] {
		if q.Class.Observed() {
			told = append(told, q)
		}
	}
	return told
}
