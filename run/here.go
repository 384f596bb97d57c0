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

// runHere measures from this machine: a URL, a Service with --here, and all targets of the agent in the Job.
func (o *Options) runHere(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	s, err := newSession(o.Dashboard, stderr, o.total())
	if err != nil {
		return err
	}
	defer s.close()
	m := newMeasurement(o, s.log)
	dismiss := sync.OnceFunc(m.dismissProbers)
	defer dismiss()
	if err := m.find(ctx, signals); err != nil {
		return err
	}
	m.printFound(s.screen.say)
	dir := o.runDir(o.ID)
	file, releaseDir, err := beginRecording(dir, record.Create)
	if err != nil {
		return err
	}
	defer releaseDir()
	m.rec = &recording{Writer: file, every: o.blockEvery(), log: m.log}
	nothing := true // was measured
	defer func() {
		_ = file.Close() // the second Close of a run that was measured
		if nothing {
			discard(dir)
		}
	}()
	m.clock = timeline.StartClock()

	var job *jobRun // nil: this process is no agent
	var agentPage *page
	if o.AgentListen != "" {
		var closeAgent func()
		if job, closeAgent, err = m.serveAgent(); err != nil {
			return err
		}
		defer closeAgent()
		agentPage = job.page
	}
	m.live = s.begin(ctx, o.gates, m.rec, agentPage)
	m.command = &wrappedCommand{args: o.Command, capture: !o.NoCapture, output: s.screen.output(), event: func(e timeline.Event) { m.queue.Put(e) }, now: m.clock.Now}
	nothing = false // a panic leaves what was measured until then
	tl, err := m.run(ctx, signals)
	dismiss() // now: an agent may hold its result for long
	if err != nil {
		nothing = true
		m.live.end(nil)
		return err
	}
	if job != nil {
		m.live.end(tl)
		job.handOver(tl, signals, stdout)
		return ExitWith(tl.Verdict.ExitCode, nil)
	}
	unwritten := saveTimeline(dir, tl)
	signal.Reset(stopSignals...) // from here on a signal may end the process at once
	m.live.end(tl)
	return present(stdout, dir, o.Output, tl, unwritten)
}

// printFound prints the predictions of preflight, and what a pass does not cover.
func (m *measurement) printFound(say func(line string)) {
	for _, e := range m.predicts {
		say(predictedLine(e))
	}
	for _, s := range m.services {
		for _, line := range notCoveredLines(s.info) {
			say(line)
		}
	}
}

// MeasureOn measures from this machine on a started clock, and records into dir, which must exist.
func (o *Options) MeasureOn(ctx context.Context, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o.ID = NewID()
	file, err := record.Create(filepath.Join(dir, FactsFile))
	if err != nil {
		return nil, Usagef("give another --out", "%w", err)
	}
	defer func() { _ = file.Close() }() // the second Close of a run that was measured
	s, err := newSession("", stderr, o.total())
	if err != nil {
		return nil, err
	}
	defer s.close()
	m := newMeasurement(o, s.log)
	m.rec, m.clock = &recording{Writer: file, every: o.blockEvery(), log: m.log}, clock
	m.live = s.begin(ctx, nil, m.rec, nil)
	tl, err := m.run(ctx, signals)
	m.live.end(tl)
	return tl, errors.Join(err, m.rec.err)
}
