package measure

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/run/live"
	"lapse/timeline"
)

// A crashLoop is a Pod whose container crashes again and again, as the kubelet starts it: at once, then after 10 s, 20 s
// and so on, up to 5 minutes, and a little late. It is ready while it runs.
type crashLoop struct {
	runs    time.Duration // the container, each time
	only    bool          // it is the Service's only Pod; else every second request of a second fails
	crashes []time.Duration
	asked   int
}

func (c *crashLoop) crash(first, end time.Duration) {
	pause := time.Second
	for at := first; at < end; at += pause + c.runs {
		if c.crashes = append(c.crashes, at); len(c.crashes) > 1 {
			pause = min(max(10*time.Second, 2*pause), 5*time.Minute+10*time.Second)
		}
	}
}

// starts returns when the container runs again after crash i.
func (c *crashLoop) starts(i int) time.Duration {
	if i+1 == len(c.crashes) {
		return c.crashes[i] + 5*time.Minute
	}
	return c.crashes[i+1] - c.runs
}

func (c *crashLoop) fails(due time.Duration) bool {
	i, _ := slices.BinarySearch(c.crashes, due+1)
	switch {
	case i == 0:
		return false
	case c.only:
		return due < c.starts(i-1)
	}
	c.asked++
	return due < c.crashes[i-1]+time.Second && c.asked%2 == 0
}

// plays puts what is seen of it into a run. also may put more after the nth crash.
func (c *crashLoop) plays(r *againRun, also func(n int)) {
	container := func(from, to, detail string) timeline.Event {
		return timeline.Event{Kind: timeline.PodContainer, Object: web1, From: from, To: to, Detail: detail}
	}
	for i, crash := range c.crashes {
		r.at(crash+time.Second/2, container("running", "terminated", "web Error"))
		r.at(crash+time.Second/2, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		r.at(crash+time.Second/2, container("terminated", "waiting", "web CrashLoopBackOff"))
		also(i)
		r.at(c.starts(i), container("waiting", "running", "web"))
		r.at(c.starts(i), endpointOf(web1, timeline.EndpointNotReady, timeline.EndpointReady))
	}
}

// nothing else happens while a Pod crashes.
func nothing(int) {}

func settlesInAMinute(r *againRun) { r.Settle = time.Minute }

// A Pod that crashes all day is measured at the full rate first, until that has settled or for half an hour, and then at
// the idle rate. Each failed request is in one of the runs.
func TestACrashLoopOfADayHasFewRuns(t *testing.T) {
	for _, test := range []struct {
		name    string
		loop    crashLoop
		end     time.Duration
		runs    int
		full    time.Duration // at the full rate, at least; half a minute less than at most
		settles bool          // the first run, in less than half an hour
	}{
		{"one Pod of several", crashLoop{runs: 5 * time.Second}, 24 * time.Hour, 3, 140 * time.Second, true},
		{"the only Pod", crashLoop{runs: 5 * time.Second, only: true}, 3 * time.Hour, 2, 30 * time.Minute, false},
		{"the only Pod, that serves for 3 minutes", crashLoop{runs: 3 * time.Minute, only: true}, 3 * time.Hour, 4,
			205 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.loop.crash(time.Minute, test.end)
				failed, full := 0, time.Duration(0)
				r := newAgainRun(t, test.loop.fails, judgedAtTheEnd, settlesInAMinute, func(r *againRun) {
					r.Armed.Fact = func(f timeline.Fact) {
						b, _ := f.(timeline.Batch)
						for _, q := range b.Requests {
							if q.Class.Failed() {
								failed++
							}
						}
					}
					r.Parts = append(r.Parts, Part{Refresh: func(time.Duration) {
						if r.armed.full {
							full += live.Refresh
						}
					}})
				})
				test.loop.plays(r, nothing)
				time.Sleep(time.Hour) // of virtual time
				if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseArmed || len(r.runs) != test.runs {
					t.Errorf("in the end the rate is %v, in phase %s, and there are %d runs", rate, phase, len(r.runs))
				}
				if full < test.full || full > test.full+30*time.Second {
					t.Errorf("it was measured at the full rate for %v", full)
				}
				if why := r.runs[0].Run.Aborted; (why == "") != test.settles {
					t.Errorf("the first run ended by %q", why)
				}
				for i, tl := range r.runs {
					if failed -= tl.Verdict.Failed; tl.Targets[0].Coverage != 1 {
						t.Errorf("run %d: coverage %v", i+1, tl.Targets[0].Coverage)
					}
				}
				if failed != 0 {
					t.Errorf("%d failed requests are in no run", failed)
				}
			})
		})
	}
}

