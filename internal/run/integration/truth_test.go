package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/truth"
	"lapse/correlate/verdict"
	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/report/schematest"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// These tests hold whole runs over real sockets against a server that knows when it failed. They demand
// what is true on a machine of any speed: where it was too busy to measure, the run has to say so, and
// nothing more is asked of it there.

func TestTruthOfATotalOutageLiesInTheBrackets(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	r := measured(t, 0, []faultserver.Fault{{Kind: faultserver.Refuse, From: time.Second, To: 1500 * time.Millisecond}},
		"--rate=400", "--baseline=500ms", "--duration=1700ms", "--timeout=5s", "--slow=30s", "--fail-if=failed>0")
	outage := r.server.Outages()[0]
	down := truth.Outage{Start: r.place(outage.Close), End: r.place(outage.Open)}
	for _, target := range r.judged() {
		r.checkFault(t, target, down)
		r.checkDown(t, target, down)
	}
}

func TestTruthOfEverySecondConnectionResetLiesInTheBrackets(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			from, to := 800*time.Millisecond, 1100*time.Millisecond
			r := measured(t, seed, []faultserver.Fault{{Kind: faultserver.Reset, From: from, To: to, Share: 0.5}},
				"--rate=400", "--baseline=400ms", "--duration=1200ms", "--timeout=5s", "--slow=30s", "--fail-if=failed>0")
			for _, target := range r.judged() {
				r.checkFault(t, target, r.decided(from, to))
			}
			r.checkCounts(t, map[faultserver.Kind]timeline.Class{faultserver.Reset: timeline.Reset})
		})
	}
}

func TestTruthOfAStallLongerThanTheTimeoutLiesInTheBrackets(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	from, to := 1400*time.Millisecond, 2350*time.Millisecond
	r := measured(t, 0, stall(from, to), "--rate=300", "--baseline=500ms", "--duration=2500ms", "--timeout=600ms", "--slow=30s", "--fail-if=failed>0")
	for _, target := range r.judged() {
		r.checkFault(t, target, r.stalled(from, to))
	}
	t.Logf("%d requests timed out, the server stalled %d", r.count(timeline.TimeoutResponse), r.server.Count(faultserver.Stall))
}

// What is under way when the run ends is waited for, and counts like everything before.
func TestTruthOfWhatOutlastsTheRun(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	args := []string{"--rate=400", "--baseline=400ms", "--duration=600ms", "--slow=30s"}
	t.Run("a stall", func(t *testing.T) {
		from, to := 800*time.Millisecond, time.Hour
		r := measured(t, 0, stall(from, to), args...)
		for _, target := range r.judged() {
			r.checkFault(t, target, r.stalled(from, to))
		}
		stalled, timedOut, ours := r.server.Count(faultserver.Stall), r.count(timeline.TimeoutResponse), r.count(timeline.Local)
		if beside := r.besideStops(timeline.TimeoutResponse); timedOut-beside > stalled || timedOut+ours < stalled {
			t.Errorf("%d requests timed out, %d of them beside a stop, and %d were spoilt by ourselves, the server stalled %d", timedOut, beside, ours, stalled)
		}
		t.Logf("%d requests timed out, the server stalled %d", timedOut, stalled)
	})
	t.Run("slow answers", func(t *testing.T) {
		r := measured(t, 0, []faultserver.Fault{{Kind: faultserver.Slow, To: time.Hour, Delay: 300 * time.Millisecond}}, append(args, "--timeout=1s")...)
		t.Logf("%d requests ok, the server answered %d", r.count(timeline.OK), r.server.Answered())
	})
}

