package screen

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"lapse/correlate/verdict"
	"lapse/internal/run/live"
	"lapse/internal/run/metrics"
	"lapse/internal/run/terminal"
)

// A Session is what people and Prometheus see of a run while it goes on: the terminal, the log on it, the page, and
// the metrics.
type Session struct {
	Screen    *Screen
	Log       *slog.Logger
	address   *Address          // of the page; nil: there is no page
	exporter  *metrics.Exporter // nil: no metrics are served
	closePage func()
	endServe  func() // of metrics
}

// Addresses are where a run is served; "" is nowhere.
type Addresses struct{ Page, Metrics string }

// Open binds addresses, opens the terminal on stderr, and serves the metrics. total is the length of the run, or 0 if
// that is unknown. Close the session last: a paused terminal then delays nothing else.
func Open(at Addresses, stderr io.Writer, total time.Duration) (*Session, error) {
	address, err := Listen(at.Page)
	if err != nil {
		return nil, err
	}
	exporter, err := metrics.Listen(at.Metrics)
	if err != nil {
		address.Close()
		return nil, err
	}
	screen := New(stderr, total)
	log := terminal.NewLogger(screen.talk())
	return &Session{
		Screen:    screen,
		Log:       log,
		address:   address,
		exporter:  exporter,
		closePage: func() {},
		endServe:  exporter.Serve(screen.talk()),
	}, nil
}

// Begin serves the page and returns the live judgement of the run, with all its observers. rec is the recording, or
// nil if the run is recorded elsewhere. agentPage is the page that the agent serves, or nil: the session then serves
// the page at its own address.
func (s *Session) Begin(ctx context.Context, gates []verdict.Gate, rec *live.Recording, agentPage *Page) *live.Run {
	shown := agentPage
	if shown == nil {
		shown, s.closePage = s.address.Serve(ctx, s.Screen.talk())
	}
	observers := Observers(s.Screen, shown, rec)
	if s.exporter != nil {
		observers = slices.Insert(observers, 0, live.Observer(s.exporter))
	}
	return live.New(gates, observers...).WokenBy(shown.opening())
}

// Close ends the page and the metrics, writes the rest on the terminal, and releases the addresses.
func (s *Session) Close() {
	s.closePage()
	s.endServe()
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
