// Package live judges a run while it goes on, and gives its facts and judgements to observers: the recording, the
// page, the terminal.
package live

import (
	"sync"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/run/judging"
	"lapse/timeline"
)

const (
	// Refresh is the time between two updates of the page and the terminal.
	Refresh = 250 * time.Millisecond
	// refreshLines is the time between two judgements where nobody looks at a page or a terminal: for lines in a log.
	refreshLines = time.Second
	// judgeShare bounds the time that judging takes from the loop, which follows no endpoints in that time. The loop
	// waits at least judgeShare times the length of a judgement before the next.
	judgeShare = 10
)

// Run judges a run as its facts arrive, and gives both to the observers. It belongs to one goroutine, which never
// waits for the observers.
type Run struct {
	Tracker   *correlate.Tracker
	Gates     []verdict.Gate
	Observers []Observer
	Shown     *model.Timeline // the last judgement that they got; nil: none
	Begun     <-chan struct{} // gets a value when the page is opened: the run is shown at once then; nil: no page
	handed    Detail          // what the observers wanted when they last got a judgement

	RestUntil   time.Time // there is no judgement before this instant, unless somebody opens the page
	seldomUntil time.Time // there is no judgement before this instant, while all observers want [Seldom]
}

// New returns a run without facts.
func New(gates []verdict.Gate, observers ...Observer) *Run {
	return &Run{Tracker: correlate.NewTracker(correlate.Options{}), Gates: gates, Observers: observers}
}

// WokenBy makes l show the run at once when begun gets a value: somebody has opened the page. nil for no page.
func (l *Run) WokenBy(begun <-chan struct{}) *Run {
	l.Begun = begun
	return l
}

// End gives the observers the judged run, or nil if there is none. It waits for the terminal: first do what must not
// wait.
func (l *Run) End(tl *model.Timeline) {
	for _, o := range l.Observers {
		o.Close(tl)
	}
}

// Add gives a fact to the observers and judges it.
func (l *Run) Add(f timeline.Fact) {
	for _, o := range l.Observers {
		o.Fact(f)
	}
	l.Tracker.Add(f)
}

// Timeline returns the run as judged so far.
func (l *Run) Timeline() *model.Timeline { return l.judged(l.Tracker.Timeline()) }

// Last returns the judged run when it is over. It keeps no earlier judgement.
func (l *Run) Last() *model.Timeline {
	l.Shown = nil
	tl := l.judged(l.Tracker.Last())
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
func (l *Run) judged(tl *model.Timeline) *model.Timeline {
	tl.Tool = judging.Tool()
	verdict.Judge(tl, l.Gates)
	return tl
}

// Show gives the observers a judgement, if one is due.
func (l *Run) Show(now time.Duration) {
	l.Tracker.SetEnd(now)
	begun, wants := time.Now(), l.wants()
	begins := wants == All && l.handed < All // a page is looked at seldom
	if !begins && (begun.Before(l.RestUntil) || begun.Before(l.seldomUntil) && wants == Seldom) {
		return
	}
	l.handed = wants
	l.Shown = nil
	l.hand(Judgement{Now: now})
	if rested := begun.Add(judgeShare * time.Since(begun)); rested.After(l.RestUntil) {
		l.RestUntil = rested
	}
	l.seldomUntil = begun.Add(refreshLines - Refresh/2)
}

// wants returns the most that any observer wants.
func (l *Run) wants() (most Detail) {
	for _, o := range l.Observers {
		most = max(most, o.Wants())
	}
	return most
}

// hand gives the observers a judgement. It judges the run if there is no judgement yet, or an observer wants all of
// it.
func (l *Run) hand(j Judgement) {
	j.All = l.wants() == All
	switch {
	case j.All:
		l.Shown = l.Timeline()
	case l.Shown == nil:
		l.Shown = l.judged(l.Tracker.Brief())
	}
	j.Timeline = l.Shown
	for _, o := range l.Observers {
		o.Judged(j)
	}
}

// A Pod sends its facts every quarter of a second. If nothing comes in, the last judgement is shown again: from late
// on, and from silence on with a notice.
const (
	late    = time.Second
	silence = 3 * time.Second
)

// ShowAfter shows a run that is measured elsewhere. Nothing has come in for the time silent. From late on it shows the
// last judgement again: a pause of the connection lowers no rate, and leaves nothing unobserved.
func (l *Run) ShowAfter(silent, now time.Duration) {
	if silent < late {
		l.Show(now)
		return
	}
	if silent < silence {
		silent = 0
	}
	l.hand(Judgement{Now: now, Silent: silent})
}
