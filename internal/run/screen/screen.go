// Package screen is what people see of a run while it goes on: the terminal, the log on it, and the page.
package screen

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report"
	"lapse/internal/run/live"
	"lapse/internal/run/terminal"
	"lapse/timeline"
)

// maxBacklog is how many bytes of lines may wait to be written. Further lines of Lapse itself are dropped and counted.
// Further output of the wrapped command waits for room.
const maxBacklog = 1 << 20

// A Screen shows the progress of a run on stderr. Its own goroutine writes: a paused terminal (Ctrl-S) or a full pipe
// delays only the wrapped command.
type Screen struct {
	progress *report.Progress
	writing  sync.WaitGroup
	wake     chan struct{} // holds a token while there may be something to write
	redraws  bool          // it is a terminal, on which a block is redrawn

	mu       sync.Mutex
	room     *sync.Cond // signalled when lines were written
	lines    []piece    // not written yet
	size     int        // bytes in lines, and of lines that are being written
	dropped  int
	commands []timeline.Event // changes of the wrapped command that are not shown yet
	frame    *live.Judgement  // the newest that is not drawn yet
	closed   bool
}

// New returns a screen that writes to w, for a run of length total; 0 if that is unknown.
func New(w io.Writer, total time.Duration) *Screen {
	redraws := terminal.StyleOf(w).Terminal
	s := &Screen{progress: newProgress(w, total), wake: make(chan struct{}, 1), redraws: redraws}
	s.room = sync.NewCond(&s.mu)
	s.writing.Go(s.write)
	return s
}

// Say writes a line of Lapse itself. It never waits, unless the screen is closed.
func (s *Screen) Say(line string) {
	s.mu.Lock()
	closed := s.closed
	switch {
	case closed:
	case s.size > maxBacklog:
		s.dropped++
	default:
		s.put(piece{line, false})
	}
	s.mu.Unlock()
	if closed {
		s.writing.Wait()
		s.progress.Log(line)
		return
	}
	s.awake()
}

// Pass writes output of the wrapped command as it is. It waits while the backlog is full.
func (s *Screen) Pass(output string) {
	s.mu.Lock()
	for s.size > maxBacklog && !s.closed {
		s.room.Wait()
	}
	if !s.closed {
		s.put(piece{output, true})
	}
	s.mu.Unlock()
	s.awake()
}

// A piece is a line of Lapse, or output of the wrapped command.
type piece struct {
	text   string
	output bool
}

func (s *Screen) put(p piece) {
	s.lines = append(s.lines, p)
	s.size += len(p.text)
}

// ShowEvent shows a change of the wrapped command, or the phase in which it starts, before the recording brings the
// event. It never waits.
func (s *Screen) ShowEvent(e timeline.Event) {
	s.mu.Lock()
	s.commands = append(s.commands, e)
	s.mu.Unlock()
	s.awake()
}

// Judged sets the next frame. It never waits.
func (s *Screen) Judged(j live.Judgement) {
	s.mu.Lock()
	s.frame = &j
	s.mu.Unlock()
	s.awake()
}

// A screen shows totals, and no single facts.

func (s *Screen) Fact(timeline.Fact) {}

func (s *Screen) Wants() live.Detail {
	if s.redraws {
		return live.Totals
	}
	return live.Seldom
}

func (s *Screen) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close writes the rest and leaves the terminal clean. It waits for both: first do what must not wait.
func (s *Screen) Close(*model.Timeline) {
	s.mu.Lock()
	s.closed = true
	s.room.Broadcast()
	s.mu.Unlock()
	s.awake()
	s.writing.Wait()
}

// write writes lines and frames until the screen is closed.
func (s *Screen) write() {
	for range s.wake {
		commands, lines, f, dropped, closed := s.take()
		for _, e := range commands {
			s.progress.Tell(e)
		}
		for _, line := range lines {
			if line.output {
				s.progress.Pass([]byte(line.text))
			} else {
				s.progress.Log(line.text)
			}
			s.written(len(line.text))
		}
		if dropped > 0 {
			s.progress.Log(fmt.Sprintf("lapse: %d lines of its own were dropped, because nobody read them", dropped))
		}
		if f != nil {
			s.progress.Silent(f.Silent)
			s.progress.Update(f.Timeline, f.Now)
		}
		if closed {
			s.progress.Done()
			return
		}
	}
}

func (s *Screen) take() (commands []timeline.Event, lines []piece, f *live.Judgement, dropped int, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	commands, lines, f, dropped, closed = s.commands, s.lines, s.frame, s.dropped, s.closed
	s.commands, s.lines, s.frame, s.dropped = nil, nil, nil, 0
	return commands, lines, f, dropped, closed
}

func (s *Screen) written(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= bytes
	s.room.Broadcast()
}

// talk returns the writer for Lapse's own log.
func (s *Screen) talk() io.Writer { return lineWriter(s.Say) }

// Output returns the writer for the wrapped command's output.
func (s *Screen) Output() io.Writer { return outputWriter(s.Pass) }

type outputWriter func(output string)

func (pass outputWriter) Write(p []byte) (int, error) {
	pass(string(p))
	return len(p), nil
}

// A lineWriter takes each write as one line or several.
type lineWriter func(line string)

func (put lineWriter) Write(p []byte) (int, error) {
	put(strings.TrimRight(string(p), "\r\n"))
	return len(p), nil
}

// newProgress returns the progress display for w: redrawn in place on a terminal, lines elsewhere.
func newProgress(w io.Writer, total time.Duration) *report.Progress {
	style := terminal.StyleOf(w)
	return report.NewProgress(w, report.ProgressOptions{
		Terminal: style.Terminal, Color: style.Color, Unicode: style.Unicode, Width: style.Width, Total: total,
	})
}
