package screen

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/publish"
	"lapse/internal/report"
	"lapse/internal/run/live"
	"lapse/timeline"
)

// A Page shows a run, live or ended.
type Page struct {
	store  *dashboard.Store
	shown  *publish.Publisher
	latest atomic.Pointer[model.Timeline] // what timeline.json is downloaded from

	mu       sync.Mutex
	lookers  int           // connections that show it now
	lastLook time.Time     // when the last connection ended, or the page was last opened
	since    time.Time     // the instant from which on the page is kept up to date
	shownAt  time.Time     // of the last renewal
	final    bool          // there are no more renewals
	renewed  chan struct{} // closed, and replaced, at each renewal
	begun    chan struct{} // gets a value when the page begins to be kept up to date

	ending sync.Mutex
	ended  *model.Timeline // the run that is over, until the page is opened
}

// NewPage returns a page that shows nothing yet.
func NewPage() *Page {
	store := dashboard.NewStore()
	return &Page{
		store: store, shown: publish.To(store),
		renewed: make(chan struct{}), begun: make(chan struct{}, 1),
	}
}

const (
	// lookAgain is how long the page is kept up to date after the last connection, or after it was opened.
	lookAgain = 5 * time.Second
	// renewing is the longest wait of a new connection for a renewal.
	renewing = time.Second
	// firstShow is the longest wait of a new connection for a page that has shown nothing yet.
	firstShow = 5 * time.Second
)

// look counts a connection until stopped is called. It waits until the page is up to date.
func (p *Page) look(ctx context.Context) (stopped func()) {
	p.mu.Lock()
	p.begin()
	p.lookers++
	renewed, stale, maxWait := p.renewed, !p.final && p.shownAt.Before(p.since), renewing
	if p.shownAt.IsZero() {
		maxWait = firstShow
	}
	p.mu.Unlock()
	p.showEnded()
	if stale {
		select {
		case <-renewed:
		case <-ctx.Done():
		case <-time.After(maxWait):
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lookers--
		p.lastLook = time.Now()
	}
}

// opened keeps the page up to date while a browser loads it: to judge a run of many targets takes as long.
func (p *Page) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.lastLook = time.Now()
}

// opening returns a channel that gets a value when the page begins to be kept up to date; nil for the nil page.
func (p *Page) opening() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.begun
}

// begin keeps the page up to date from now on, unless it is already. The caller holds mu.
func (p *Page) begin() {
	if p.kept() {
		return
	}
	p.since = time.Now()
	select {
	case p.begun <- struct{}{}:
	default: // the last value is not taken yet
	}
}

// isLookedAt reports whether the page must be kept up to date: a connection shows it, or may again. A page without
// connections takes no CPU from the prober.
func (p *Page) isLookedAt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept()
}

// kept is isLookedAt for a caller that holds mu.
func (p *Page) kept() bool {
	return p.lookers > 0 || !p.lastLook.IsZero() && time.Since(p.lastLook) < lookAgain
}

// noteShown records a renewal.
func (p *Page) noteShown(final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shownAt, p.final = time.Now(), final
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// options returns what the page offers, with the current timeline.json.
func (p *Page) options() dashboard.Options {
	return dashboard.Options{Looked: p.look, Opened: p.opened, Timeline: func(w io.Writer) error {
		tl := p.latest.Load()
		if tl == nil {
			return errors.New("nothing was measured yet")
		}
		return report.JSON(w, tl, report.Options{})
	}}
}

// Handler serves the page.
func (p *Page) Handler() http.Handler { return dashboard.Handler(p.store, p.options()) }

// A page shows the whole run while a connection shows it, and no single facts.

func (p *Page) Fact(timeline.Fact) {}

func (p *Page) Wants() live.Detail {
	if p.isLookedAt() {
		return live.All
	}
	return live.Seldom
}

func (p *Page) Judged(j live.Judgement) {
	if j.All && p.isLookedAt() {
		p.Show(j.Timeline, j.Now)
	}
}

// Close keeps the run until the page is opened: a long run takes much memory on the page.
func (p *Page) Close(tl *model.Timeline) {
	if tl == nil {
		return
	}
	p.latest.Store(tl)
	p.ending.Lock()
	p.ended = tl
	p.ending.Unlock()
	if p.isLookedAt() {
		p.showEnded()
	}
}

// showEnded makes the page show a run that is over, once.
func (p *Page) showEnded() {
	p.ending.Lock()
	defer p.ending.Unlock()
	if tl := p.ended; tl != nil {
		p.ended = nil
		p.Show(tl, tl.Run.Duration)
	}
}

// Show makes the page show tl. One goroutine at a time may call it. A value that cannot be encoded is missing on the
// page, and is logged.
func (p *Page) Show(tl *model.Timeline, now time.Duration) {
	p.latest.Store(tl)
	if err := p.shown.Show(tl, now); err != nil {
		slog.Warn("the page lacks a value", "error", err)
	}
	p.noteShown(!tl.Run.Live)
}
