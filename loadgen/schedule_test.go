package loadgen

import (
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

const ms = time.Millisecond

func TestScheduleIsAbsolute(t *testing.T) {
	s := newSchedule(300, 0, 0)
	for range 3_000_000 { // 10 000 s
		s.advance()
	}
	drift := s.due() - 3_000_000*(time.Second/300)
	if drift != 0 || s.due()%time.Microsecond != 0 {
		t.Errorf("due %v, %v off", s.due(), drift)
	}
}

func TestTargetsSampleEvenlyTogether(t *testing.T) {
	starts := []time.Duration{3 * ms, 1234 * ms, 77 * ms, 5 * time.Second}
	seen := map[time.Duration]bool{}
	for place, start := range starts {
		s := newSchedule(10, evenShare(place), start)
		if s.due() < start || s.due() >= start+100*ms {
			t.Errorf("begun at %v, first due at %v", start, s.due())
		}
		seen[s.due()%(100*ms)] = true
	}
	for _, offset := range []time.Duration{0, 25 * ms, 50 * ms, 75 * ms} {
		if !seen[offset] {
			t.Errorf("nothing is due at %v: %v", offset, seen)
		}
	}
}

func TestPlacesAreTakenAgain(t *testing.T) {
	var p places
	for want := range 3 {
		if got := p.take(); got != want {
			t.Errorf("place %d, want %d", got, want)
		}
	}
	p.leave(1)
	if got, next := p.take(), p.take(); got != 1 || next != 3 {
		t.Errorf("places %d and %d, want 1 and 3", got, next)
	}
}

// The new and the reused connections of a Service sample it evenly together, however many Services a thread paces; and
// these are not all asked at one instant.
func TestProbersOfAThreadKeepApart(t *testing.T) {
	thread := NewThread(timeline.StartClock(), Economical, slog.New(slog.DiscardHandler))
	var firsts []float64
	for range 50 {
		p := New(Config{Thread: thread, Clock: thread.NewClock()})
		for id := range timeline.TargetID(2) {
			if err := p.Start(probe(id+1, timeline.New, "http://web/", 10)); err != nil {
				t.Fatal(err)
			}
		}
		first, second := p.targets[1].share, p.targets[2].share
		if apart := math.Abs(first - second); math.Abs(apart-0.5) > 1e-9 {
			t.Errorf("two targets are %v of an interval apart", apart)
		}
		firsts = append(firsts, first)
	}
	slices.Sort(firsts)
	for i := 1; i < len(firsts); i++ {
		if gap := firsts[i] - firsts[i-1]; gap < 0.005 {
			t.Errorf("two probers are %v of an interval apart", gap)
		}
	}
}

func TestRateChangesAtOnce(t *testing.T) {
	s := newSchedule(1, 0, 0)
	s.advance()
	s.rerate(1000, 1500*ms)
	if s.due() != 1500*ms || s.seq != 1 {
		t.Errorf("request %d due at %v", s.seq, s.due())
	}
	s.rerate(10, 1501*ms)
	if s.due() != 1600*ms {
		t.Errorf("due at %v", s.due())
	}
}

// sink is an engine that answers at once.
type sink struct {
	t    *target
	late time.Duration // its answers, in virtual time
	sent []engine.Job
}

func (s *sink) Prepare() {}

func (s *sink) Close() {}

func (s *sink) Send(j engine.Job) {
	s.sent = append(s.sent, j)
	if s.late > 0 {
		time.AfterFunc(s.late, func() { s.t.Refuse(j, timeline.OK) })
		return
	}
	s.t.Refuse(j, timeline.OK)
}

func newSink(p *pacer, rate float64) (*target, *sink) {
	plan, err := protocol.Compile(probe(1, timeline.New, "http://web/", rate))
	if err != nil {
		panic(err)
	}
	t := &target{}
	t.Requester, _ = engine.New(plan, rate, engine.Shared{
		Clock: p.clock, Log: slog.New(slog.DiscardHandler), Stalls: p.stalls, Notes: &engine.Notes{},
	})
	s := &sink{t: t}
	t.engine = s
	return t, s
}

// testPacer returns a pacer on virtual time, and the prober that it tells of stalls.
func testPacer(clock timeline.Clock) (*pacer, *Prober) {
	told := New(Config{Clock: clock})
	return &pacer{
		clock: clock, sleep: time.Sleep, spin: time.Sleep, changes: &changes{}, stalls: &stall.Detector{},
		probers: []*Prober{told},
	}, told
}

func (p *pacer) runFor(d time.Duration) {
	for end := p.clock.Now() + d; p.clock.Now() < end; {
		p.wait(p.step(p.clock.Now()))
	}
}

func TestEveryDueInstantIsServedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		target, engine := newSink(p, 400)
		p.add(target, 0)
		p.runFor(10 * time.Second)
		requests, _, _ := target.Inflight.Take(nil, clock.Now())
		if len(engine.sent) != 4000 || len(requests) != 4000 {
			t.Errorf("%d sent, %d done", len(engine.sent), len(requests))
		}
		for _, r := range requests {
			if r.Sent != r.Due {
				t.Fatalf("due %v, sent %v", r.Due, r.Sent)
			}
		}
		if len(told.stalls) != 0 {
			t.Errorf("stalls %v", told.stalls)
		}
	})
}

