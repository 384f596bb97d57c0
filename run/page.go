package run

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
	"lapse/report"
	"lapse/timeline"
)

// A page shows a run, live or ended.
type page struct {
	store  *dashboard.Store
	shown  *publish.Publisher
	latest atomic.Pointer[model.Timeline] // what timeline.json is downloaded from

	mu       sync.Mutex
	lookers  int           // how many connections show it now
	lastLook time.Time     // when the last connection ended, or the page was last opened
	since    time.Time     // the page is kept up to date from this instant on, if it is
	shownAt  time.Time     // of the last renewal
	final    bool          // there are no more renewals
	renewed  chan struct{} // closed, and replaced, at each renewal
	begun    chan struct{} // gets a value when the page begins to be kept up to date

	ending sync.Mutex
	ended  *model.Timeline // the run that is over, until the page is opened
}

func newPage() *page {
	store := dashboard.NewStore()
	return &page{store: store, shown: publish.To(store), renewed: make(chan struct{}), begun: make(chan struct{}, 1)}
}

const (
	lookAgain = 5 * time.Second // the page is kept up to date for so long after the last connection, or after it was opened
	renewing  = time.Second     // a new connection waits at most so long for a renewal
	firstShow = 5 * time.Second // a new connection waits at most so long for a page that has shown nothing yet
)

// look counts a connection until stopped is called. It waits until the page is up to date.
func (p *page) look(ctx context.Context) (stopped func()) {
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

// opened keeps the page up to date while a browser loads it: a run of many targets takes as long to judge.
func (p *page) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.lastLook = time.Now()
}

// begin keeps the page up to date from now on, unless it is already. The caller holds mu.
func (p *page) begin() {
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
func (p *page) isLookedAt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept()
}

// kept is isLookedAt for a caller that holds mu.
func (p *page) kept() bool {
	return p.lookers > 0 || !p.lastLook.IsZero() && time.Since(p.lastLook) < lookAgain
}

// noteShown records a renewal.
func (p *page) noteShown(final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shownAt, p.final = time.Now(), final
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// options offer the current timeline.json on the page.
func (p *page) options() dashboard.Options {
	return dashboard.Options{Looked: p.look, Opened: p.opened, Timeline: func(w io.Writer) error {
		tl := p.latest.Load()
		if tl == nil {
			return errors.New("nothing was measured yet")
		}
		return report.JSON(w, tl, report.Options{})
	}}
}

func (p *page) handler() http.Handler { return dashboard.Handler(p.store, p.options()) }

// A page shows the whole run while a connection shows it, and no single facts.

func (p *page) Fact(timeline.Fact) {}

func (p *page) Wants() Detail {
	if p.isLookedAt() {
		return All
	}
	return Seldom
}

func (p *page) Judged(j Judgement) {
	if j.All && p.isLookedAt() {
		p.Show(j.Timeline, j.Now)
	}
}

// Close keeps the run until the page is opened: the page's form of a long run takes much memory.
func (p *page) Close(tl *model.Timeline) {
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
func (p *page) showEnded() {
	p.ending.Lock()
	defer p.ending.Unlock()
	if tl := p.ended; tl != nil {
		p.ended = nil
		p.Show(tl, tl.Run.Duration)
	}
}

// Show makes the page show tl. One goroutine at a time may call it. A value that cannot be encoded is missing on the
// page, and is logged.
func (p *page) Show(tl *model.Timeline, now time.Duration) {
	p.latest.Store(tl)
	if err := p.shown.Show(tl, now); err != nil {
		slog.Warn("the page lacks a value", "error", err)
	}
	p.noteShown(!tl.Run.Live)
}
