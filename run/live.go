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
	// judgeShare bounds the time that judging takes from the loop, which follows endpoints meanwhile no longer: after a judgement, at
	// least so many times as long passes until the next.
	judgeShare = 10
)

// live judges a run as its facts arrive, and hands both to the observers. It belongs to one goroutine, which never waits for them.
type live struct {
	tracker   *correlate.Tracker
	gates     []verdict.Gate
	observers []Observer
	shown     *model.Timeline // the last that they got; nil: none
	resting   time.Time       // until then nothing is judged, unless somebody begins to look
	unseen    time.Time       // nor until then, where nobody looks
	handed    Detail          // what the observers wanted when they last got it
	begun     <-chan struct{} // gets a value when the page begins to be looked at: show is not to wait for its time; nil without a page
}

func newLive(gates []verdict.Gate, observers ...Observer) *live {
	return &live{tracker: correlate.NewTracker(correlate.Options{}), gates: gates, observers: observers}
}

// wokenBy has l shown as soon as somebody begins to look at the page, which is one of its observers; nil for none.
func (l *live) wokenBy(p *page) *live {
	if p != nil {
		l.begun = p.begun
	}
	return l
}

// end hands out the judged run, or nil if it did not come about. It waits for the terminal: do first what must not.
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

// last returns the judged run when it is over, and keeps nothing of how it stood before.
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

// judged adds to a timeline what the tracker does not know.
func (l *live) judged(tl *model.Timeline) *model.Timeline {
	tl.Tool = thisTool()
	verdict.Judge(tl, l.gates)
	return tl
}

// show renews what people look at.
func (l *live) show(now time.Duration) {
	l.tracker.SetEnd(now)
	begun, wants := time.Now(), l.wants()
	begins := wants == All && l.handed < All // page.isLookedAt sees to it that this is not often
	if !begins && (begun.Before(l.resting) || begun.Before(l.unseen) && wants == Seldom) {
		return
	}
	l.handed = wants
	l.shown = nil
	l.hand(Judgement{Now: now})
	if rested := begun.Add(judgeShare * time.Since(begun)); rested.After(l.resting) {
		l.resting = rested
	}
	l.unseen = begun.Add(refreshLines - refresh/2)
}

// wants is the most that an observer wants to know.
func (l *live) wants() (most Detail) {
	for _, o := range l.observers {
		most = max(most, o.Wants())
	}
	return most
}

// hand gives the observers how the run stands: judged anew if nobody has seen that yet, or somebody wants all of it.
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

// showAfter shows a run that goes on elsewhere, when nothing has come from there for so long. How it stood is left as it was when news
// came last: no rate falls, and nothing becomes unobserved, only because nobody knows.
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