// Where few requests are due, the pacing thread sleeps until the next one, unless an answer is awaited: then it looks
// each millisecond whether it was stopped.
func TestAProberRestsWhileNothingIsInFlight(t *testing.T) {
	for _, test := range []struct {
		name        string
		rate        float64
		late        time.Duration // the answers
		least, most int           // sleeps in 10 s
	}{
		{"few requests", 5, 0, 500, 600},
		{"awaited for half of the time", 5, 100 * ms, 5000, 5600},
		{"many requests", 50, 0, 9000, 11000},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := timeline.StartClock()
				p, told := testPacer(clock)
				target, engine := newSink(p, test.rate)
				engine.late = test.late
				sleeps := 0
				p.sleep = func(d time.Duration) { sleeps++; time.Sleep(d) }
				p.add(target, 0)
				p.runFor(10 * time.Second)
				if sleeps < test.least || sleeps > test.most {
					t.Errorf("%d sleeps", sleeps)
				}
				requests, _, _ := target.Inflight.Take(nil, clock.Now())
				if n := len(requests); n < int(10*test.rate)-1 {
					t.Errorf("%d requests", n)
				}
				for _, r := range requests {
					if r.Done-r.Due != test.late {
						t.Errorf("due %v, done %v", r.Due, r.Done)
					}
				}
				if len(told.stalls) > 0 {
					t.Errorf("stalls %v", told.stalls)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// A rest is no stop, but what lasts longer than it was meant to is one. It may have begun with the rest.
func TestARestIsNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		target, _ := newSink(p, 1)
		p.add(target, 0)
		p.runFor(100 * ms)
		began := clock.Now()
		rest := p.step(began)
		time.Sleep(rest)
		if stopped := p.stalls.Stopped(clock.Now()); rest != longestRest || stopped != 0 {
			t.Errorf("after a rest of %v: stopped for %v", rest, stopped)
		}
		time.Sleep(300 * ms)
		if stopped := p.stalls.Stopped(clock.Now()); stopped != 300*ms {
			t.Errorf("stopped for %v", stopped)
		}
		p.step(clock.Now())
		if len(told.stalls) != 1 || told.stalls[0].Since > began || told.stalls[0].Seen != clock.Now() {
			t.Errorf("stalls %v", told.stalls)
		}
	})
}

// A stopped prober books what it missed as not sent, says so, and does not make up for it with a burst.
func TestStoppedProberIsUnobservedNotDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		target, engine := newSink(p, 1000)
		p.add(target, 0)
		p.runFor(100 * ms)
		before := len(engine.sent)
		stopped := clock.Now()
		time.Sleep(500 * ms)
		p.step(clock.Now())
		if burst := len(engine.sent) - before; burst > 11 {
			t.Errorf("%d requests at once", burst)
		}
		requests, _, _ := target.Inflight.Take(nil, clock.Now())
		if n := classes(requests); n[timeline.NotSent] < 485 || n[timeline.NotSent]+n[timeline.OK] != 601 {
			t.Errorf("classes %v", n)
		}
		if len(told.stalls) != 1 || told.stalls[0].Since > stopped || told.stalls[0].Seen != clock.Now() {
			t.Errorf("stalls %+v", told.stalls)
		}
	})
}

