package record_test

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate"
	"lapse/internal/record"
	"lapse/timeline"
)

var (
	rewrite = flag.Bool("rewrite-kept-recording", false, "write testdata/format5.lapse anew, which no later Lapse should ever do")
	update  = flag.Bool("update", false, "rewrite what the kept recording is judged to be")
)

const (
	kept     = "testdata/format5.lapse"
	judged   = "testdata/format5.json"
	keptHeld = "testdata/format5-held.lapse" // recorded when there were held connections
)

// The recording in testdata was written when its format was new. Every later Lapse reads it, and judges it to be the
// same but for causes: a change of the golden file is to be explained, one of the recording is not to be made.
func TestTheKeptRecordingIsReadForEver(t *testing.T) {
	if *rewrite {
		writeKept(t)
	}
	f, err := record.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	var got []timeline.Fact
	got = append(got, run.Meta)
	for _, s := range run.Sources {
		got = append(got, s)
	}
	for _, s := range run.Syncs {
		got = append(got, s)
	}
	for _, target := range run.Targets {
		got = append(got, target)
	}
	for _, b := range run.Backends {
		got = append(got, b)
	}
	for _, p := range run.Peers {
		got = append(got, p)
	}
	for _, e := range run.Events {
		got = append(got, e)
	}
	for b, err := range run.Batches {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b)
	}
	if diff := cmp.Diff(keptFacts(), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("the facts are not those that were recorded (-recorded +read):\n%s", diff)
	}
	tl, err := correlate.Analyze(run, correlate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tl.Incidents = nil
	for i := range tl.Windows {
		tl.Windows[i].Causes = nil
	}
	text, err := json.MarshalIndent(tl, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(judged, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(judged)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
		t.Error(diff)
	}
}

// What became of held connections is read for ever, too.
func TestTheKeptRecordingOfHeldConnectionsIsReadForEver(t *testing.T) {
	if *rewrite {
		writeRecording(t, keptHeld, keptHeldFacts())
	}
	f, err := record.Open(keptHeld)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	var got []timeline.Fact
	for _, b := range run.Held {
		got = append(got, b)
	}
	if diff := cmp.Diff(keptHeldFacts(), got); diff != "" {
		t.Errorf("the facts are not those that were recorded (-recorded +read):\n%s", diff)
	}
}

func keptHeldFacts() []timeline.Fact {
	ms := time.Millisecond
	return []timeline.Fact{
		timeline.HeldBatch{Source: 1, Changes: []timeline.HeldChange{
			{Target: 3, Conn: 0, Kind: timeline.HeldOpened, From: 10 * ms, At: 12 * ms, Backend: 1, Peer: 1},
			{Target: 3, Conn: 1, Kind: timeline.HeldOpened, From: 11 * ms, At: 14 * ms, Backend: 2, Peer: 1},
		}},
		timeline.HeldBatch{Source: 1, FirstSeq: 2, Changes: []timeline.HeldChange{
			{Target: 3, Conn: 1, Kind: timeline.HeldCut, Class: timeline.Reset, From: 2000 * ms, Answered: 2001 * ms, At: 3500 * ms, Backend: 2, Peer: 1},
			{Target: 3, Conn: 1, Kind: timeline.HeldFailed, Class: timeline.Refused, From: 3500 * ms, At: 3501 * ms, Peer: 1},
			{Target: 3, Conn: 1, Kind: timeline.HeldOpened, From: 3511 * ms, At: 3514 * ms, Backend: 1, Peer: 1},
			{Target: 3, Conn: 0, Kind: timeline.HeldCut, Class: timeline.EOF, From: 3600 * ms, Answered: 3601 * ms, At: 3601 * ms, Warned: true, Backend: 1, Peer: 1},
			{Target: 70000, Conn: 4999, Kind: timeline.HeldCut, Class: timeline.TimeoutResponse, From: 1000 * ms, Answered: 1002 * ms, At: 7000 * ms, Stopped: true, Backend: 65535, Peer: 65535},
			{Target: 3, Conn: 1, Kind: timeline.HeldClosed, From: 8000 * ms, Answered: 8001 * ms, At: 9000 * ms, Backend: 1, Peer: 1},
		}},
	}
}

func writeKept(t *testing.T) { writeRecording(t, kept, keptFacts()) }

func writeRecording(t *testing.T, path string, facts []timeline.Fact) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range facts {
		if err := w.Append(fact); err != nil {
			t.Fatal(err)
		}
		if _, ok := fact.(timeline.Batch); !ok {
			continue
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// keptFacts are a run of 4 s with an outage of 1 s, in which there is a fact of every kind.
func keptFacts() []timeline.Fact {
	t0 := time.Date(2026, 11, 22, 9, 0, 0, 123456789, time.UTC)
	pod := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1", Node: "node2"}
	addr := netip.MustParseAddr("10.0.0.7")
	facts := []timeline.Fact{
		timeline.Meta{
			ID: "kept", Tool: "0.1.0", T0: t0, Services: []timeline.Service{{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.7", Ports: []string{"80/TCP → http"}, Measured: []string{"http"}}},
			Options: timeline.Options{Rate: 50, Timeout: 800 * time.Millisecond, Duration: 4 * time.Second, Join: time.Second, Gates: []string{"failed > 0"}},
		},
		timeline.Source{ID: 1, Name: "lapse-x", Role: timeline.Coordinator, Node: "node1", Zone: "a", Pod: "shop/lapse-x", Version: "0.1.0", T0: t0},
		timeline.Sync{Source: 1, At: time.Second, Min: -time.Microsecond, Max: time.Microsecond},
		timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, Source: 1, URL: "http://web.shop/", Service: "shop/web", PortName: "http", Rate: 50, Timeout: 800 * time.Millisecond},
		timeline.Target{ID: 70000, Name: "web direct web-1", Kind: timeline.Direct, Source: 1, URL: "http://10.0.0.7:8080/", Service: "shop/web", PortName: "http",
			Addr: netip.AddrPortFrom(addr, 8080), Pod: "shop/web-1", PodUID: "u1", PodNode: "node2", Rate: 10, Timeout: 800 * time.Millisecond},
		timeline.Backend{Source: 1, ID: 1, Name: "web-1"},
		timeline.Peer{Source: 1, ID: 1, Addr: netip.MustParseAddrPort("10.96.0.7:80")},
		timeline.Event{ID: 1, Source: 1, Kind: timeline.RunPhase, To: "measuring", Writer: "lapse"},
		timeline.Event{ID: 2, Source: 1, Seen: time.Millisecond, Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Object: pod, Addr: addr, Port: 8080, PortName: "http", Service: "shop/web", Writer: "apiserver"},
		timeline.Event{ID: 3, Source: 1, Seen: 1990 * time.Millisecond, Since: 1980 * time.Millisecond, Kind: timeline.PodDeleted, Object: pod, Addr: addr, Grace: new(30 * time.Second), Stamp: t0.Add(2 * time.Second).Truncate(time.Second), Writer: "apiserver"},
		timeline.Event{ID: 4, Source: 1, Seen: 2 * time.Second, Kind: timeline.PodContainer, From: "running", To: "terminated", Object: pod, ExitCode: new(0), Detail: "app Completed", Writer: "kubelet/node2"},
		timeline.Event{ID: 5, Source: 1, Seen: 4 * time.Second, Kind: timeline.RunPhase, From: "measuring", To: "ended", Writer: "lapse"},
	}
	for s := range 4 {
		facts = append(facts, keptBatch(s))
	}
	return facts
}

// keptBatch is what ended in a second.
func keptBatch(s int) timeline.Batch {
	b := timeline.Batch{Source: 1, FirstSeq: uint64(60 * s)}
	add := func(target timeline.TargetID, n int) {
		for i := range n {
			due := time.Duration(s)*time.Second + time.Duration(i)*time.Second/time.Duration(n)
			r := timeline.Request{Target: target, Seq: uint64(n*s + i), Due: due, Sent: due + time.Duration(20+i)*time.Microsecond}
			r.Connect, r.Peer = timeline.Micros(100+7*i), 1
			if s == 2 {
				r.Class = timeline.Refused
			} else {
				r.Code, r.Backend, r.FirstByte = 200, 1, timeline.Micros(300+11*i)
			}
			r.Done = r.Sent + r.Connect.Duration() + r.FirstByte.Duration() + 40*time.Microsecond
			b.Requests = append(b.Requests, r)
		}
		b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: target, Due: time.Duration(s+1) * time.Second})
	}
	add(1, 50)
	add(70000, 10)
	return b
}
