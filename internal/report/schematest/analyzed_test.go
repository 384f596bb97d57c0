package schematest

import (
	"bytes"
	"iter"
	"net/netip"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/correlate/verdict"
	"lapse/internal/report"
	"lapse/timeline"
)

// What correlate makes of facts follows the schema, too: no list of it is null.
func TestAnalyzedRunsFollowTheSchema(t *testing.T) {
	for name, run := range map[string]timeline.Run{
		"a drain":           facts(10*time.Second, 6*time.Second, 200*time.Millisecond),
		"nothing failed":    facts(2*time.Second, time.Second, 0),
		"failing until end": facts(3*time.Second, 2*time.Second, time.Second),
	} {
		tl, err := correlate.Analyze(run, correlate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		gate, err := verdict.ParseGate("failed>0")
		if err != nil {
			t.Fatal(err)
		}
		verdict.Judge(tl, []verdict.Gate{gate})
		var document, table bytes.Buffer
		if err := report.JSON(&document, tl, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := Validate(document.Bytes()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := report.Table(&table, tl, report.Options{Width: 100, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s:\n%s", name, table.String())
	}
}

var t0 = time.Date(2026, 11, 21, 2, 20, 40, 0, time.UTC)

// facts are those of a run with a new and a direct target, in which both fail for a while.
func facts(length, from, outage time.Duration) timeline.Run {
	addr := netip.MustParseAddrPort("10.244.2.9:8080")
	targets := []timeline.Target{
		{ID: 1, Name: "web new", Kind: timeline.New, URL: "http://10.96.0.20/", Service: "shop/web", Rate: 200, Timeout: 800 * time.Millisecond},
		{ID: 2, Name: "web direct web-1", Kind: timeline.Direct, URL: "http://10.244.2.9:8080/", Service: "shop/web", Addr: addr, Pod: "shop/web-1", PodUID: "u1", Rate: 200, Timeout: 800 * time.Millisecond},
	}
	pod := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1", Node: "node-b"}
	return timeline.Run{
		Meta: timeline.Meta{
			ID: "run-1", Tool: "0.1.0", T0: t0, Command: []string{"kubectl", "drain", "node-b"}, Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
			Options: timeline.Options{Rate: 200, Timeout: 800 * time.Millisecond, Join: time.Second, Slow: 500 * time.Millisecond},
		},
		Targets: targets,
		Events: []timeline.Event{
			{ID: 1, Kind: timeline.RunPhase, To: "baseline"},
			{ID: 2, Seen: time.Millisecond, Kind: timeline.PodSeen, To: "Running", Detail: "listed", Object: pod, Addr: addr.Addr(), Writer: "apiserver", Stamp: t0.Add(-time.Hour)},
			{ID: 3, Seen: time.Millisecond, Kind: timeline.PodReady, To: "true", Object: pod},
			{ID: 4, Seen: time.Millisecond, Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Object: pod, Addr: addr.Addr(), Port: 8080},
			{ID: 5, Seen: 2 * time.Millisecond, Kind: timeline.TargetChanged, To: "measuring", Object: timeline.Object{Name: "web new"}},
			{ID: 6, Seen: time.Second, Kind: timeline.RunPhase, From: "baseline", To: "measuring"},
			{ID: 7, Seen: time.Second, Kind: timeline.Command, To: "running", Detail: "kubectl drain node-b"},
			{ID: 8, Seen: from, Kind: timeline.PodDeleted, Object: pod, Grace: new(30 * time.Second), Writer: "apiserver", Stamp: t0.Add(from)},
			{ID: 9, Seen: from + outage, Kind: timeline.EndpointChanged, From: timeline.EndpointReady, To: timeline.EndpointTerminating, Object: pod, Addr: addr.Addr(), Port: 8080},
			{ID: 10, Seen: length, Kind: timeline.Command, From: "running", To: "exited"},
			{ID: 11, Seen: length, Kind: timeline.RunPhase, From: "measuring", To: "ended"},
		},
		Batches: requests(targets, length, from, outage),
	}
}

func requests(targets []timeline.Target, length, from, outage time.Duration) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		var batch timeline.Batch
		for due := time.Duration(0); due < length; due += targets[0].Interval() {
			for _, target := range targets {
				r := timeline.Request{Target: target.ID, Seq: uint64(due / target.Interval()), Due: due, Sent: due, Done: due + time.Millisecond}
				if due >= from && due < from+outage {
					r.Class = timeline.Refused
				}
				batch.Requests = append(batch.Requests, r)
			}
		}
		for _, target := range targets {
			batch.Watermarks = append(batch.Watermarks, timeline.Watermark{Target: target.ID, Due: length})
		}
		yield(batch, nil)
	}
}