// However rarely requests are due, a prober that did not run says so, and what came due meanwhile has no latency.
func TestASlowProberNoticesThatItWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		target, engine := newSink(p, 0.5)
		p.add(target, 0)
		p.runFor(time.Second)
		time.Sleep(2 * time.Second) // over the instant at 2 s
		p.step(clock.Now())
		requests, _, _ := target.Inflight.Take(nil, clock.Now())
		if n := classes(requests); len(engine.sent) != 1 || n[timeline.NotSent] != 1 || len(told.stalls) != 1 {
			t.Errorf("%d sent, classes %v, stalls %v", len(engine.sent), n, told.stalls)
		}
	})
}

// What was due while the prober was stopped was not sent, also where the measuring has ended meanwhile.
func TestAStopUntilAfterTheEndIsUnobserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		target, _ := newSink(p, 1000)
		p.add(target, 0)
		p.runFor(100 * ms)
		time.Sleep(500 * ms)
		p.watchNow()
		p.finish(nil, clock.Now())
		requests, watermark, _ := target.Inflight.Take(nil, clock.Now())
		if n := classes(requests); n[timeline.NotSent] < 485 || len(requests) != 601 || watermark < 600*ms ||
			len(told.stalls) != 1 {
			t.Errorf("classes %v until %v, stalls %v", n, watermark, told.stalls)
		}
	})
}

// A stop in which the last answers are awaited is reported, also where they are read before the pacing thread runs
// again.
func TestAStopWhileTheLastAnswersAreAwaitedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, told := testPacer(clock)
		p.runFor(100 * ms)
		time.Sleep(50 * ms)
		over := make(chan struct{})
		close(over)
		p.pace(over)
		if len(told.stalls) != 1 || told.stalls[0].Seen != clock.Now() {
			t.Errorf("stalls %v", told.stalls)
		}
	})
}

// Whenever the rate changes, also while the prober is stopped: what was due before is sent or not sent, and so is what
// is due from then on at the new rate, each once.
func TestARateChangeLosesNoDueInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, _ := testPacer(clock)
		target, _ := newSink(p, 100)
		p.add(target, 0)
		was := target.schedule
		var want []time.Duration
		for i := range 2000 {
			p.runFor(time.Duration(i%7) * 3 * ms)
			time.Sleep(time.Duration(i%13) * 1234567) // up to 15 ms late: in time for some rates, too late for others
			rate := []float64{100, 5, 1999, 333, 50}[i%5]
			p.changes.add(func(p *pacer, now time.Duration) { p.setRate(target, rate, now) })
			now := clock.Now()
			p.step(now)
			for ; was.next < now; was.advance() {
				want = append(want, was.due())
			}
			was.rerate(rate, now)
		}
		requests, _, _ := target.Inflight.Take(nil, clock.Now())
		var due []time.Duration
		for _, r := range requests {
			if r.Due < was.due() {
				due = append(due, r.Due)
			}
		}
		if n := classes(requests); n[timeline.OK] == 0 || n[timeline.NotSent] == 0 || !slices.Equal(due, want) {
			t.Errorf("%d due instants of %d are told, classes %v", len(due), len(want), n)
		}
	})
}

func TestRateChangeBreaksNoWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := timeline.StartClock()
		p, _ := testPacer(clock)
		target, _ := newSink(p, 2)
		p.add(target, 0)
		var watermark time.Duration
		for i := range 2000 {
			now := clock.Now()
			time.Sleep(time.Duration(i%3) * 400 * time.Microsecond) // the watermark may be newer than the pacer's now
			requests, next, _ := target.Inflight.Take(nil, clock.Now())
			for _, r := range requests {
				if r.Due < watermark {
					t.Fatalf("request due %v after watermark %v", r.Due, watermark)
				}
			}
			watermark = next
			p.setRate(target, []float64{1, 500, 3, 1999}[i%4], now)
			p.step(clock.Now())
			time.Sleep(700 * time.Microsecond)
		}
	})
}