func TestTruthIsCountedAsTheServerCounts(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	from, to := 400*time.Millisecond, 1600*time.Millisecond
	kinds := map[faultserver.Kind]timeline.Class{
		faultserver.Reset: timeline.Reset, faultserver.EOF: timeline.EOF,
		faultserver.Error: timeline.HTTP5xx, faultserver.Truncate: timeline.Body,
	}
	r := measured(t, 0, []faultserver.Fault{
		{Kind: faultserver.Reset, From: from, To: to, Every: 11},
		{Kind: faultserver.EOF, From: from, To: to, Every: 7},
		{Kind: faultserver.Error, From: from, To: to, Every: 5},
		{Kind: faultserver.Truncate, From: from, To: to, Every: 9},
		{Kind: faultserver.Goodbye, From: 0, To: to, Every: 6}, // no fault, and not to be taken for one
	}, "--rate=400", "--baseline=300ms", "--duration=1700ms", "--timeout=5s", "--slow=30s", "--join=5s")
	for _, target := range r.judged() {
		r.checkFault(t, target, r.decided(from, to))
	}
	r.checkCounts(t, kinds)
	r.checkAnswered(t, r.server)
}

// Idle connections that the server closes are no failures, unless a request crosses with the close: the server
// read it and left it.
func TestTruthOfConnectionsClosedWhileIdle(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	closed := 0
	r := measuredWith(t, faultserver.Config{}, func(s *faultserver.Server, ended <-chan struct{}) {
		for {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond): // how often connections are closed is the scenario
				closed += s.CutIdle()
			}
		}
	}, "--rate=300", "--baseline=200ms", "--duration=1s", "--timeout=5s", "--slow=30s")
	r.checkCounts(t, map[faultserver.Kind]timeline.Class{faultserver.EOF: timeline.EOF})
	t.Logf("%d idle connections were closed, %d requests crossed with that", closed, r.server.Count(faultserver.EOF))
}

// besideStops counts the requests of a class during which this machine, and the server with it, stood still for as
// long as the timeout.
func (s *savedRun) besideStops(class timeline.Class) (n int) {
	stops := slices.DeleteFunc(s.stops(), func(stop faultserver.Span) bool { return stop.To-stop.From < s.facts.run.Meta.Options.Timeout*9/10 })
	for _, target := range s.judged() {
		for _, q := range s.facts.requests[target.Name] {
			if q.Class == class && meets(stops, q) {
				n++
			}
		}
	}
	return n
}

// A trial is one run against a server, with all that is to be compared.
type trial struct {
	savedRun
	server *faultserver.Server
	offset time.Duration // the zero of the server's clock on the run's
	drift  time.Duration // how much the wall clock, on which both zeros are known, moved against the monotonic one
}

func measured(t *testing.T, seed uint64, faults []faultserver.Fault, args ...string) *trial {
	t.Helper()
	return measuredWith(t, faultserver.Config{Seed: seed, Faults: faults}, nil, args...)
}

// measuredWith runs `lapse run` against a server, while meanwhile runs too, if it is not nil. It checks what must hold
// of every run.
func measuredWith(t *testing.T, c faultserver.Config, meanwhile func(*faultserver.Server, <-chan struct{}), args ...string) *trial {
	t.Helper()
	c.T0 = time.Now()
	server, err := faultserver.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		if meanwhile != nil {
			meanwhile(server, ended)
		}
	}()
	var stdout bytes.Buffer
	code := cli.Main(t.Context(), append([]string{"lapse", "run", server.URL(), "--out=" + dir, "-o=json"}, args...), &stdout, t.Output())
	close(ended)
	<-over
	runtest.WaitFor(t, "the server's outages to end", func() bool { return len(server.Outages()) == refusals(c.Faults) })
	drift := (time.Since(c.T0) - time.Now().Round(0).Sub(c.T0.Round(0))).Abs()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	r := &trial{savedRun: loadSaved(t, dir), server: server, drift: drift}
	r.offset = c.T0.Round(0).Sub(r.tl.T0)
	r.check(t, code, stdout.Bytes())
	r.checkOurOwn(t)
	return r
}

// refusals counts the faults that are outages of the listener.
func refusals(faults []faultserver.Fault) (n int) {
	for _, f := range faults {
		if f.Kind == faultserver.Refuse {
			n++
		}
	}
	return n
}

// place puts what the server knows on the run's clock.
func (r *trial) place(s faultserver.Span) truth.Span {
	return truth.Span{From: s.From + r.offset - r.drift, To: s.To + r.offset + r.drift}
}

// decided returns a fault of the requests that were read between two instants. The server looks at its clock when it
// has read a request, so the bounds are exact.
func (r *trial) decided(from, to time.Duration) truth.Outage {
	return truth.Outage{Start: r.place(faultserver.Span{From: from, To: from}), End: r.place(faultserver.Span{From: to, To: to})}
}

