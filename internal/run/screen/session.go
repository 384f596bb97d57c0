package screen

import (
	"context"
	"io"
	"log/slog"
	"time"

	"lapse/correlate/verdict"
	"lapse/internal/run/live"
	"lapse/internal/run/terminal"
)

// A Session is what people see of a run while it goes on: the terminal, the log on it, and the page.
type Session struct {
	Screen    *Screen
	Log       *slog.Logger
	address   *Address // of the page; nil: there is no page
	closePage func()
}

// Open binds the address of the page, unless dashboard is empty, and opens the terminal on stderr. total is the length
// of the run, or 0 if that is unknown. Close the session last: a paused terminal then delays nothing else.
func Open(dashboard string, stderr io.Writer, total time.Duration) (*Session, error) {
	address, err := Listen(dashboard)
	if err != nil {
		return nil, err
	}
	screen := New(stderr, total)
	log := terminal.NewLogger(screen.talk())
	return &Session{Screen: screen, Log: log, address: address, closePage: func() {}}, nil
}

// Begin serves the page and returns the live judgement of the run, with all its observers. rec is the recording, or
// nil if the run is recorded elsewhere. agentPage is the page that the agent serves, or nil: the session then serves
// the page at its own address.
func (s *Session) Begin(ctx context.Context, gates []verdict.Gate, rec *live.Recording, agentPage *Page) *live.Run {
	shown := agentPage
	if shown == nil {
		shown, s.closePage = s.address.Serve(ctx, s.Screen.talk())
	}
	return live.New(gates, Observers(s.Screen, shown, rec)...).WokenBy(shown.opening())
}

// Close ends the page, writes the rest on the terminal, and releases the address.
func (s *Session) Close() {
	s.closePage()
	s.Screen.Close(nil)
	s.address.Close()
}

// Observers returns the observers of a run. shown and rec may be nil. The terminal comes last, because it may be
// paused.
func Observers(terminal *Screen, shown *Page, rec *live.Recording) (all []live.Observer) {
	if rec != nil {
		all = append(all, rec)
	}
	if shown != nil {
		all = append(all, live.NewQueued(shown, 0))
	}
	return append(all, terminal)
}
