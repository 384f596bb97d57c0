package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"

	"lapse/correlate/model"
	"lapse/record"
	"lapse/timeline"
)

// runHere measures from this machine: of a URL, of a Service with --here, and as the agent in the Job.
func (o *Options) runHere(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	address, err := ListenForPage(o.Dashboard)
	if err != nil {
		return err
	}
	defer address.Close()
	screen := newScreen(stderr, o.total())
	defer screen.close()
	m := newMeasurement(o, NewLogger(screen.talk()))
	dismiss := sync.OnceFunc(m.dismissProbers)
	defer dismiss()
	if err := m.find(ctx, signals); err != nil {
		return err
	}
	for _, e := range m.predicts {
		screen.say(predictedLine(e))
	}
	for _, s := range m.services {
		for _, line := range notCoveredLines(s.info) {
			screen.say(line)
		}
	}
	dir := o.runDir(o.ID)
	file, err := beginRecording(dir, record.Create)
	if err != nil {
		return err
	}
	m.rec = &recording{Writer: file, every: o.blockEvery(), log: m.log}
	measured := false
	defer func() {
		_ = file.Close() // a second Close, except where nothing was measured
		if !measured {
			discard(dir)
		}
	}()
	m.clock = timeline.StartClock()

	shown, closePage := address.Serve(ctx, screen.talk())
	var a *jobRun
	if o.AgentListen != "" {
		if a, closePage, err = m.serveAgent(); err != nil {
			return err
		}
		shown = a.page
	}
	defer closePage()

	m.live = newLive(o.gates, observers(screen, shown, m.rec)...).wokenBy(shown)
	m.command = &wrappedCommand{args: o.Command, capture: !o.NoCapture, output: screen.output(), event: func(e timeline.Event) { m.queue.put(e) }, now: m.clock.Now}
	tl, err := m.run(ctx, signals)
	dismiss() // before the result is held for long
	if err != nil {
		m.live.end(nil)
		return err
	}
	measured = true
	if a != nil {
		m.live.end(tl)
		a.handOver(tl, signals, stdout)
		return ExitWith(tl.Verdict.ExitCode, nil)
	}
	unwritten := saveTimeline(dir, tl)
	signal.Reset(stopSignals...) // nothing is left to be ended in order
	m.live.end(tl)
	return present(stdout, dir, o.Output, tl, unwritten)
}

// observers are who follows a run: shown may be nil, and so may rec. The terminal comes last, because it may be paused.
func observers(terminal *screen, shown *page, rec *recording) (all []Observer) {
	if rec != nil {
		all = append(all, rec)
	}
	if shown != nil {
		all = append(all, newQueued(shown, 0))
	}
	return append(all, memoryLimit{}, terminal)
}

// MeasureOn measures from this machine on a clock that has started, into dir, which is there.
func (o *Options) MeasureOn(ctx context.Context, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o.ID = NewID()
	rec, err := record.Create(filepath.Join(dir, FactsFile))
	if err != nil {
		return nil, Usagef("give another --out", "%w", err)
	}
	defer func() { _ = rec.Close() }() // a second Close, except where nothing was measured
	screen := newScreen(stderr, o.total())
	m := newMeasurement(o, NewLogger(screen.talk()))
	m.rec, m.clock = &recording{Writer: rec, every: o.blockEvery(), log: m.log}, clock
	m.live = newLive(nil, observers(screen, nil, m.rec)...)
	tl, err := m.run(ctx, signals)
	m.live.end(tl)
	return tl, errors.Join(err, m.rec.err)
}
