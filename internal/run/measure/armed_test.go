package measure

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/run/flight"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
	"lapse/internal/run/signs"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/timeline"
)

// An armedRun is a run that waits for a sign, in virtual time. Its requests are made up, at the rate in force.
type armedRun struct {
	*Loop
	t      *testing.T
	dir    string
	said   []string
	told   []timeline.Phase // to who follows the run
	failed func(due time.Duration) bool
	takes  time.Duration // each response, in addition to a millisecond
	ended  chan string
}

func newArmedRun(t *testing.T, own ...signs.Mark) *armedRun {
	l, dir := idleLoop(t, Settings{Baseline: time.Second, Settle: 10 * time.Second})
	r := &armedRun{Loop: l, t: t, dir: dir, ended: make(chan string, 1), failed: func(time.Duration) bool { return false }}
	l.Armed = &Armed{
		IdleRate: 5, Own: own,
		Begin: func(*timeline.Meta) *live.Run { return live.New(nil, l.Rec) },
		Say:   func(line string) { r.said = append(r.said, line) },
	}
	l.Entered = func(phase timeline.Phase, _ string) { r.told = append(r.told, phase) }
	l.Describe(timeline.Meta{ID: "x", T0: l.Clock.T0(), Options: timeline.Options{Join: time.Second}}, timeline.Source{ID: 1, Name: "here", T0: l.Clock.T0()})
	if err := l.StartTarget(loadgen.Probe{Target: timeline.Target{Name: "new", Kind: timeline.New, Rate: 100, URL: "http://127.0.0.1:1/"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the phases, and sends requests meanwhile.
func (r *armedRun) start(signals <-chan os.Signal) {
	l := r.Loop
	send := r.send()
	r.each(send)
	go func() {
		l.Phase = timeline.PhaseStarting
		l.enter(timeline.PhaseBaseline, "")
		reason := l.Phases(r.t.Context(), signals)
		if l.armed.waits {
			reason = l.armed.unsigned(reason)
		}
		send(l.Clock.Now())
		l.Absorb()
		l.Add(timeline.PhaseChange(l.Clock.Now(), l.Phase, timeline.PhaseEnded, reason))
		l.Rec.End()
		r.ended <- reason
	}()
}

// each calls a function at each refresh in the goroutine of the loop, which may rest for longer.
func (r *armedRun) each(do func(now time.Duration)) {
	go source.Every(r.t.Context(), live.Refresh, func() {
		select {
		case r.Calls <- func() { do(r.Clock.Now()) }:
		case <-r.t.Context().Done():
		}
	})
}

// send hands over the requests that were due since the last call.
func (r *armedRun) send() func(now time.Duration) { return r.sendAs(1, 0, 0) }

// sendAs does so from an instant on as a source with one target, both of the same number, whose clock is ahead of the
// loop's.
func (r *armedRun) sendAs(source timeline.SourceID, next, ahead time.Duration) func(now time.Duration) {
	id := timeline.TargetID(source)
	seq, last := uint64(0), time.Duration(0)
	handed := uint64(0)
	var inFlight []timeline.Request
	return func(now time.Duration) {
		b := timeline.Batch{Source: source, FirstSeq: handed}
		interval := r.Targets[id].Interval()
		if interval < last { // the rate was raised at once, since the last call
			next = min(next, now-live.Refresh)
		}
		last = interval
		for ; next+time.Millisecond <= now; next += interval {
			q := timeline.Request{Target: id, Seq: seq, Due: next, Sent: next, Done: next + r.takes + time.Millisecond}
			if r.failed(next) {
				q.Class = timeline.Refused
			}
			inFlight = append(inFlight, q)
			seq++
		}
		mark := next
		for len(inFlight) > 0 && inFlight[0].Done <= now {
			b.Requests, inFlight = append(b.Requests, inFlight[0]), inFlight[1:]
		}
		if len(inFlight) > 0 {
			mark = inFlight[0].Due
		}
		handed += uint64(len(b.Requests))
		b.Watermarks = []timeline.Watermark{{Target: id, Due: mark}}
		r.Queue.Put(b.Earlier(-ahead))
	}
}

// at puts an event into the run at an instant of its process.
func (r *armedRun) at(when time.Duration, e timeline.Event) {
	time.Sleep(when - r.Clock.Now()) // of virtual time
	e.Seen = r.Clock.Now()
	r.Queue.Put(e)
}

// now returns the rate of the target and the phase, as the loop has them.
func (r *armedRun) now() (rate float64, phase timeline.Phase) {
	synctest.Wait() // until what was put is taken in
	r.ask(func() { rate, phase = r.Targets[1].Rate, r.Phase })
	return rate, phase
}

// ask calls a function in the goroutine of the loop, which the test must not look into.
func (r *armedRun) ask(do func()) {
	told := make(chan struct{})
	r.Calls <- func() { do(); close(told) }
	<-told
}

// result waits for the end, and returns the judged recording.
func (r *armedRun) result() (*model.Timeline, string) {
	r.t.Helper()
	reason := <-r.ended
	r.Prober.Close()
	tl, err := saved.Load(r.dir, correlate.Options{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return tl, reason
}

func (r *armedRun) phases(tl *model.Timeline) string {
	var all []string
	for _, e := range tl.Events {
		if e.Kind == timeline.RunPhase {
			all = append(all, e.To)
		}
	}
	return strings.Join(all, " ")
}

var (
	node1 = timeline.Object{Kind: "Node", Name: "node1", UID: "n1", Node: "node1"}
	web1  = timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "w1", Node: "node1"}
	web2  = timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-2", UID: "w2", Node: "node1"}
)

func endpointOf(pod timeline.Object, from, to string) timeline.Event {
	return timeline.Event{Kind: timeline.EndpointChanged, Object: pod, Service: "shop/web",
		Addr: netip.MustParseAddr("10.0.0." + strings.TrimPrefix(pod.Name, "web-")), Port: 80, From: from, To: to}
}

// While a loop waits at the idle rate, what is no sign is taken in with the next upkeep. A failure does not wait.
func TestAnIdleLoopRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		const mark = 12345
		var taken []time.Duration
		r.Armed.Fact = func(f timeline.Fact) {
			if b, ok := f.(timeline.Batch); ok && len(b.Watermarks) == 1 && b.Watermarks[0].Due == mark {
				taken = append(taken, r.Clock.Now())
			}
		}
		r.start(nil)
		marked := timeline.Batch{Source: 2, Watermarks: []timeline.Watermark{{Target: 1, Due: mark}}}
		for range 10 {
			time.Sleep(time.Minute + 70*time.Millisecond)
			put := r.Clock.Now()
			r.Queue.Put(marked)
			time.Sleep(seldom)
			synctest.Wait()
			if len(taken) != 1 || taken[0] <= put {
				t.Fatalf("what was put at %v was taken at %v", put, taken)
			}
			taken = nil
		}
		marked.Requests = []timeline.Request{{Target: 1, Done: r.Clock.Now(), Outcome: timeline.Outcome{Class: timeline.Refused}}}
		put := r.Clock.Now()
		r.Queue.Put(marked)
		synctest.Wait()
		if !slices.Equal(taken, []time.Duration{put}) {
			t.Errorf("the failure at %v was taken in at %v", put, taken)
		}
		if _, phase := r.now(); phase != timeline.PhaseMeasuring {
			t.Errorf("after a failure it is in phase %s", phase)
		}
		<-r.ended
		r.Prober.Close()
	})
}

// A run that waited for an hour begins two minutes before the first sign, knows how the cluster was then, and ends when
// nothing has changed for --settle. What was measured before has the brackets of few requests.
func TestAnArmedRunBeginsBeforeItsFirstSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		sign := time.Hour
		r.failed = func(due time.Duration) bool { return due >= sign-time.Second && due < sign+2*time.Second }
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		tl, reason := r.result()
		if reason != "" || tl.Run.Aborted != "" || r.phases(tl) != "baseline measuring ended" {
			t.Errorf("it ended %q, by %s", reason, r.phases(tl))
		}
		if want := []timeline.Phase{timeline.PhaseArmed, timeline.PhaseMeasuring}; !slices.Equal(r.told, want) {
			t.Errorf("who follows it is told of %q, want %q", r.told, want)
		}
		if from := tl.T0.Sub(r.Clock.T0()); from < sign-flight.Span-2*time.Second || from > sign-flight.Span {
			t.Errorf("it begins %v after the process", from)
		}
		if length := tl.Run.Duration; length < flight.Span+12*time.Second || length > flight.Span+14*time.Second {
			t.Errorf("it took %v", length)
		}
		if base := tl.Run.Baseline; base < flight.Span-time.Second || base > flight.Span+time.Second {
			t.Errorf("its baseline is %v", base)
		}
		if len(tl.Services) != 1 || tl.Services[0].Endpoints[0].Ready != 1 {
			t.Errorf("the endpoints where it begins: %+v", tl.Services)
		}
		target := tl.Targets[0]
		if target.Coverage != 1 || target.Rate != 100 || target.Rerated == nil || target.Rerated.From != 5 {
			t.Errorf("coverage %v at %v/s, %+v", target.Coverage, target.Rate, target.Rerated)
		}
		if len(tl.Windows) != 1 {
			t.Fatalf("windows: %+v", tl.Windows)
		}
		start, end := tl.Windows[0].Start, tl.Windows[0].End
		if start.Latest-start.Earliest < 150*time.Millisecond || end.Latest-end.Earliest > 20*time.Millisecond {
			t.Errorf("the window began in %v and ended in %v", start, end)
		}
	})
}