// stall returns the faults of a server that stalls, and whose answers take 30 ms otherwise: a missing answer shows 30
// ms late.
func stall(from, to time.Duration) []faultserver.Fault {
	return []faultserver.Fault{
		{Kind: faultserver.Stall, From: from, To: to},
		{Kind: faultserver.Slow, To: time.Hour, Delay: 30 * time.Millisecond},
	}
}

// stalled returns the outage that stall makes. It begins with the first request without an answer, which may have been
// sent before and read late. The echo server inside the prober tells how late requests are read on this machine.
func (r *trial) stalled(from, to time.Duration) truth.Outage {
	f := r.decided(from, to)
	f.Start.From -= r.roundTrip("control", f.Start.To-500*time.Millisecond, f.Start.To+500*time.Millisecond)
	return f
}

// checkFault demands that all failures of target come from f, and lie in one window whose brackets hold its truth.
// f is shorter than --join.
func (r *trial) checkFault(t *testing.T, target model.Target, f truth.Outage) {
	t.Helper()
	for _, resolution := range resolutions {
		r.at(t, resolution).checkFaultOnce(t, target, f)
	}
}

func (r *trial) checkFaultOnce(t *testing.T, target model.Target, f truth.Outage) {
	t.Helper()
	failures := r.failures(target.Name)
	windows := r.windows(target.Name)
	if !r.checkNothingInvented(t, target, failures, f) {
		return
	}
	if len(failures) == 0 {
		if len(windows) > 0 {
			t.Errorf("%s: %d windows without a failure", target.Name, len(windows))
		}
		t.Logf("%s: nothing failed", target.Name)
		return
	}
	if len(windows) != 1 {
		t.Fatalf("%s: %d windows, want one: %+v", target.Name, len(windows), windows)
	}
	w := windows[0]
	start, end := f.Edges(windows)
	if !start.Held {
		r.checkSpared(t, target, w, "start", start, w.Start.Latest >= f.Start.From, r.good(target.Name, f.Start.To, failures[0].Sent))
	}
	if !end.Held {
		r.checkSpared(t, target, w, "end", end, w.End.Earliest <= f.End.To, r.good(target.Name, failures[len(failures)-1].Sent, f.End.From))
	}
	t.Logf("%s: %s, %s, %d of %d; start %v wide, truth %v after its earliest; end %v wide, truth %v after its earliest; open %+v", target.Name, w.Kind, w.Basis,
		w.Failed, w.Sent, w.Start.Latest-w.Start.Earliest, f.Start.To-w.Start.Earliest, w.End.Latest-w.End.Earliest, f.End.To-w.End.Earliest, w.Open)
}

// checkNothingInvented reports whether all failures are the fault's. Any other timeout is a failure of this machine:
// it is passed over if the run says that it did not observe that time.
func (r *trial) checkNothingInvented(t *testing.T, target model.Target, failures []timeline.Request, f truth.Outage) bool {
	t.Helper()
	clean := true
	for _, q := range failures {
		if q.Sent <= f.End.To && q.Done >= f.Start.From {
			continue
		}
		clean = false
		if q.Class.Timeout() && r.hasGap(target.Name, q.Sent, q.Done) {
			t.Logf("%s: request %d timed out while the run was not observing", target.Name, q.Seq)
			continue
		}
		t.Errorf("%s: request %d, sent %v and done %v, was %s; the fault lasted from %v to %v", target.Name, q.Seq, q.Sent, q.Done, q.Class, f.Start, f.End)
	}
	return clean
}

// checkSpared demands that a bracket which does not hold the truth ends before it only because the fault spared so
// many requests in a row that no one could know that it lasted.
func (r *trial) checkSpared(t *testing.T, target model.Target, w model.Window, name string, e truth.Edge, beside bool, spared int) {
	t.Helper()
	if !beside || spared < provedBy(w) {
		t.Errorf("%s: %s in %+v, which does not hold the truth, and the fault spared only %d requests beside it", target.Name, name, e.Bracket, spared)
	}
	t.Logf("%s: the fault spared %d requests at its %s", target.Name, spared, name)
}

