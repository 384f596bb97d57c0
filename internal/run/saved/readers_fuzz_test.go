package saved

import (
	"io"
	"math"
	"path/filepath"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/timeline"
)

// FuzzAnyRecordingIsJudgedOrRefused reads recordings with right checksums and any values: each is judged and shown in
// every format, or refused with an error.
func FuzzAnyRecordingIsJudgedOrRefused(f *testing.F) {
	const s = int64(time.Second)
	f.Add(100.0, 0.99, s, s, int64(0), s/10, s/10, s/5, 2*s, s, int64(0), s, uint8(0), uint8(1))
	f.Add(100.0, 0.99, -s, s, int64(0), s/10, s/10, s/5, 2*s, s, int64(0), s, uint8(0), uint8(1))                                                                             // timeout: -1s
	f.Add(100.0, 0.99, s, s, int64(0), s/10, s/10, s/5, int64(math.MaxInt64), s, int64(0), s, uint8(0), uint8(1))                                                             // watermark: 2^63-1
	f.Add(100.0, -1.0, s, s, int64(0), 3600*s, 3600*s, int64(0), 2*s, s, int64(0), s, uint8(0), uint8(1))                                                                     // done an hour before due
	f.Add(1e308, 2.0, s, int64(math.MaxInt64), s, s/10, s/10, s/5, 2*s, s, int64(0), s, uint8(1), uint8(2))                                                                   // rate, join
	f.Add(math.NaN(), math.NaN(), s, s, -s, s/10, s/10, s/5, 2*s, int64(math.MinInt64), int64(math.MaxInt64), -s, uint8(3), uint8(3))                                         // an event's instants
	f.Add(1e-8, 1.0, 86400*3650*s, 86400*3650*s, 86400*3650*s, int64(0), int64(0), 86400*3650*s, 86400*3650*s, 86400*3650*s, -86400*3650*s, 86400*3650*s, uint8(2), uint8(0)) // every bound
	f.Fuzz(func(t *testing.T, rate, minCoverage float64, timeout, join, baseline, due, sent, done, mark, seen, since, grace int64, kind, class uint8) {
		kinds := []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct, timeline.Held, timeline.Control, "other"}
		target := timeline.Target{ID: 1, Name: "a new", Kind: kinds[int(kind)%len(kinds)], Source: 1, Service: "shop/a", Rate: rate, Timeout: time.Duration(timeout), Connections: int(kind), PodUID: "u1"}
		r := timeline.Request{Target: 1, Due: time.Duration(due), Sent: time.Duration(sent), Done: time.Duration(done)}
		r.Class = timeline.Class(class % uint8(timeline.NumClasses))
		next := r
		next.Seq, next.Class = 1, timeline.OK
		object := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "a-1", UID: "u1", Node: "n1"}
		facts := []timeline.Fact{
			timeline.Meta{ID: "r1", T0: time.Unix(1767323045, 0), Options: timeline.Options{Rate: rate, Timeout: time.Duration(timeout), Join: time.Duration(join), Baseline: time.Duration(baseline), MinCoverage: minCoverage}},
			timeline.Source{ID: 1, Name: "here"}, timeline.Sync{Source: 1, At: time.Duration(seen), Min: time.Duration(since), Max: time.Duration(join)},
			target,
			timeline.Batch{Source: 1, Requests: []timeline.Request{r, next}, Watermarks: []timeline.Watermark{{Target: 1, Due: time.Duration(mark)}}},
			timeline.HeldBatch{Source: 1, Changes: []timeline.HeldChange{{Target: 1, From: time.Duration(due), At: time.Duration(done), Answered: time.Duration(sent)}}},
			timeline.Event{ID: 1, Source: 1, Kind: timeline.RunPhase, To: "measuring"},
			timeline.Event{ID: 2, Source: 1, Seen: time.Duration(seen), Since: time.Duration(since), Kind: timeline.ProberStall},
			timeline.Event{ID: 3, Source: 1, Seen: time.Duration(seen), Kind: timeline.PodDeleted, Object: object, Grace: new(time.Duration(grace))},
			timeline.Event{ID: 4, Source: 1, Seen: time.Duration(seen), Kind: timeline.EndpointChanged, Service: "shop/a", Object: object, From: timeline.EndpointReady, To: timeline.EndpointAbsent},
			timeline.Event{ID: 5, Source: 1, Seen: time.Duration(mark), Kind: timeline.RunPhase, From: "measuring", To: "ended"},
		}
		dir := t.TempDir()
		w, err := record.Create(filepath.Join(dir, FactsFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, fact := range facts {
			if err := w.Append(fact); err != nil {
				continue // it cannot be written
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		tl, err := Load(dir, correlate.Options{}, []string{"failed>0"})
		if err != nil {
			return
		}
		for _, format := range report.Formats {
			_ = Print(io.Discard, dir, Output{Format: format.Name, Verbose: true}, tl) // a format may refuse a value
		}
	})
}
