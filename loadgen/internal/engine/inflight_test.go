package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

// Whatever order requests end in, nothing due before a watermark comes after it, and nothing is lost.
func TestWatermarkHoldsInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newInflight(&stall.Detector{})
		var open []timeline.Request
		var watermark time.Duration
		opened, taken := 0, 0
		take := func(now time.Duration) {
			requests, next, _ := b.Take(nil, now)
			for _, r := range requests {
				if r.Due < watermark {
					t.Fatalf("seed %d: request due %v after watermark %v", seed, r.Due, watermark)
				}
			}
			if next < watermark {
				t.Fatalf("seed %d: watermark goes back from %v to %v", seed, watermark, next)
			}
			taken += len(requests)
			watermark = next
		}
		for opened < 500 || len(open) > 0 {
			now := time.Duration(opened) * ms
			switch {
			case opened < 500 && random.IntN(3) == 0:
				b.Opened(uint64(opened), now, now+ms)
				open = append(open, timeline.Request{Seq: uint64(opened), Due: now})
				opened++
			case len(open) > 0:
				i := random.IntN(len(open))
				b.finished(open[i])
				open = append(open[:i], open[i+1:]...)
			}
			if random.IntN(10) == 0 {
				take(now)
			}
		}
		b.Ended(time.Second)
		take(time.Second)
		if taken != 500 || watermark != 500*ms {
			t.Errorf("seed %d: %d requests, final watermark %v", seed, taken, watermark)
		}
	}
}

// A target is not unobserved while its last answers are awaited, nor is it measured beyond the instant at which it
// was stopped.
func TestMeasuringEndsWithThePacing(t *testing.T) {
	for now, want := range map[time.Duration]time.Duration{15 * ms: 15*ms + time.Microsecond, 20 * ms: 20 * ms,
		700 * ms: 20 * ms} {
		b := newInflight(&stall.Detector{})
		b.Opened(0, 10*ms, 20*ms)
		b.finished(timeline.Request{Due: 10 * ms})
		b.Ended(now)
		if _, watermark, over := b.Take(nil, now); watermark != want || !over {
			t.Errorf("ended at %v: measured until %v, want %v", now, watermark, want)
		}
	}
}

func TestWatermarkNeverPassesNow(t *testing.T) {
	b := newInflight(&stall.Detector{})
	b.Expect(time.Hour)
	if _, watermark, _ := b.Take(nil, 5*time.Second); watermark != 5*time.Second {
		t.Errorf("watermark %v", watermark)
	}
	if b.Expect(4 * time.Second) {
		t.Error("an instant before the watermark was taken")
	}
	if !b.Expect(6 * time.Second) {
		t.Error("an instant after the watermark was refused")
	}
}

func TestBackendsAreNumberedOnce(t *testing.T) {
	var b backends
	if b.id(nil) != 0 || b.id([]byte("a")) != 1 || b.id([]byte("b")) != 2 || b.id([]byte("a")) != 1 {
		t.Error("wrong numbers")
	}
	if got := b.Take(); len(got) != 2 || got[0] != (timeline.Backend{ID: 1, Name: "a"}) {
		t.Errorf("%v", got)
	}
	for i := range 70_000 {
		b.id(fmt.Append(nil, "pod-", i))
	}
	if got := b.id([]byte("one more")); got != 0 || len(b.Take()) != 65_533 {
		t.Errorf("name beyond the last number is %d", got)
	}
	if long := (&backends{}); long.id([]byte(strings.Repeat("x", 300))) != long.id([]byte(strings.Repeat("x", 400))) {
		t.Error("long names are not cut")
	}
}