// A sign that announces a disruption raises the rate, and the run begins with the disruption. A sign that nothing
// follows costs no run, and the rate is lowered again.
func TestASignThatAnnouncesADisruptionRaisesTheRate(t *testing.T) {
	cordon := timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node1}
	said := ""
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		r.at(time.Minute, cordon) // and no drain
		r.at(time.Minute+mostArmed-time.Second, timeline.Event{Kind: timeline.NodeSchedulable, From: "false", To: "true", Object: node1})
		rate, _ := r.now()
		if r.ask(func() { said = r.Announced() }); rate != 100 || said != "node node1 was cordoned" {
			t.Errorf("after a cordon the rate is %v, by %q", rate, said)
		}
		time.Sleep(2 * time.Second)
		rate, phase := r.now()
		if r.ask(func() { said = r.Announced() }); rate != 5 || phase != timeline.PhaseArmed || said != "" {
			t.Errorf("15 minutes later it is %v, in phase %s", rate, phase)
		}
		r.at(time.Hour, cordon)
		r.at(time.Hour+3*time.Second, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		tl, reason := r.result()
		if reason != "" {
			t.Errorf("it ended %q", reason)
		}
		target := tl.Targets[0]
		begun := tl.Run.Baseline
		if raised := target.Rerated.At.Latest; begun-raised < 2*time.Second || begun-raised > 4*time.Second {
			t.Errorf("the rate was raised %v before the first effect", begun-raised)
		}
		for _, e := range tl.Events {
			if e.Enters(timeline.PhaseMeasuring) && e.Detail != "first sign: node node1 was cordoned" {
				t.Errorf("the run says it began with %q", e.Detail)
			}
		}
		if text := strings.Join(r.said, "\n"); strings.Count(text, "a sign: node node1 was cordoned") != 2 || strings.Count(text, "the low rate again") != 1 {
			t.Errorf("it said %s", text)
		}
	})
}

