package run

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/report"
	"lapse/timeline"
)

// maxBacklog is how many bytes of lines may wait to be written. Further lines of Lapse itself are dropped and
// counted. Further lines of the wrapped command wait for room.
const maxBacklog = 1 << 20

// A screen shows the progress of a run on stderr. Its own goroutine writes: a paused terminal (Ctrl-S), or a full
// pipe, delays only the wrapped command, as any full pipe does.
type screen struct {
	progress *report.Progress
	writing  sync.WaitGroup
	wake     chan struct{} // holds a token while there may be something to write
	redraws  bool          // it is a terminal, on which a block is redrawn

	mu       sync.Mutex
	room     *sync.Cond // signalled when lines were written
	lines    []piece    // not written yet
	size     int        // bytes in lines, and of those that are being written
	dropped  int
	commands []timeline.Event // changes of the wrapped command that are not shown yet
	frame    *Judgement       // the newest that is not drawn yet
	closed   bool
}

// newScreen returns a screen that writes to w, for a run of length total; 0 if that is unknown.
func newScreen(w io.Writer, total time.Duration) *screen {
	s := &screen{progress: newProgress(w, total), wake: make(chan struct{}, 1), redraws: StyleOf(w).terminal}
	s.room = sync.NewCond(&s.mu)
	s.writing.Go(s.write)
	return s
}

// say writes a line of Lapse itself. It never waits, unless the screen is closed.
func (s *screen) say(line string) {
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

// pass writes output of the wrapped command as it is. It waits while the backlog is full.
func (s *screen) pass(output string) {
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

func (s *screen) put(p piece) {
	s.lines = append(s.lines, p)
	s.size += len(p.text)
}

// showEvent shows a change of the wrapped command, or the phase in which it starts, before the event comes back in
// the recording. It never waits.
func (s *screen) showEvent(e timeline.Event) {
	s.mu.Lock()
	s.commands = append(s.commands, e)
	s.mu.Unlock()
	s.awake()
}

// Judged replaces the next frame, if that is not drawn yet. It never waits.
func (s *screen) Judged(j Judgement) {
	s.mu.Lock()
	s.frame = &j
	s.mu.Unlock()
	s.awake()
}

// A screen shows totals, and no single facts.

func (s *screen) Fact(timeline.Fact) {}

func (s *screen) Wants() Detail {
	if s.redraws {
		return Totals
	}
	return Seldom
}

func (s *screen) Close(*model.Timeline) { s.close() }

func (s *screen) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close writes the rest and leaves the terminal clean. It waits for both: do first what must not wait.
func (s *screen) close() {
	s.mu.Lock()
	s.closed = true
	s.room.Broadcast()
	s.mu.Unlock()
	s.awake()
	s.writing.Wait()
}

// write writes lines and frames until the screen is closed.
func (s *screen) write() {
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

func (s *screen) take() (commands []timeline.Event, lines []piece, f *Judgement, dropped int, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	commands, lines, f, dropped, closed = s.commands, s.lines, s.frame, s.dropped, s.closed
	s.commands, s.lines, s.frame, s.dropped = nil, nil, nil, 0
	return commands, lines, f, dropped, closed
}

func (s *screen) written(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= bytes
	s.room.Broadcast()
}

// talk is the writer for Lapse's own log.
func (s *screen) talk() io.Writer { return lineWriter(s.say) }

// output is the writer for the wrapped command's output.
func (s *screen) output() io.Writer { return outputWriter(s.pass) }

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
