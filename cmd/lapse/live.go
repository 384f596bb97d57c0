package main

import (
	"io"
	"strings"
	"sync"
	"time"

	"lapse/correlate"
	"lapse/report"
	"lapse/timeline"
)

// refresh is how often what people look at is renewed.
const refresh = 250 * time.Millisecond

// live follows a run as its facts arrive, judges it, and shows it on the terminal and the page. It
// belongs to one goroutine, which never waits for a terminal: another draws.
type live struct {
	tracker *correlate.Tracker
	gates   []correlate.Gate
	page    *page      // nil: nobody asked for one
	drawn   chan frame // holds the newest frame that is not drawn yet
	drawing sync.WaitGroup
}

// A frame is what the terminal is to show next.
type frame struct {
	tl  *correlate.Timeline
	now time.Duration
}

func newLive(gates []correlate.Gate, progress *report.Progress, p *page) *live {
	l := &live{tracker: correlate.NewTracker(correlate.Options{}), gates: gates, page: p, drawn: make(chan frame, 1)}
	l.drawing.Go(func() {
		for f := range l.drawn {
			progress.Update(f.tl, f.now)
		}
		progress.Done()
	})
	return l
}

// end leaves the terminal to others.
func (l *live) end() {
	close(l.drawn)
	l.drawing.Wait()
}

func (l *live) add(f timeline.Fact) { l.tracker.Add(f) }

// timeline returns the run as judged so far.
func (l *live) timeline() *correlate.Timeline { return l.judged(l.tracker.Timeline()) }

// judged adds to a timeline what the tracker does not know.
func (l *live) judged(tl *correlate.Timeline) *correlate.Timeline {
	tl.Tool = tool()
	correlate.Judge(tl, l.gates)
	return tl
}

// show renews what people look at.
func (l *live) show(now time.Duration) {
	l.tracker.SetEnd(now)
	if l.page == nil {
		l.draw(l.judged(l.tracker.Brief()), now)
		return
	}
	tl := l.timeline()
	l.draw(tl, now)
	l.page.show(tl, now)
}

// draw gives the terminal its next frame.
func (l *live) draw(tl *correlate.Timeline, now time.Duration) {
	select {
	case l.drawn <- frame{tl, now}:
	default: // the terminal is slow: it misses this one
	}
}

func tool() correlate.Tool { return correlate.Tool{Name: "lapse", Version: version} }

// newProgress returns the progress display fit for w: redrawn in place on a terminal, lines elsewhere.
func newProgress(w io.Writer, total time.Duration) *report.Progress {
	style := styleOf(w)
	return report.NewProgress(w, report.ProgressOptions{
		Terminal: style.terminal, Color: style.color, Unicode: style.unicode, Width: style.width, Total: total,
	})
}

// progressOutput puts the wrapped command's output, line by line, above what is redrawn.
type progressOutput struct{ progress *report.Progress }

func (o progressOutput) Write(p []byte) (int, error) {
	o.progress.Log(strings.TrimRight(string(p), "\r\n"))
	return len(p), nil
}