// A run that is stopped before any sign says so, and has what was measured last.
func TestAnArmedRunWithoutASignIsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		signals := make(chan os.Signal, 1)
		r.start(signals)
		time.Sleep(time.Hour)
		signals <- syscall.SIGINT
		tl, reason := r.result()
		const want = "stopped by SIGINT (Ctrl-C): there was no sign of a disruption until then"
		if reason != want || tl.Run.Aborted != want || tl.Targets[0].Sent == 0 {
			t.Errorf("it ended %q, with %d requests", reason, tl.Targets[0].Sent)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.Armed.Longest = 2 * time.Hour
		r.start(nil)
		if _, reason := r.result(); reason != "2 h 0 min (--max-duration) are over: there was no sign of a disruption until then" {
			t.Errorf("it ended %q", reason)
		}
		if !strings.Contains(r.said[0], "(at most 2 h 0 min: --max-duration)") {
			t.Errorf("it said %q", r.said)
		}
	})
}

// A target that is not well is found before the run waits for anything.
func TestAnArmedRunChecksItsTargetsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.failed = func(time.Duration) bool { return true }
		r.start(nil)
		tl, reason := r.result()
		if !strings.HasPrefix(reason, "baseline failed") || tl.Run.Aborted != reason || len(r.said) > 0 {
			t.Errorf("it ended %q after %v", reason, r.said)
		}
	})
}