// provedBy returns how many good requests in a row prove health, by the design, before or after a window in which a
// share of requests failed at random. Where the fault spared as many, no one could know that it lasted.
func provedBy(w model.Window) int {
	if w.Failed == w.Sent {
		return 1
	}
	return int(math.Ceil(math.Log(0.01) / math.Log1p(-w.Share)))
}

// checkDown demands that nothing was up in a total outage, and that the outage was seen if it was longer than what
// the run says may have escaped it.
func (r *trial) checkDown(t *testing.T, target model.Target, f truth.Outage) {
	t.Helper()
	for _, resolution := range resolutions {
		at := r.at(t, resolution)
		at.checkDownOnce(t, at.named(t, target.Name), f)
	}
}

func (r *trial) checkDownOnce(t *testing.T, target model.Target, f truth.Outage) {
	t.Helper()
	if n := r.good(target.Name, f.Start.To, f.End.From); n > 0 {
		t.Errorf("%s: %d requests succeeded while nobody listened", target.Name, n)
	}
	length := f.End.From - f.Start.To
	if len(r.windows(target.Name)) == 0 && length > target.Resolution && !r.hasGap(target.Name, f.Start.From, f.End.To) {
		t.Errorf("%s: an outage of %v was not seen, though only one of up to %v could be missed", target.Name, length, target.Resolution)
	}
	for _, w := range r.windows(target.Name) {
		if wantOutage := w.Failed >= 3 && w.Failed == w.Sent; (w.Kind == model.Outage) != wantOutage {
			t.Errorf("%s: kind %s with %d of %d failed", target.Name, w.Kind, w.Failed, w.Sent)
		}
	}
}

// checkCounts demands that exactly those requests failed that the server failed, over all targets and by class. Some
// of them may be put down to ourselves: a busy machine let us wait before we read what the server did.
func (r *trial) checkCounts(t *testing.T, kinds map[faultserver.Kind]timeline.Class) {
	t.Helper()
	all, ours := 0, r.count(timeline.Local)
	for kind, class := range kinds {
		n := r.server.Count(kind)
		all += n
		if got := r.count(class); got > n || n > got+ours {
			t.Errorf("%d requests were %s, the server counts %d, and %d are ours", got, class, n, ours)
		}
	}
	if failed := r.tl.Verdict.Failed; failed > all || all > failed+ours {
		t.Errorf("%d requests failed, the server counts %d, and %d are ours", failed, all, ours)
	}
	t.Logf("%d of %d requests failed, as the server counts", all, r.tl.Verdict.Sent)
}

// checkAnswered demands that those requests are good that the server answered, but for those put down to ourselves,
// and those that it answered too late where it had not run.
func (s *savedRun) checkAnswered(t *testing.T, server *faultserver.Server) {
	t.Helper()
	ok, ours, answered := s.count(timeline.OK), s.count(timeline.Local), server.Answered()
	for _, target := range s.judged() {
		for _, q := range s.failures(target.Name) {
			if q.Class == timeline.TimeoutResponse && s.afterALongStop(q) {
				ours++
			}
		}
	}
	if ok > answered || answered > ok+ours {
		t.Errorf("%d requests ok and %d ours, the server answered %d", ok, ours, answered)
	}
}

// A saved run is what `lapse run` left in a directory.
type savedRun struct {
	dir      string
	document []byte
	tl       *model.Timeline
	facts    facts
}

// A run is held against the truth at each of these resolutions.
var resolutions = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

// at judges the run again, at a resolution.
func (r *trial) at(t *testing.T, resolution time.Duration) *trial {
	again := *r
	again.savedRun = r.savedRun.at(t, resolution)
	return &again
}

