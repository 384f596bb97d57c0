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
	lookers  int           // how many look at it now
	lastLook time.Time     // when one of them last stopped, or it was last opened
	since    time.Time     // from when on it is kept up to date, if it is
	shownAt  time.Time     // when it was last renewed
	final    bool          // nothing will be renewed any more
	renewed  chan struct{} // closed, and replaced, when it is renewed
	begun    chan struct{} // gets a value when it begins to be kept up to date

	ending sync.Mutex
	ended  *model.Timeline // the run that is over, until somebody looks
}

func newPage() *page {
	store := dashboard.NewStore()
	return &page{store: store, shown: publish.To(store), renewed: make(chan struct{}), begun: make(chan struct{}, 1)}
}

const (
	lookAgain = 5 * time.Second // who has looked may look again, and who opens the page will look: for so long it is kept up to date
	renewing  = time.Second     // who begins to look waits no longer for it to be
	firstShow = 5 * time.Second // nor for a page that has shown nothing yet
)

// look notes that somebody looks, until stopped is called, and waits until the page is up to date.
func (p *page) look(ctx context.Context) (stopped func()) {
	p.mu.Lock()
	p.begin()
	p.lookers++
	renewed, stale, patience := p.renewed, !p.final && p.shownAt.Before(p.since), renewing
	if p.shownAt.IsZero() {
		patience = firstShow
	}
	p.mu.Unlock()
	p.showEnded()
	if stale {
		select {
		case <-renewed:
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lookers--
		p.lastLook = time.Now()
	}
}

// opened has the page kept up to date for somebody who will look when the browser has loaded it: of many targets, judging takes as long.
func (p *page) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.lastLook = time.Now()
}

// begin notes that the page is kept up to date from now on, unless it is already. The caller holds mu.
func (p *page) begin() {
	if p.kept() {
		return
	}
	p.since = time.Now()
	select {
	case p.begun <- struct{}{}:
	default: // nobody has taken the last one
	}
}

// isLookedAt reports whether the page is to be kept up to date: somebody looks, or may again. What nobody looks at takes no CPU
// from the prober.
func (p *page) isLookedAt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept()
}

// kept is isLookedAt for a caller that holds mu.
func (p *page) kept() bool {
	return p.lookers > 0 || !p.lastLook.IsZero() && time.Since(p.lastLook) < lookAgain
}

// noteShown notes that the page was renewed.
func (p *page) noteShown(final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shownAt, p.final = time.Now(), final
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// options let the page offer timeline.json, as it is at that moment.
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

// A page shows the whole run while somebody looks at it, and no single facts.

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

// Close keeps the run until somebody looks at the page: all of a long run as the page reads it takes much memory.
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

// Show makes the page show tl. One goroutine at a time may call it. What cannot be encoded is missing on the page, and the log says so.
func (p *page) Show(tl *model.Timeline, now time.Duration) {
	p.latest.Store(tl)
	if err := p.shown.Show(tl, now); err != nil {
		slog.Warn("the page lacks a value", "error", err)
	}
	p.noteShown(!tl.Run.Live)
}
