package screen

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate"
	"lapse/internal/run/live"
	"lapse/timeline"
)

// From the first failed request to the page's store, at the pace at which facts are handed on and the page is
// renewed, goes most of a second less than the quarter that the stream to the browser may take
// (dashboard.TestStreamCoalescesChangesToFourASecond).
func TestAWindowIsShownWithinASecond(t *testing.T) {
	synctest.Test(t, windowIsShownWithinASecond)
}

func windowIsShownWithinASecond(t *testing.T) {
	const interval, broken = 10 * time.Millisecond, 5003 * time.Millisecond
	p := NewPage()
	looks, stop := context.WithCancel(t.Context())
	stop() // it does not wait
	defer p.look(looks)()
	l := live.New(nil, Observers(New(io.Discard, 0), p, nil)...)
	defer l.End(nil)
	l.Add(timeline.Meta{Options: timeline.Options{Join: time.Second, Slow: time.Second, Timeout: 800 * time.Millisecond}})
	l.Add(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 100})
	l.Add(timeline.Event{ID: 1, Kind: timeline.RunPhase, To: string(timeline.PhaseMeasuring)})
	seq := uint64(0)
	for now := time.Duration(0); now < broken+2*time.Second; now += 50 * time.Millisecond { // how often the prober hands on
		batch := timeline.Batch{FirstSeq: seq, Watermarks: []timeline.Watermark{{Target: 1, Due: now}}}
		for ; time.Duration(seq)*interval < now; seq++ {
			due := time.Duration(seq) * interval
			q := timeline.Request{Target: 1, Seq: seq, Due: due, Sent: due, Done: due + time.Millisecond}
			if due >= broken {
				q.Class = timeline.Refused
			}
			batch.Requests = append(batch.Requests, q)
		}
		l.Add(batch)
		time.Sleep(50 * time.Millisecond)
		if now%live.Refresh != 0 {
			continue
		}
		l.Show(now)
		synctest.Wait()
		if _, shown := p.store.Snapshot().Entries["window/1"]; shown {
			if late := now - broken; late < 0 || late > time.Second-live.Refresh {
				t.Errorf("shown %v after requests began to fail", late)
			}
			return
		}
	}
	t.Error("the window was never shown")
}

// What nobody looks at is not built: it would take CPU from the prober, four times a second. Who begins to look sees
// it as it is.
func TestAPageIsBuiltOnlyWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPage()
		l := live.New(nil, Observers(New(io.Discard, 0), p, nil)...)
		defer l.End(nil)
		l.Add(timeline.Meta{Options: timeline.Options{Join: time.Second, Timeout: time.Second}})
		shown := func() string { return string(p.store.Snapshot().Entries["now"]) }
		l.Show(time.Second)
		if got := shown(); got != "" {
			t.Errorf("nobody looks, and the page stands at %s", got)
		}
		var stop func()
		looked := make(chan struct{})
		go func() {
			stop = p.look(t.Context())
			close(looked)
		}()
		synctest.Wait()
		time.Sleep(live.Refresh)
		l.Show(2 * time.Second)
		<-looked
		synctest.Wait()
		if got := shown(); got != "2000000000" {
			t.Errorf("somebody looks, and the page stands at %s", got)
		}
		stop()
		time.Sleep(lookAgain - time.Millisecond)
		l.Show(3 * time.Second)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		l.Show(4 * time.Second)
		if got := shown(); got != "3000000000" {
			t.Errorf("nobody looks any more, and the page stands at %s", got)
		}
		time.Sleep(time.Second)
		begun := time.Now()
		p.look(t.Context())()
		if waited := time.Since(begun); waited != renewing {
			t.Errorf("waited %v for a page that nobody renews", waited)
		}
	})
}

// The page is built while the browser loads it: who looks then waits for nothing. Nor does a second one while the
// first looks on, however long ago it was renewed: judging rests.
func TestAPageIsBuiltWhileItLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPage()
		l := live.New(nil, Observers(New(io.Discard, 0), p, nil)...).WokenBy(p.begun)
		defer l.End(nil)
		l.Add(timeline.Meta{Options: timeline.Options{Join: time.Second, Timeout: time.Second}})
		p.opened()
		select {
		case <-l.Begun:
		default:
			t.Fatal("the loop is not woken")
		}
		l.Show(time.Second)
		synctest.Wait()
		if got := string(p.store.Snapshot().Entries["now"]); got != "1000000000" {
			t.Errorf("the page is opened, and stands at %s", got)
		}
		for range 2 {
			time.Sleep(4 * time.Second)
			begun := time.Now()
			defer p.look(t.Context())()
			if waited := time.Since(begun); waited != 0 {
				t.Errorf("waited %v for a page that is built already", waited)
			}
			if len(l.Begun) > 0 {
				t.Error("the loop is woken for a page that is built already")
			}
		}
	})
}

// A run that is over is put on the page when somebody looks: of many endpoints it takes much memory there.
func TestARunThatIsOverIsShownToWhoLooks(t *testing.T) {
	p := NewPage()
	over := correlate.NewTracker(correlate.Options{}).Last()
	over.Run.Duration = 3 * time.Second
	p.Close(over)
	if got := string(p.store.Snapshot().Entries["now"]); got != "" {
		t.Errorf("nobody looks, and the page stands at %s", got)
	}
	p.look(t.Context())()
	if got := string(p.store.Snapshot().Entries["now"]); got != "3000000000" {
		t.Errorf("somebody looks, and the page stands at %q", got)
	}
}

// Where nobody looks at a page or a terminal, the run is judged once a second; and however long judging takes, most
// of the time is the loop's.
func TestJudgingLeavesTimeToTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPage()
		l := live.New(nil, Observers(New(io.Discard, 0), p, nil)...)
		defer l.End(nil)
		judged := func(while time.Duration) (n int) {
			for until := time.Now().Add(while); time.Now().Before(until); time.Sleep(live.Refresh) {
				before := l.Shown
				if l.Show(time.Second); l.Shown != before {
					n++
				}
			}
			return n
		}
		if n := judged(10 * time.Second); n != 10 {
			t.Errorf("judged %d times in 10 s, and nobody looks", n)
		}
		looks, stop := context.WithCancel(t.Context())
		stop() // it does not wait
		stopped := p.look(looks)
		if n := judged(10 * time.Second); n != 40 {
			t.Errorf("judged %d times in 10 s while somebody looks", n)
		}
		l.RestUntil = time.Now().Add(3 * time.Second) // judging took 300 ms
		if n := judged(3 * time.Second); n != 0 {
			t.Errorf("judged %d times in the 3 s after a judgement that took a tenth of that", n)
		}
		stopped()
		judged(2 * lookAgain) // nobody looks any more
		l.RestUntil = time.Now().Add(3 * time.Second)
		defer p.look(looks)()
		if n := judged(3 * time.Second); n != 1 {
			t.Errorf("judged %d times in the 3 s, which somebody began to look in", n)
		}
	})
}
