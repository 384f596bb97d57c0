package run

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/layer"
	"lapse/internal/run/command"
	"lapse/internal/run/facts"
	"lapse/internal/run/live"
	"lapse/internal/run/screen"
	"lapse/timeline"
)

// A pausedTerminal takes nothing until it is read.
type pausedTerminal struct {
	read chan struct{}

	mu      sync.Mutex
	written bytes.Buffer
}

func newPausedTerminal() *pausedTerminal { return &pausedTerminal{read: make(chan struct{})} }

func (p *pausedTerminal) Write(b []byte) (int, error) {
	<-p.read
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.Write(b)
}

func (p *pausedTerminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.String()
}

func TestNobodyWaitsForAPausedTerminalButTheCommandsOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := newPausedTerminal()
		s := screen.New(terminal, 0)
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
		s.Mu.Lock()
		s.Frame = nil // nothing of a run to draw
		s.Mu.Unlock()
		close(terminal.read)
		<-passed
		s.Close(nil)
		if got := strings.Count(terminal.text(), line); got != 3000 {
			t.Errorf("%d of 3000 lines of output came", got)
		}
		if !strings.Contains(terminal.text(), "lines of its own were dropped") {
			t.Error("the warnings that were dropped are not counted")
		}
		s.Say("late") // no more is drawn: it may wait
		if !strings.HasSuffix(terminal.text(), "late\n") {
			t.Error("what is said after the end is lost")
		}
	})
}

func TestWhatIsWaitedForIsSaidWhereItTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		w := screen.StartWaiting(func(line string) { said = append(said, line) }, "waiting for the API server")
		time.Sleep(screen.SayWaiting + time.Second)
		w.Is("waiting for Pod lapse-1 to start (ContainerCreating)")
		time.Sleep(2 * screen.SayWaiting)
		w.Over()
		time.Sleep(time.Hour)
		w.Over()
		want := "waiting for the API server (5 s so far)\nwaiting for Pod lapse-1 to start (ContainerCreating) (10 s so far)\nwaiting for Pod lapse-1 to start (ContainerCreating) (15 s so far)"
		if got := strings.Join(said, "\n"); got != want {
			t.Errorf("said:\n%s\nwant:\n%s", got, want)
		}
		quick := screen.StartWaiting(func(line string) { t.Errorf("said %q", line) }, "waiting")
		quick.Over()
	})
}

// A line of output is on record when it comes, whoever reads it, and the command's end waits for no reader.
func TestACommandsEndIsOnRecordThoughNobodyReadsItsOutput(t *testing.T) {
	layer.Real(t)
	terminal := newPausedTerminal()
	defer close(terminal.read)
	q := facts.NewQueue()
	started := time.Now()
	for _, capture := range []bool{true, false} {
		c := &command.Wrapped{
			Args: []string{"sh", "-c", "echo one; exit 3"}, Capture: capture, Output: terminal,
			Event: func(e timeline.Event) { q.Put(e) }, Now: func() time.Duration { return time.Since(started) },
		}
		done := make(chan int, 1)
		if err := c.Start(func(code int) { done <- code }); err != nil {
			t.Fatal(err)
		}
		if code := <-done; code != 3 {
			t.Errorf("exit code %d", code)
		}
		var kinds []string
		for _, f := range q.Take() {
			kinds = append(kinds, string(f.(timeline.Event).Kind))
		}
		want := map[bool]string{true: "command command-output command", false: "command command"}[capture]
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("capture %v: on record are %q, want %q", capture, got, want)
		}
	}
}

// The start of the command comes home with the recording, which may be far behind.
func TestScreenTellsOfTheCommandBeforeItComesHome(t *testing.T) {
	var out strings.Builder
	s := screen.New(&out, 0)
	r := &clusterRun{screen: s, events: newCommandEvents(), feed: newFeed(nil)}
	r.clock.known = []comparison{{}}
	r.sendLater(timeline.Event{Seen: r.clock.local.Now(), Kind: timeline.Command, To: "running", Detail: "kubectl drain node2"})
	s.Close(nil)
	if got := out.String(); strings.Count(got, "command running: kubectl drain node2\n") != 1 {
		t.Errorf("%q", got)
	}
}
