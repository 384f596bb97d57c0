package correlate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// slowRun is a run of 10 s with a baseline of 2 s, at 100/s, in which answers take what took says.
func slowRun(asked time.Duration, took func(at time.Duration) time.Duration) timeline.Run {
	var requests []timeline.Request
	for at := time.Duration(0); at < 10*time.Second; at += tick {
		requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: at, Sent: at,
			Done: at + took(at)})
	}
	run := rowRun(requests)
	run.Meta.Options = timeline.Options{Join: time.Second, Slow: asked, Timeout: 10 * time.Second,
		Baseline: 2 * time.Second}
	return run
}

// shape is how long answers take.
func steady(took time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return took }
}

// then is as before until 5 s, and for a second something else.
func then(before func(time.Duration) time.Duration, took time.Duration) func(time.Duration) time.Duration {
	return func(at time.Duration) time.Duration {
		if at >= 5*time.Second && at < 6*time.Second {
			return took
		}
		return before(at)
	}
}

// What is slow is measured against what the target takes at the start. A target whose every answer is late is no
// window but a note.
func TestSlowIsMeasuredAgainstTheBaseline(t *testing.T) {
	hiccup := func(at time.Duration) time.Duration { // one answer of a hundred in the baseline takes long
		if at < 2*time.Second && at%time.Second == 0 {
			return 3 * time.Second
		}
		return 2 * ms
	}
	for _, test := range []struct {
		name    string
		asked   time.Duration
		took    func(time.Duration) time.Duration
		from    time.Duration
		windows int
		note    string
	}{
		{"quick answers", 0, steady(2 * ms), 500 * ms, 0, ""},
		{"quick answers, then slow ones", 0, then(steady(2*ms), 700*ms), 500 * ms, 1, ""},
		{"answers that take 300 ms are usual, twice as long is not slow", 0, then(steady(300*ms), 600*ms), 900 * ms, 0,
			""},
		{"every answer takes 1.5 s", 0, steady(1500 * ms), 4500 * ms, 0,
			"new: every answer takes about 1.5 s; slow is what takes longer than 4.5 s"},
		{"every answer takes 1.5 s, some 6 s", 0, then(steady(1500*ms), 6*time.Second), 4500 * ms, 1,
			"new: every answer takes about 1.5 s; slow is what takes longer than 4.5 s"},
		{"a hiccup in the baseline is not the usual", 0, then(hiccup, 700*ms), 500 * ms, 2, ""},
		{"an explicit --slow is what was asked for", 100 * ms, then(steady(2*ms), 200*ms), 100 * ms, 1, ""},
		{"but every answer being slow is no window", 500 * ms, steady(1500 * ms), 500 * ms, 0,
			"new: every answer takes about 1.5 s; slow is what takes longer than 500 ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tl := analyze(t, slowRun(test.asked, test.took))
			verdict.Judge(tl, nil)
			if target := tl.Targets[0]; len(tl.Windows) != test.windows || target.SlowFrom != test.from ||
				target.AlwaysSlow != (test.note != "") {
				t.Errorf("%d windows, slow from %v, always slow %v; want %d, %v\n%+v", len(tl.Windows),
					target.SlowFrom, target.AlwaysSlow, test.windows, test.from, tl.Windows)
			}
			if notes := tl.Verdict.Notes; test.note == "" && len(notes) > 0 || test.note != "" &&
				!slices.Equal(notes, []string{test.note}) {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
		})
	}
}

// What a target takes is told by the first 10 s: the baseline of a run that waited ends with the disruption.
func TestALongWaitDoesNotMakeSlowUsual(t *testing.T) {
	var requests []timeline.Request
	for at := time.Duration(0); at < time.Minute; at += 200 * ms {
		took := 2 * ms
		if at >= 15*time.Second {
			took = 700 * ms
		}
		requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: at, Sent: at, Done: at + took})
	}
	run := rowRun(requests)
	run.Targets[0].Rate = 5
	run.Meta.Options = timeline.Options{Join: time.Second, Timeout: 10 * time.Second, Baseline: time.Minute}
	if tl := analyze(t, run); tl.Targets[0].SlowFrom != 500*ms || len(tl.Windows) != 1 || tl.Windows[0].Kind != model.Slow {
		t.Errorf("slow from %v, %+v", tl.Targets[0].SlowFrom, tl.Windows)
	}
}

// Until what is slow is known, requests wait to be judged by it: live and offline agree.
// An answer that the prober's own stall delayed may not have been slow. It makes no window, and parts none.
func TestAnswerThatWeDelayedIsNeitherSlowNorQuick(t *testing.T) {
	for text, want := range map[string]int{
		"ok*20 delayed+6*5 ok*20":                 0,
		"ok*20 ok+6*5 ok*20":                      1,
		"ok*20 ok+6*3 delayed+6*9 ok+6*3 ok*20":   1,
		"ok*20 ok+6*3 ok*9 ok+6*3 ok*20":          2,
		"ok*20 ok+6*3 delayed+0.1 ok+6*3 ok*20":   1,
		"ok*20 x*5 delayed+2*3 delayed+1*6 ok*20": 0,
	} {
		slow := 0
		for _, w := range analyze(t, rowRun(row(text))).Windows {
			if w.Kind == model.Slow {
				slow++
			}
		}
		if slow != want {
			t.Errorf("%s: %d slow windows, want %d", text, slow, want)
		}
	}
}

func TestSlowWindowsAreTheSameLiveAndOffline(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	run := slowRun(0, func(at time.Duration) time.Duration {
		took := time.Duration(rng.ExpFloat64() * float64(100*ms))
		if at%(3*time.Second) > 2500*ms {
			took += 800 * ms
		}
		return took
	})
	want := analyze(t, run)
	if len(want.Windows) < 3 {
		t.Fatalf("%d windows", len(want.Windows))
	}
	var requests []timeline.Request
	for b := range run.Batches {
		requests = b.Requests
	}
	tr := NewTracker(Options{})
	tr.Add(run.Meta)
	tr.Add(run.Targets[0])
	deliver(rng, requests, 10*time.Second, func(b timeline.Batch) {
		tr.Add(b)
		if rng.IntN(8) == 0 {
			checkLive(t, tr.Timeline(), want)
		}
	})
	tr.Add(run.Events[0])
	if diff := gocmp.Diff(want, tr.Timeline(), addresses); diff != "" {
		t.Errorf("the Tracker differs from Analyze (-analyze +tracker):\n%s", diff)
	}
}