// What else happens to a Service of which a Pod crashes again and again has a run of its own, at the full rate until it
// has settled, and without the failures of the crashes before; and so has a crash after that is over.
func TestWhatElseHappensInACrashLoopHasARunOfItsOwn(t *testing.T) {
	spec := &timeline.Snapshot{Workload: &timeline.Workload{Replicas: 2, Status: timeline.Replicas{Updated: 2, Available: 2, Existing: 2}}}
	for name, test := range map[string]struct {
		events []timeline.Event
		begins bool // a disruption, which settles; else it announces one, which is awaited
	}{
		"an eviction":   {[]timeline.Event{{Kind: timeline.PodDisrupted, Object: web2}, endpointOf(web2, timeline.EndpointReady, timeline.EndpointAbsent)}, true},
		"one of itself": {[]timeline.Event{{Kind: timeline.PodDisrupted, Object: web1}}, false},
		"another crash": {[]timeline.Event{endpointOf(web2, timeline.EndpointReady, timeline.EndpointNotReady)}, true},
		"a rollout": {[]timeline.Event{
			{Kind: timeline.SnapshotTaken, To: timeline.SnapshotChanged, Object: timeline.Object{Kind: "Deployment", UID: "d"}, Snapshot: spec},
			{Kind: timeline.SnapshotTaken, To: timeline.SnapshotStatus, Object: timeline.Object{Kind: "Deployment", UID: "d"}, Snapshot: spec},
		}, false},
		"a cordon": {[]timeline.Event{{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loop := crashLoop{runs: 5 * time.Second}
				loop.crash(time.Minute, 2*time.Hour)
				over := loop.crashes[len(loop.crashes)-1] + 2*time.Hour
				loop.crashes = append(loop.crashes, over)
				r := newAgainRun(t, loop.fails, judgedAtTheEnd, settlesInAMinute)
				is := func(when string, want float64, in timeline.Phase) {
					t.Helper()
					if rate, phase := r.now(); rate != want || phase != in {
						t.Errorf("%s the rate is %v, in phase %s", when, rate, phase)
					}
				}
				awaited := 10.0
				if test.begins {
					awaited = 5
				}
				loop.plays(r, func(n int) {
					switch n {
					case 15:
						is("before", 5, timeline.PhaseMeasuring)
						for i, e := range test.events {
							r.at(loop.crashes[n]+time.Minute+time.Duration(i)*time.Second, e)
							is("then", 10, timeline.PhaseMeasuring)
						}
						time.Sleep(2 * time.Minute) // of virtual time
						is("when that has settled", awaited, timeline.PhaseArmed)
					case 16:
						is("at the next crash", awaited, timeline.PhaseMeasuring)
					case len(loop.crashes) - 1:
						is("at one long after", 10, timeline.PhaseMeasuring)
					}
				})
				time.Sleep(time.Hour)
				if r.now(); len(r.runs) != 5 {
					t.Fatalf("%d runs", len(r.runs))
				}
				for i, tl := range r.runs {
					if own := test.begins && i == 2; (tl.Verdict.Failed == 0) != own || tl.Targets[0].Coverage != 1 {
						t.Errorf("run %d: %d failed, coverage %v", i+1, tl.Verdict.Failed, tl.Targets[0].Coverage)
					}
				}
				before, _ := r.sent(1)
				after, _ := r.sent(2)
				for seq := range before {
					if after[seq] > 0 {
						t.Fatalf("request %d belongs to two runs", seq)
					}
				}
				sign := test.events[0]
				for _, e := range r.runs[1].Events {
					if e.Kind == sign.Kind && e.Object.Name == sign.Object.Name && e.From == sign.From {
						t.Errorf("the run that it ended has %s of %s", e.Kind, e.Object.Name)
					}
				}
			})
		})
	}
}

// A run of a crash loop that has a request of after a sign goes on: the request belongs to one run.
func TestARunIsNotEndedBeforeARequestThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := crashLoop{runs: 5 * time.Second}
		loop.crash(time.Minute, time.Hour)
		r := newAgainRun(t, loop.fails, judgedAtTheEnd, settlesInAMinute)
		loop.plays(r, func(n int) {
			if n == len(loop.crashes)-1 {
				time.Sleep(time.Minute) // of virtual time
				late := timeline.Event{Kind: timeline.PodDisrupted, Object: web1, Seen: r.Clock.Now() - time.Second}
				r.Queue.Put(late)
				rate, phase := r.now()
				ends := false
				if r.ask(func() { ends = r.closes > 0 }); rate != 10 || phase != timeline.PhaseMeasuring || ends {
					t.Errorf("the rate is %v, in phase %s; it ends: %v", rate, phase, ends)
				}
			}
		})
	})
}

// What did not come to an end in one run keeps no other one from it: a rollout whose new Pod crashes for hours.
func TestARolloutThatNeverEndsIsOneRun(t *testing.T) {
	const rollout, failure = time.Minute, 3 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		r := newAgainRun(t, func(due time.Duration) bool { return due >= failure && due < failure+time.Second }, judgedAtTheEnd, settlesInAMinute)
		r.at(rollout, timeline.Event{Kind: timeline.SnapshotTaken, To: timeline.SnapshotChanged, Object: timeline.Object{Kind: "Deployment", UID: "d"},
			Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Replicas: 2}}})
		r.at(rollout, timeline.Event{Kind: timeline.PodSeen, To: "Pending", Detail: "watched", Object: web2})
		r.at(rollout, timeline.Event{Kind: timeline.PodDeleted, Object: web1})
		r.at(rollout, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		for at := rollout; at < failure+time.Hour; at += 30 * time.Second {
			r.at(at, timeline.Event{Kind: timeline.PodContainer, Object: web2, From: "running", To: "terminated", Detail: "web Error"})
		}
		if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseArmed || len(r.runs) != 2 {
			t.Fatalf("the rate is %v, in phase %s, and there are %d runs", rate, phase, len(r.runs))
		}
		if first := r.runs[0].Run.Aborted; first != "the disruption had not settled after 30 minutes" {
			t.Errorf("the first run ended by %q", first)
		}
		if tl := r.runs[1]; tl.Run.Aborted != "" || tl.Run.Duration > 4*time.Minute || tl.Verdict.Failed < 9 {
			t.Errorf("the second took %v, aborted %q, with %d failures", tl.Run.Duration, tl.Run.Aborted, tl.Verdict.Failed)
		}
	})
}
