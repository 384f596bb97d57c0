package screen

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/run/live"
	"lapse/internal/run/runtest"
)

func TestNobodyWaitsForAPausedTerminalButTheCommandsOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := runtest.NewPausedTerminal()
		s := New(terminal, 0)
		line := strings.Repeat("x", 1000)
		passed := make(chan int, 1)
		go func() {
			n := 0
			for ; n < 3000; n++ {
				s.Pass(line)
			}
			passed <- n
		}()
		synctest.Wait()
		select {
		case <-passed:
			t.Error("3 MB of output were taken, though nobody reads")
		default:
		}
		for range 3000 {
			s.Say("a warning") // must return
		}
		s.Judged(live.Judgement{})
		s.mu.Lock()
		s.frame = nil // nothing of a run to draw
		s.mu.Unlock()
		close(terminal.Read)
		<-passed
		s.Close(nil)
		if got := strings.Count(terminal.String(), line); got != 3000 {
			t.Errorf("%d of 3000 lines of output came", got)
		}
		if !strings.Contains(terminal.String(), "lines of its own were dropped") {
			t.Error("the warnings that were dropped are not counted")
		}
		s.Say("late") // no more is drawn: it may wait
		if !strings.HasSuffix(terminal.String(), "late\n") {
			t.Error("what is said after the end is lost")
		}
	})
}

func TestWhatIsWaitedForIsSaidWhereItTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		w := StartWaiting(func(line string) { said = append(said, line) }, "waiting for the API server")
		time.Sleep(sayWaiting + time.Second)
		w.Is("waiting for Pod lapse-1 to start (ContainerCreating)")
		time.Sleep(2 * sayWaiting)
		w.Over()
		time.Sleep(time.Hour)
		w.Over()
		want := "waiting for the API server (5 s so far)\nwaiting for Pod lapse-1 to start (ContainerCreating) (10 s so far)\nwaiting for Pod lapse-1 to start (ContainerCreating) (15 s so far)"
		if got := strings.Join(said, "\n"); got != want {
			t.Errorf("said:\n%s\nwant:\n%s", got, want)
		}
		quick := StartWaiting(func(line string) { t.Errorf("said %q", line) }, "waiting")
		quick.Over()
	})
}