func (s *savedRun) at(t *testing.T, resolution time.Duration) savedRun {
	t.Helper()
	tl, err := saved.Load(s.dir, correlate.Options{Resolution: resolution}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := *s
	again.tl = tl
	return again
}

func (s *savedRun) named(t *testing.T, target string) model.Target {
	t.Helper()
	i := slices.IndexFunc(s.tl.Targets, func(known model.Target) bool { return known.Name == target })
	if i < 0 {
		t.Fatalf("no target %s", target)
	}
	return s.tl.Targets[i]
}

func loadSaved(t *testing.T, dir string) savedRun {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(dir, saved.TimelineFile))
	if err != nil {
		t.Fatal(err)
	}
	return savedRun{dir: dir, document: document, tl: parseTimeline(t, document), facts: readFacts(t, dir)}
}

func parseTimeline(t *testing.T, document []byte) *model.Timeline {
	t.Helper()
	var tl model.Timeline
	if err := json.Unmarshal(document, &tl); err != nil {
		t.Fatal(err)
	}
	return &tl
}

// reported returns what `lapse report` prints about a run, and its exit code.
func reported(t *testing.T, dir string) (document []byte, code int) {
	t.Helper()
	var stdout bytes.Buffer
	code = cli.Main(t.Context(), []string{"lapse", "report", dir, "-o=json"}, &stdout, t.Output())
	return stdout.Bytes(), code
}

// check demands what must hold of every run that ended with an exit code and a result on standard output.
func (s *savedRun) check(t *testing.T, code int, stdout []byte) {
	t.Helper()
	if !bytes.Equal(stdout, s.document) {
		t.Error("standard output is not timeline.json")
	}
	again, againCode := reported(t, s.dir)
	if !bytes.Equal(again, s.document) {
		t.Error("the saved run is judged otherwise than it was live")
	}
	if code != s.tl.Verdict.ExitCode || againCode != code {
		t.Errorf("exit code %d, and %d of the report; the verdict's is %d", code, againCode, s.tl.Verdict.ExitCode)
	}
	if len(s.tl.Verdict.Gates) > 0 && s.tl.Verdict.Failed > 0 && code != verdict.ExitGateFailed {
		t.Errorf("exit code %d although %d requests failed, and none may", code, s.tl.Verdict.Failed)
	}
	s.checkAccount(t)
}

// checkOurOwn demands that a request is put down to the prober only where the prober did not run, or looked for the
// reply when it was more than 10 ms overdue. (These tests take no other resource of the machine from it.)
func (s *savedRun) checkOurOwn(t *testing.T) {
	t.Helper()
	overdue := s.facts.run.Meta.Options.Timeout + 10*time.Millisecond
	stops := s.stops()
	for name, requests := range s.facts.requests {
		for _, q := range requests {
			if q.Class == timeline.Local && q.Done-q.Sent <= overdue && !slices.ContainsFunc(stops, func(stop faultserver.Span) bool {
				return stop.From <= q.Done && q.Sent <= stop.To
			}) {
				t.Errorf("%s: request %d, sent %v and done %v, is put down to the prober, which ran", name, q.Seq, q.Sent, q.Done)
			}
		}
	}
}

// stops returns the times in which the prober did not run for more than 10 ms. It records no event of a stop shorter
// than three intervals, but requests that were sent late show it: in these tests one is due every 5 ms or more often.
func (s *savedRun) stops() (spans []faultserver.Span) {
	for _, e := range s.facts.run.Events {
		if e.Kind == timeline.ProberStall {
			spans = append(spans, faultserver.Span{From: e.Since, To: e.Seen})
		}
	}
	for _, requests := range s.facts.requests {
		for _, q := range requests {
			if q.Sent-q.Due >= 4*time.Millisecond {
				spans = append(spans, faultserver.Span{From: q.Due, To: q.Sent})
			}
		}
	}
	return spans
}

// meets reports whether a stop of the prober overlaps a request.
func meets(stops []faultserver.Span, q timeline.Request) bool {
	return slices.ContainsFunc(stops, func(stop faultserver.Span) bool { return stop.From <= q.Done && q.Sent <= stop.To })
}

// afterALongStop reports whether the prober did not run for longer than replies are awaited after that (100 ms),
// while a request was under way or in the 300 ms before. As a rule the server did not run then either.
func (s *savedRun) afterALongStop(q timeline.Request) bool {
	stops := slices.DeleteFunc(s.stops(), func(stop faultserver.Span) bool { return stop.To-stop.From < 100*time.Millisecond })
	q.Sent -= 300 * time.Millisecond
	return meets(stops, q)
}

