package run

import (
	"context"
	"io"
	"log/slog"
	"time"

	"lapse/correlate/verdict"
)

// A session is what people see of a run while it goes on: the terminal, the log on it, and the page.
type session struct {
	screen    *screen
	log       *slog.Logger
	address   *address // of the page; nil: there is no page
	closePage func()
}

// newSession binds the address of the page, unless dashboard is empty, and opens the terminal on stderr. total is the
// length of the run, or 0 if that is unknown. Close the session after all else: a paused terminal then delays
// nothing.
func newSession(dashboard string, stderr io.Writer, total time.Duration) (*session, error) {
	address, err := ListenForPage(dashboard)
	if err != nil {
		return nil, err
	}
	screen := newScreen(stderr, total)
	return &session{screen: screen, log: NewLogger(screen.talk()), address: address, closePage: func() {}}, nil
}

// begin serves the page and returns the live judgement of the run, with all its observers. rec is the recording, or
// nil if the run is recorded elsewhere. agentPage is the page that the agent serves, or nil: the session then serves
// the page at its own address.
func (s *session) begin(ctx context.Context, gates []verdict.Gate, rec *recording, agentPage *page) *live {
	shown := agentPage
	if shown == nil {
		shown, s.closePage = s.address.Serve(ctx, s.screen.talk())
	}
	return newLive(gates, observers(s.screen, shown, rec)...).wokenBy(shown)
}

// close ends the page, writes the rest on the terminal, and gives the address back.
func (s *session) close() {
	s.closePage()
	s.screen.close()
	s.address.Close()
}

// observers are the observers of a run. shown and rec may be nil. The terminal comes last, because it may be paused.
func observers(terminal *screen, shown *page, rec *recording) (all []Observer) {
	if rec != nil {
		all = append(all, rec)
	}
	if shown != nil {
		all = append(all, newQueued(shown, 0))
	}
	return append(all, memoryLimit{}, terminal)
}
