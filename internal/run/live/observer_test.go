package live

import (
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// slowSink is an Observer that takes as long as it likes.
type slowSink struct {
	released chan struct{}
	facts    int
	last     Judgement
	end      *model.Timeline
}

func (s *slowSink) Fact(timeline.Fact)       { <-s.released; s.facts++ }
func (s *slowSink) Wants() Detail            { return Totals }
func (s *slowSink) Judged(j Judgement)       { s.last = j }
func (s *slowSink) Close(tl *model.Timeline) { s.end = tl }

// An Observer that is stuck delays nobody: what it cannot take is counted, and it gets the newest judgement and the
// end.
func TestASlowObserverDelaysNobodyAndLearnsWhatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{released: make(chan struct{})}
		l := New(nil, NewQueued(sink, 10))
		l.Add(timeline.Event{ID: 1})
		synctest.Wait() // the sink has it, and is stuck
		for id := range uint32(25) {
			l.Add(timeline.Event{ID: id + 2})
		}
		begun := time.Now()
		for now := range 5 {
			l.Show(time.Duration(now) * time.Second)
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("the run waited for %v", waited)
		}
		close(sink.released)
		tl := l.Timeline()
		l.End(tl)
		if sink.facts != 11 || sink.last.Lost != 15 || sink.last.Now != 4*time.Second || sink.end != tl {
			t.Errorf("%d facts, last judgement at %v with %d lost", sink.facts, sink.last.Now, sink.last.Lost)
		}
	})
}