// checkAccount demands that a timeline follows its schema, and that its figures are those of the recorded requests.
func (s *savedRun) checkAccount(t *testing.T) {
	t.Helper()
	if err := schematest.Validate(s.document); err != nil {
		t.Error(err)
	}
	s.checkFigures(t)
	for _, resolution := range resolutions {
		again := s.at(t, resolution)
		again.checkFigures(t)
	}
}

// checkFigures demands that a timeline's figures are those of the recorded requests.
func (s *savedRun) checkFigures(t *testing.T) {
	t.Helper()
	failed := 0
	for _, target := range s.tl.Targets {
		s.checkTarget(t, target)
		if target.Kind.Judged() {
			failed += target.Failed
			s.checkWindows(t, target)
			s.checkSilence(t, target)
		}
	}
	if s.tl.Verdict.Failed != failed || len(s.tl.Failures)+s.tl.FailuresTruncated != failed {
		t.Errorf("%d requests failed, the verdict says %d, and %d are listed", failed, s.tl.Verdict.Failed, len(s.tl.Failures))
	}
}

func (s *savedRun) checkTarget(t *testing.T, target model.Target) {
	t.Helper()
	classes := map[string]int{}
	for _, q := range s.facts.requests[target.Name] {
		classes[q.Class.String()]++
	}
	sum, notSent := 0, classes[timeline.NotSent.String()]+classes[timeline.Local.String()]
	for class, n := range target.Classes {
		sum += n
		if classes[class] != n {
			t.Errorf("%s: %d were %s, the recording has %d", target.Name, n, class, classes[class])
		}
	}
	if ok := classes["ok"]; sum != len(s.facts.requests[target.Name]) || target.OK != ok || target.NotSent != notSent || target.Sent != sum-notSent || target.Failed != sum-notSent-ok {
		t.Errorf("%s: the figures do not add up to the %d recorded requests: %+v", target.Name, len(s.facts.requests[target.Name]), target)
	}
	if b := s.tl.Buckets.Targets[target.Name]; total(b.Sent) != target.Sent || total(b.Failed) != target.Failed {
		t.Errorf("%s: the buckets hold %d failed of %d, not %d of %d", target.Name, total(b.Failed), total(b.Sent), target.Failed, target.Sent)
	}
}

// checkWindows demands that every failure lies in one window.
func (s *savedRun) checkWindows(t *testing.T, target model.Target) {
	t.Helper()
	inWindows := map[string]int{}
	for _, w := range s.windows(target.Name) {
		sum := 0
		for class, n := range w.Classes {
			inWindows[class] += n
			sum += n
		}
		if sum != w.Failed || w.Failed > w.Sent {
			t.Errorf("%s: window %d has %d failures of %d requests, and its classes have %d", target.Name, w.ID, w.Failed, w.Sent, sum)
		}
		s.checkLight(t, target, w)
	}
	for class, n := range target.Classes {
		if c := classNamed(t, class); c.Failed() && inWindows[class] != n {
			t.Errorf("%s: %d requests were %s, the windows hold %d", target.Name, n, class, inWindows[class])
		}
	}
	for _, q := range s.failures(target.Name) {
		if !slices.ContainsFunc(s.windows(target.Name), func(w model.Window) bool { return w.Start.Earliest <= q.Sent && q.Sent <= w.End.Latest }) {
			t.Errorf("%s: request %d failed, sent %v, and lies in no window", target.Name, q.Seq, q.Sent)
		}
	}
}

// checkLight demands that a bracket which is not open reaches over no unobserved time.
func (s *savedRun) checkLight(t *testing.T, target model.Target, w model.Window) {
	t.Helper()
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for _, q := range s.failures(target.Name) {
		if w.Start.Earliest <= q.Sent && q.Sent <= w.End.Latest {
			first, last = min(first, q.Sent), max(last, q.Done)
		}
	}
	if !w.Open.Start && s.hasGap(target.Name, w.Start.Earliest, first) {
		t.Errorf("%s: unobserved time between %v and %v, but the window's start is not open", target.Name, w.Start.Earliest, first)
	}
	if !w.Open.End && s.hasGap(target.Name, last, w.End.Latest) {
		t.Errorf("%s: unobserved time between %v and %v, but the window's end is not open", target.Name, last, w.End.Latest)
	}
}