// While a run waits nothing is written, and its memory stays as it is.
func TestNothingIsWrittenWhileARunWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		signals := make(chan os.Signal, 1)
		header := r.Rec.Size()
		r.start(signals)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if size := r.Rec.Size(); size != header {
			t.Errorf("%d bytes were written", size-header)
		}
		signals <- syscall.SIGINT
		if tl, _ := r.result(); tl.Run.Duration > flight.Span+time.Second {
			t.Errorf("the run has %v", tl.Run.Duration)
		}
	})
}

// A disruption in which nothing moves for five minutes is no pass: a Pod never got ready.
func TestADisruptionThatStandsStillIsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		r.at(time.Minute, endpointOf(web1, timeline.EndpointReady, timeline.EndpointAbsent))
		r.at(time.Minute+time.Second, timeline.Event{Kind: timeline.PodSeen, Detail: "watched", Object: timeline.Object{Kind: "Pod", UID: "w2", Node: "node1"}})
		tl, reason := r.result()
		const want = "1 Pods or rollouts were still under way, and nothing had changed for 5 minutes"
		if reason != want || tl.Run.Aborted != want {
			t.Errorf("it ended %q", reason)
		}
	})
}

// A Pod may take its whole grace period to stop: nothing changes meanwhile, and that is no fault. What hangs besides is
// awaited no longer than that.
func TestAGracePeriodIsNoStandstill(t *testing.T) {
	deleted := func(grace time.Duration) timeline.Event {
		return timeline.Event{Kind: timeline.PodDeleted, Object: web1, Grace: new(grace)}
	}
	gone := timeline.Event{Kind: timeline.PodGone, Object: web1}
	stuck := timeline.Object{Kind: "Pod", UID: "w2", Node: "node1"}
	for _, test := range []struct {
		name      string
		grace     time.Duration
		goneAfter time.Duration // 0: never
		hangs     bool          // another Pod does not get ready
		reason    string
		ends      time.Duration // after the deletion
	}{
		{"it stops in time", 10 * time.Minute, 9 * time.Minute, false, "", 9*time.Minute + 10*time.Second},
		{"it does not stop", 10 * time.Minute, 0, false, "1 Pods or rollouts were still under way, and nothing had changed for 5 minutes", 15 * time.Minute},
		{"it stops early, and another Pod hangs", 20 * time.Minute, time.Minute, true, "1 Pods or rollouts were still under way, and nothing had changed for 5 minutes", 6 * time.Minute},
		{"it takes over 30 minutes", time.Hour, 0, false, "the disruption had not settled after 30 minutes", 30 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newArmedRun(t)
				r.start(nil)
				r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
				r.at(time.Minute, deleted(test.grace))
				r.at(time.Minute, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
				if test.hangs {
					r.at(time.Minute, timeline.Event{Kind: timeline.PodSeen, Detail: "watched", Object: stuck})
				}
				if test.goneAfter > 0 {
					r.at(time.Minute+test.goneAfter, gone)
				}
				_, reason := r.result()
				took := r.Clock.Now() - time.Minute
				if reason != test.reason || took < test.ends || took > test.ends+2*time.Second {
					t.Errorf("it ended %q, %v after the deletion, want %q after %v", reason, took, test.reason, test.ends)
				}
			})
		})
	}
}

