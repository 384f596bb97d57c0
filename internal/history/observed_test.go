package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestObservedTimeIsKeptByDay(t *testing.T) {
	var o Observed
	at := time.Date(2026, 11, 26, 23, 59, 0, 0, time.FixedZone("", 3600))
	add := func(at time.Time, web, api time.Duration) {
		o.Add(at, map[string]time.Duration{"shop/web": web, "shop/api": api})
	}
	add(at, time.Minute, 0)
	add(at.Add(time.Hour), time.Minute, 0)
	add(at.Add(2*time.Hour), 2*time.Minute, time.Minute)
	add(at.Add(2*time.Hour), 0, -time.Hour)
	if got := o.Days["2026-11-26"]["shop/web"]; got != 2*time.Minute {
		t.Errorf("the first day has %v", got)
	}
	if got := o.Days["2026-11-27"]; got["shop/web"] != 2*time.Minute || got["shop/api"] != 0 {
		t.Errorf("the second day has %v", got)
	}
	add(at.AddDate(0, 0, KeptDays), time.Minute, 0)
	if _, ok := o.Days["2026-11-26"]; ok || len(o.Days) != 2 || o.Until != at.AddDate(0, 0, KeptDays).UTC() {
		t.Errorf("a day too old is kept: %v", o)
	}
}

// A Service is guarded from its first observed second until the guard sees that it is not annotated any more. Its spans
// are as bounded as its days.
func TestSpansAreFromTheFirstSecondUntilItIsNotGuarded(t *testing.T) {
	var o Observed
	at := time.Date(2026, 11, 26, 9, 12, 0, 0, time.UTC)
	add := func(after time.Duration, length time.Duration) {
		lengths := map[string]time.Duration{"shop/web": length}
		if length < 0 {
			delete(lengths, "shop/web")
		}
		o.Add(at.Add(after), lengths)
	}
	const off = -1
	day := 24 * time.Hour
	add(-time.Minute, 0) // it is annotated, and cannot be measured yet
	add(40*time.Second, 40*time.Second)
	add(time.Hour, 0)
	add(2*time.Hour, off)
	add(3*time.Hour, time.Minute) // of the same day: there is a gap, and no new beginning
	add(day, off)
	add(2*day, off)
	add(3*day, time.Minute)
	want := []Span{{From: at, To: at.Add(day)}, {From: at.Add(3*day - time.Minute)}}
	if diff := cmp.Diff(want, o.Guarded["shop/web"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := o.Since("shop/web", "2026-11-26"); got != at {
		t.Errorf("first observed at %v", got)
	}
	if got := o.Since("shop/web", "2026-11-27"); !got.IsZero() {
		t.Errorf("first observed at %v, though it was guarded on the day before", got)
	}
	add(3*day+KeptDays*day, time.Minute)
	if spans := o.Guarded["shop/web"]; len(spans) != 1 || !spans[0].To.IsZero() {
		t.Errorf("too old spans are kept: %v", spans)
	}
	add(4*day+KeptDays*day, off)
	add(5*day+2*KeptDays*day, off)
	if len(o.Guarded) != 0 {
		t.Errorf("too old spans are kept: %v", o.Guarded)
	}
}

// A file that somebody has edited ends no guard.
func TestAServiceWithoutSpansGetsOne(t *testing.T) {
	at := time.Date(2026, 11, 26, 9, 12, 0, 0, time.UTC)
	o := Observed{
		Guarded: map[string][]Span{"shop/web": {}, "shop/api": nil},
		Days:    map[string]map[string]time.Duration{"2026-11-26": nil},
	}
	o.Add(at, map[string]time.Duration{"shop/web": time.Minute})
	want := map[string][]Span{"shop/web": {{From: at.Add(-time.Minute)}}}
	if diff := cmp.Diff(want, o.Guarded); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