// checkSilence demands that no time counts as observed in which nothing was asked and no answer awaited for longer
// than a gap may be, and that the detection limit is no less than the longest time from one request to the next that
// counts as observed.
func (s *savedRun) checkSilence(t *testing.T, target model.Target) {
	t.Helper()
	unobserved := time.Duration(0)
	for _, u := range s.unobserved(target.Name) {
		unobserved += u.End - u.Start
	}
	if whole := target.Measured.Latest - target.Measured.Earliest; math.Abs(target.Coverage-(1-float64(unobserved)/float64(whole))) > 1e-9 {
		t.Errorf("%s: coverage %v with %v of %v unobserved", target.Name, target.Coverage, unobserved, whole)
	}
	known, sent := target.Measured.Earliest, target.Measured.Earliest
	asked := append(s.facts.told(target.Name), timeline.Request{Sent: target.Measured.Latest, Done: target.Measured.Latest})
	for _, q := range asked {
		if from, to := known, q.Sent; to-from > target.GapLimit && !s.covers(target.Name, from, to) {
			t.Errorf("%s: silent from %v to %v, which counts as observed", target.Name, from, to)
		}
		if q.Sent-sent > target.Resolution && !s.hasGap(target.Name, sent, q.Sent) {
			t.Errorf("%s: nothing was sent from %v to %v, but the detection limit is %v", target.Name, sent, q.Sent, target.Resolution)
		}
		known, sent = max(known, q.Done), q.Sent
	}
}

// judged returns the targets that count for the verdict.
func (s *savedRun) judged() (targets []model.Target) {
	for _, target := range s.tl.Targets {
		if target.Kind.Judged() {
			targets = append(targets, target)
		}
	}
	return targets
}

func (s *savedRun) windows(target string) (windows []model.Window) {
	for _, w := range s.tl.Windows {
		if w.Target == target && w.Kind != model.Slow {
			windows = append(windows, w)
		}
	}
	return windows
}

func (s *savedRun) unobserved(target string) (list []model.Unobserved) {
	for _, u := range s.tl.Unobserved {
		if u.Target == target {
			list = append(list, u)
		}
	}
	return list
}

// hasGap reports whether some of the time between two instants was unobserved.
func (s *savedRun) hasGap(target string, from, to time.Duration) bool {
	return slices.ContainsFunc(s.unobserved(target), func(u model.Unobserved) bool { return u.Start < to && from < u.End })
}

// covers reports whether all of the time between two instants is one unobserved period.
func (s *savedRun) covers(target string, from, to time.Duration) bool {
	return slices.ContainsFunc(s.unobserved(target), func(u model.Unobserved) bool { return u.Start <= from && to <= u.End })
}

// failures returns a target's failed requests, by Sent.
func (s *savedRun) failures(target string) (failed []timeline.Request) {
	for _, q := range s.facts.requests[target] {
		if q.Class.Failed() {
			failed = append(failed, q)
		}
	}
	return failed
}

// good counts the requests that succeeded wholly between two instants.
func (s *savedRun) good(target string, from, to time.Duration) (n int) {
	for _, q := range s.facts.requests[target] {
		if q.Class == timeline.OK && q.Sent >= from && q.Done <= to {
			n++
		}
	}
	return n
}

// count counts the requests of a class, over the judged targets.
func (s *savedRun) count(class timeline.Class) (n int) {
	for _, target := range s.judged() {
		n += target.Classes[class.String()]
	}
	return n
}

// roundTrip returns the longest time that a request of target took, of those sent between two instants.
func (s *savedRun) roundTrip(target string, from, to time.Duration) (longest time.Duration) {
	for _, q := range s.facts.requests[target] {
		if from <= q.Sent && q.Sent <= to {
			longest = max(longest, q.Done-q.Sent)
		}
	}
	return longest
}

func classNamed(t *testing.T, name string) (class timeline.Class) {
	t.Helper()
	if err := class.UnmarshalText([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return class
}

func total(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
