package run

import (
	"io"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/report"
	"lapse/timeline"
)

const (
	// refresh is how often what people look at is renewed.
	refresh = 250 * time.Millisecond
	// refreshLines is how often the run is judged where nobody looks at a page or a terminal: for lines in a log.
	refreshLines = time.Second
	// judgeShare bounds the time that judging takes from the loop, which follows endpoints meanwhile no longer: after a judgement, at
	// least so many times as long passes until the next.
	judgeShare = 10
)

// live follows a run as its facts arrive, judges it, and shows it on the terminal and the page. It
// belongs to one goroutine, which never waits for a terminal.
type live struct {
	tracker *correlate.Tracker
	gates   []verdict.Gate
	page    *page // nil: nobody asked for one
	screen  *screen
	shown   *model.Timeline // the last that was; nil: none
	resting time.Time       // until then nothing is judged
	unseen  time.Time       // nor until then, where nobody looks
}

func newLive(gates []verdict.Gate, s *screen, p *page) *live {
	return &live{tracker: correlate.NewTracker(correlate.Options{}), gates: gates, page: p, screen: s}
}

// end leaves the terminal to others, once it has taken what was left to show. Do first what must not wait for a terminal.
func (l *live) end() { l.screen.close() }

func (l *live) add(f timeline.Fact) { l.tracker.Add(f) }

// timeline returns the run as judged so far.
func (l *live) timeline() *model.Timeline { return l.judged(l.tracker.Timeline()) }

// judged adds to a timeline what the tracker does not know.
func (l *live) judged(tl *model.Timeline) *model.Timeline {
	tl.Tool = tool()
	verdict.Judge(tl, l.gates)
	return tl
}

// show renews what people look at.
func (l *live) show(now time.Duration) {
	l.tracker.SetEnd(now)
	begun := time.Now()
	looked := l.page != nil && l.page.isLookedAt()
	if begun.Before(l.resting) || begun.Before(l.unseen) && !looked && !l.screen.redraws {
		return
	}
	if looked && l.page.ready() {
		l.shown = l.timeline()
		l.page.renew(l.shown, now)
	} else {
		l.shown = l.judged(l.tracker.Brief())
	}
	l.screen.draw(frame{tl: l.shown, now: now})
	l.resting, l.unseen = begun.Add(judgeShare*time.Since(begun)), begun.Add(refreshLines-refresh/2)
}

// showAfter shows a run that goes on elsewhere, when nothing has come from there for so long. How it stood is left as it was when news
// came last: no rate falls, and nothing becomes unobserved, only because nobody knows.
func (l *live) showAfter(silent, now time.Duration) {
	if silent < late {
		l.show(now)
		return
	}
	if l.shown == nil {
		l.shown = l.judged(l.tracker.Brief())
	}
	if silent < silence {
		silent = 0
	}
	l.screen.draw(frame{tl: l.shown, now: now, silent: silent})
	if l.page != nil && l.page.isLookedAt() && l.page.ready() {
		l.page.renew(l.timeline(), now)
	}
}

func tool() model.Tool { return model.Tool{Name: "lapse", Version: Version} }

// newProgress returns the progress display fit for w: redrawn in place on a terminal, lines elsewhere.
func newProgress(w io.Writer, total time.Duration) *report.Progress {
	style := StyleOf(w)
	return report.NewProgress(w, report.ProgressOptions{
		Terminal: style.terminal, Color: style.Color, Unicode: style.Unicode, Width: style.Width, Total: total,
	})
}
