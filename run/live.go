package run

import (
	"io"
	"sync"
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
	// judgeShare bounds the time that judging takes from the loop, which follows no endpoints meanwhile. The loop
	// waits at least judgeShare times the length of a judgement before the next.
	judgeShare = 10
)

// live judges a run as its facts arrive, and gives both to the observers. It belongs to one goroutine, which never
// waits for the observers.
type live struct {
	tracker   *correlate.Tracker
	gates     []verdict.Gate
	observers []Observer
	shown     *model.Timeline // the last that they got; nil: none
	begun     <-chan struct{} // gets a value when somebody opens the page: the run is then shown at once; nil without a page
	handed    Detail          // what the observers wanted when they last got a judgement

	restUntil   time.Time // there is no judgement before this instant, unless somebody opens the page
	seldomUntil time.Time // there is no judgement before this instant, while all observers want [Seldom]
}

func newLive(gates []verdict.Gate, observers ...Observer) *live {
	return &live{tracker: correlate.NewTracker(correlate.Options{}), gates: gates, observers: observers}
}

// wokenBy makes l show the run as soon as somebody opens the page. The page is one of the observers; nil for none.
func (l *live) wokenBy(p *page) *live {
	if p != nil {
		l.begun = p.begun
	}
	return l
}

// end gives the observers the judged run, or nil if there is none. It waits for the terminal: do first what must not
// wait.
func (l *live) end(tl *model.Timeline) {
	for _, o := range l.observers {
		o.Close(tl)
	}
}

func (l *live) add(f timeline.Fact) {
	for _, o := range l.observers {
		o.Fact(f)
	}
	l.tracker.Add(f)
}

// timeline returns the run as judged so far.
func (l *live) timeline() *model.Timeline { return l.judged(l.tracker.Timeline()) }

// last returns the judged run when it is over. It keeps no earlier judgement.
func (l *live) last() *model.Timeline {
	l.shown = nil
	tl := l.judged(l.tracker.Last())
	of := tl.Buckets
	var making sync.Mutex // the log and the page may ask at the same time
	tl.Buckets = model.MadeWhenAsked(of.Width, of.Names(), func(target string) model.BucketSeries {
		making.Lock()
		defer making.Unlock()
		s, _ := of.Of(target)
		return s
	})
	return tl
}

// judged adds the tool and the verdict to a timeline.
func (l *live) judged(tl *model.Timeline) *model.Timeline {
	tl.Tool = thisTool()
	verdict.Judge(tl, l.gates)
	return tl
}

// show renews what people look at.
func (l *live) show(now time.Duration) {
	l.tracker.SetEnd(now)
	begun, wants := time.Now(), l.wants()
	begins := wants == All && l.handed < All // page.isLookedAt keeps this rare
	if !begins && (begun.Before(l.restUntil) || begun.Before(l.seldomUntil) && wants == Seldom) {
		return
	}
	l.handed = wants
	l.shown = nil
	l.hand(Judgement{Now: now})
	if rested := begun.Add(judgeShare * time.Since(begun)); rested.After(l.restUntil) {
		l.restUntil = rested
	}
	l.seldomUntil = begun.Add(refreshLines - refresh/2)
}

// wants is the most that any observer wants.
func (l *live) wants() (most Detail) {
	for _, o := range l.observers {
		most = max(most, o.Wants())
	}
	return most
}

// hand gives the observers a judgement. It judges anew if there is no judgement yet, or an observer wants all of the
// run.
func (l *live) hand(j Judgement) {
	j.All = l.wants() == All
	switch {
	case j.All:
		l.shown = l.timeline()
	case l.shown == nil:
		l.shown = l.judged(l.tracker.Brief())
	}
	j.Timeline = l.shown
	for _, o := range l.observers {
		o.Judged(j)
	}
}

// showAfter shows a run that is measured elsewhere, and from which nothing has come in for the length silent. From
// [late] on it shows the last judgement again: a pause of the connection lowers no rate and makes nothing unobserved.
func (l *live) showAfter(silent, now time.Duration) {
	if silent < late {
		l.show(now)
		return
	}
	if silent < silence {
		silent = 0
	}
	l.hand(Judgement{Now: now, Silent: silent})
}

func thisTool() model.Tool { return model.Tool{Name: "lapse", Version: Version} }

// newProgress returns the progress display fit for w: redrawn in place on a terminal, lines elsewhere.
func newProgress(w io.Writer, total time.Duration) *report.Progress {
	style := StyleOf(w)
	return report.NewProgress(w, report.ProgressOptions{
		Terminal: style.terminal, Color: style.Color, Unicode: style.Unicode, Width: style.Width, Total: total,
	})
}