// What is planned raises no rate, however long it stands. A sign of the user's does.
func TestWhatIsPlannedRaisesNoRate(t *testing.T) {
	taint := func(key string) timeline.Event {
		return timeline.Event{Kind: timeline.NodeTaint, From: "absent", To: "present", Object: node1, Detail: key + ":NoSchedule"}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t, signs.Mark{What: "taint example.com/retire", Class: signs.Soon, Actor: "our-operator"})
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		r.at(time.Minute, taint("node.cluster.x-k8s.io/outdated-revision"))
		if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseArmed {
			t.Errorf("after a planned sign the rate is %v, in phase %s", rate, phase)
		}
		r.at(3*time.Hour, taint("example.com/retire"))
		if rate, phase := r.now(); rate != 100 || phase != timeline.PhaseArmed {
			t.Errorf("after a sign of the user's the rate is %v, in phase %s", rate, phase)
		}
		r.at(3*time.Hour+time.Second, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		tl, _ := r.result()
		for _, e := range tl.Events {
			if e.Enters(timeline.PhaseMeasuring) && e.Detail != "first sign: node node1 got the taint example.com/retire:NoSchedule (our-operator)" {
				t.Errorf("the run says it began with %q", e.Detail)
			}
		}
	})
}

// A Pod that a scale-up adds is no disruption: the run goes on waiting for one.
func TestAScaleUpBeginsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		r.at(time.Minute, endpointOf(web2, timeline.EndpointAbsent, timeline.EndpointReady))
		time.Sleep(5 * time.Minute)
		if _, phase := r.now(); phase != timeline.PhaseArmed {
			t.Errorf("after a scale-up it is in phase %s", phase)
		}
		drain := time.Hour
		r.at(drain, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		tl, reason := r.result()
		if reason != "" || tl.T0.Sub(r.Clock.T0()) < drain-flight.Span-time.Second {
			t.Errorf("it ended %q, and began %v after the process", reason, tl.T0.Sub(r.Clock.T0()))
		}
	})
}

// A sign in the baseline begins the run after it.
func TestASignInTheBaselineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		r.start(nil)
		r.at(100*time.Millisecond, endpointOf(web1, "", timeline.EndpointReady))
		r.at(200*time.Millisecond, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		r.at(300*time.Millisecond, endpointOf(web1, timeline.EndpointTerminating, timeline.EndpointAbsent))
		tl, reason := r.result()
		if reason != "" || tl.Run.Duration > time.Minute {
			t.Errorf("it ended %q after %v", reason, tl.Run.Duration)
		}
	})
}

// What else is asked, such as DNS servers, is asked no more often while the run waits, and at its own rate later.
func TestEvidenceIsAskedSeldomWhileARunWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newArmedRun(t)
		const name = "dns"
		if err := r.StartTarget(loadgen.Probe{Target: timeline.Target{Name: name, Kind: timeline.Direct, Rate: 10,
			URL: "http://127.0.0.1:1/", Addr: netip.MustParseAddrPort("127.0.0.1:1")}}); err != nil {
			t.Fatal(err)
		}
		if err := r.StartTarget(loadgen.Probe{Target: timeline.Target{Name: "none", Rate: 10, URL: "none://"}}); err == nil || len(r.armed.rates) != 2 {
			t.Errorf("a target that did not start: %v, rates %v", err, r.armed.rates)
		}
		if rate := r.Targets[2].Rate; rate != 5 {
			t.Errorf("it is asked %v times per second", rate)
		}
		r.start(nil)
		r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
		r.at(time.Minute, endpointOf(web1, timeline.EndpointReady, timeline.EndpointAbsent))
		r.result()
		if rate := r.Targets[2].Rate; rate != 10 {
			t.Errorf("then it is asked %v times per second", rate)
		}
	})
}
