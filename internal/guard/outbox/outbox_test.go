package outbox

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A place is where a box sends to.
type place struct {
	sync.Mutex
	has  []int
	away error
	most int // that it takes at once; 0: all
	when []time.Duration
}

func (p *place) back() {
	p.Lock()
	defer p.Unlock()
	p.away = nil
}

// opened returns a box that sends there, and what ends it.
func opened(t *testing.T, p *place) (b *Box[int], failed *int, end func()) {
	began := time.Now()
	failed = new(int)
	b = New(5, func(_ context.Context, waiting []int) (int, error) {
		p.Lock()
		defer p.Unlock()
		p.when = append(p.when, time.Since(began))
		if p.away != nil {
			return 0, p.away
		}
		if p.most > 0 {
			waiting = waiting[:min(p.most, len(waiting))]
		}
		p.has = append(p.has, waiting...)
		return len(waiting), nil
	}, func(error) { *failed++ })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Run(ctx); close(ended) }()
	return b, failed, func() { cancel(); <-ended }
}

// What a place that was away has missed comes once it is back, whole and in order; until then it is asked less and less
// often.
func TestWhatWasRefusedIsSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{away: errors.New("away"), most: 2}
		b, failed, end := opened(t, p)
		b.Add(1, 2)
		b.Add(3)
		time.Sleep(10 * time.Second) // of virtual time
		synctest.Wait()
		if n, problem, since := b.Waits(); n != 3 || problem != "away" || time.Since(since) != 10*time.Second || *failed != 4 {
			t.Errorf("%d wait, %q, %d attempts failed", n, problem, *failed)
		}
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second}
		if !reflect.DeepEqual(p.when, want) {
			t.Errorf("asked at %v, want %v", p.when, want)
		}
		p.back()
		time.Sleep(time.Minute) // of virtual time
		synctest.Wait()
		if n, problem, since := b.Waits(); n != 0 || problem != "" || !since.IsZero() || !reflect.DeepEqual(p.has, []int{1, 2, 3}) {
			t.Errorf("%d wait, %q, and it has %v", n, problem, p.has)
		}
		end()
	})
}

// Of too much that waits the newest is kept.
func TestWhatWaitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{away: errors.New("away")}
		b, failed, end := opened(t, p)
		b.Add(1, 2, 3)
		synctest.Wait()
		before := *failed
		b.Add(4, 5, 6, 7)
		if *failed != before+1 {
			t.Error("that some was dropped is not told")
		}
		p.back()
		time.Sleep(time.Minute) // of virtual time
		synctest.Wait()
		if !reflect.DeepEqual(p.has, []int{3, 4, 5, 6, 7}) {
			t.Errorf("it has %v", p.has)
		}
		end()
	})
}

// What was dropped, and can be had again, counts as waiting, and is sent once the rest is.
func TestWhatWasDroppedIsFilledInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{away: errors.New("away")}
		b, failed, end := opened(t, p)
		b.Refill = func() []int { return []int{1, 2, 3} }
		b.Add(1, 2)
		synctest.Wait()
		before := *failed
		b.Add(3, 4, 5, 6, 7, 8)
		if n, _, _ := b.Waits(); n != 8 || *failed != before {
			t.Errorf("%d wait, and %d attempts more failed", n, *failed-before)
		}
		p.back()
		time.Sleep(time.Minute) // of virtual time
		synctest.Wait()
		if n, _, _ := b.Waits(); n != 0 || !reflect.DeepEqual(p.has, []int{4, 5, 6, 7, 8, 1, 2, 3}) {
			t.Errorf("%d wait, and it has %v", n, p.has)
		}
		end()
	})
}

// What was dropped while it was sent is not taken for what came since.
func TestWhatIsDroppedWhileItIsSentCountsOnce(t *testing.T) {
	var has []int
	var b *Box[int]
	b = New(3, func(_ context.Context, waiting []int) (int, error) {
		if has = append(has, waiting...); len(has) == 3 {
			b.Add(4, 5) // 1 and 2, which are on their way, make room
		}
		return len(waiting), nil
	}, func(error) {})
	b.Add(1, 2, 3)
	for range 2 {
		b.try(t.Context(), time.Second)
	}
	if !reflect.DeepEqual(has, []int{1, 2, 3, 4, 5}) {
		t.Errorf("it has %v", has)
	}
}

// A guard that ends sends what it still has, and does not wait for a place that is away.
func TestTheEndSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{away: errors.New("away")}
		b, _, end := opened(t, p)
		b.Add(1)
		synctest.Wait()
		p.back()
		if end(); !reflect.DeepEqual(p.has, []int{1}) {
			t.Errorf("it has %v", p.has)
		}

		away := &place{away: errors.New("away")}
		b, _, end = opened(t, away)
		b.Add(1)
		before := time.Now()
		if end(); time.Since(before) > 5*time.Second {
			t.Errorf("it ended after %v", time.Since(before))
		}
	})
}
