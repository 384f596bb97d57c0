package measure

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/run/live"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// judgedAtTheEnd makes a test of hours take seconds: a run that goes on is not judged, and has fewer requests.
func judgedAtTheEnd(r *againRun) {
	r.armed.rates[1] = 10
	begin := r.Armed.Begin
	r.Armed.Begin = func(meta *timeline.Meta) *live.Run {
		run := begin(meta)
		run.RestUntil = time.Now().Add(1000 * time.Hour)
		return run
	}
}

// A Service that fails for hours has a run of half an hour at the full rate, and one of the rest at the idle rate. What
// happens in that, such as the change that mends it, ends it, and is measured at the full rate again in a run of its own.
func TestALastingOutageHasARunOfItsOwn(t *testing.T) {
	for name, mended := range map[string]bool{"by itself": false, "by a change": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const first, change, last = time.Minute, 2 * time.Hour, 2*time.Hour + 10*time.Minute
				r := newAgainRun(t, func(due time.Duration) bool { return due >= first && due < last }, judgedAtTheEnd)
				rate := func(at time.Duration, want float64) {
					t.Helper()
					time.Sleep(at - r.Clock.Now()) // of virtual time
					if rate, phase := r.now(); rate != want || phase != timeline.PhaseMeasuring {
						t.Errorf("at %v the rate is %v, in phase %s", at, rate, phase)
					}
				}
				rate(first+mostUnsettled-time.Second, 10)
				rate(first+mostUnsettled+time.Minute, 5)
				rate(change-time.Second, 5)
				if mended {
					r.at(change, endpointOf(web1, timeline.EndpointNotReady, timeline.EndpointReady))
					rate(change+time.Second, 10)
				}
				time.Sleep(last + time.Minute - r.Clock.Now())
				wantRuns, ended := 2, last
				if mended {
					wantRuns, ended = 3, change
				}
				if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseArmed || len(r.runs) != wantRuns {
					t.Fatalf("in the end the rate is %v, in phase %s, and there are %d runs", rate, phase, len(r.runs))
				}
				since := signs.Lasting + r.Clock.T0().Add(first).UTC().Format(time.DateTime) + " UTC"
				if why := r.runs[0].Run.Aborted; !strings.HasPrefix(why, since) {
					t.Errorf("the first run ended by %q, want %q", why, since)
				}
				second := r.runs[1]
				if len(second.Windows) != 1 || second.Targets[0].Coverage != 1 || second.Run.Aborted != "" {
					t.Errorf("the second was aborted by %q, with %d windows", second.Run.Aborted, len(second.Windows))
				}
				if down := second.Verdict.Downtime.Total.Min; down < ended-first-mostUnsettled-time.Minute || down > ended {
					t.Errorf("in the second it was down for %v", down)
				}
				if mended {
					third := r.runs[2]
					if down := third.Verdict.Downtime.Total.Max; third.Run.Aborted != "" || down < last-change || down > last-change+time.Second {
						t.Errorf("the third was aborted by %q, and in it it was down for %v", third.Run.Aborted, down)
					}
				}
				for _, e := range second.Events {
					if e.Enters(timeline.PhaseMeasuring) && e.Detail != "first sign: "+since {
						t.Errorf("the second began with %q", e.Detail)
					}
				}
			})
		})
	}
}

// What recovers, and then fails again, is another disruption; and so is one in which more happens than that requests
// fail.
func TestWhatDoesNotLastIsMeasuredAtTheFullRate(t *testing.T) {
	for name, change := range map[string]func(r *againRun, at time.Duration){
		"it recovers": func(*againRun, time.Duration) {},
		"endpoints change": func(r *againRun, at time.Duration) {
			for ; at < time.Minute+mostUnsettled; at += time.Minute {
				r.at(at, endpointOf(web1, timeline.EndpointNotReady, timeline.EndpointReady))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const first, last = time.Minute, time.Minute + mostUnsettled + 10*time.Minute
				recovers := name == "it recovers"
				r := newAgainRun(t, func(due time.Duration) bool {
					return due >= first && due < last && !(recovers && due > first+mostUnsettled && due < first+mostUnsettled+time.Minute)
				}, judgedAtTheEnd)
				change(r, first+time.Minute)
				time.Sleep(first + mostUnsettled + 5*time.Minute - r.Clock.Now()) // of virtual time
				if rate, phase := r.now(); rate != 10 || phase != timeline.PhaseMeasuring || len(r.runs) < 1 {
					t.Errorf("the rate is %v, in phase %s", rate, phase)
				}
			})
		})
	}
}

// An outage of days has a run each half day.
func TestAnOutageOfDaysHasFewRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first = 5 * time.Second // before --settle
		r := newAgainRun(t, func(due time.Duration) bool { return due >= first }, judgedAtTheEnd)
		time.Sleep(mostUnsettled + 5*time.Minute) // of virtual time
		r.ask(func() {
			if left := r.armed.limit - r.Clock.Now(); left < mostLasting-5*time.Minute {
				t.Errorf("the second run ends in %v", left)
			}
			r.armed.limit = r.Clock.Now() // as if it were over
		})
		time.Sleep(5 * time.Minute)
		if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseMeasuring || len(r.runs) != 2 {
			t.Fatalf("the rate is %v, in phase %s, and there are %d runs", rate, phase, len(r.runs))
		}
		for i, tl := range r.runs {
			if !strings.HasPrefix(tl.Run.Aborted, signs.Lasting+r.Clock.T0().Add(first).UTC().Format(time.DateTime)) {
				t.Errorf("run %d ended by %q", i+1, tl.Run.Aborted)
			}
		}
	})
}

// A drain whose replacement no node has room for is over when nothing has changed for five minutes, and judged: the Pod
// may be pending for days.
func TestADrainIsOverThoughAPodIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAgainRun(t, func(time.Duration) bool { return false }, judgedAtTheEnd)
		pending := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-2", UID: "w2"}
		r.at(time.Minute, endpointOf(web1, timeline.EndpointReady, timeline.EndpointTerminating))
		r.at(time.Minute, timeline.Event{Kind: timeline.PodSeen, To: "Pending", Detail: "watched", Object: pending})
		r.at(time.Minute+time.Second, endpointOf(web1, timeline.EndpointTerminating, timeline.EndpointAbsent))
		time.Sleep(standsStill + 10*time.Second)
		if rate, phase := r.now(); rate != 5 || phase != timeline.PhaseArmed || len(r.runs) != 1 {
			t.Fatalf("the rate is %v, in phase %s, and there are %d runs", rate, phase, len(r.runs))
		}
		const note = "Pod web-2 is still pending: no node has taken it"
		if tl := r.runs[0]; tl.Run.Aborted != "" || strings.Join(tl.Verdict.Notes, "") != note {
			t.Errorf("it was aborted by %q, and notes %q", tl.Run.Aborted, tl.Verdict.Notes)
		}
	})
}
