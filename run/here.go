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
	"lapse/run/exit"
	"lapse/run/live"
	"lapse/run/saved"
	"lapse/run/screen"
	"lapse/timeline"
)

// runHere measures from this machine: a URL, a Service with --here, and all targets of the agent in the Job.
func (o *Options) runHere(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	s, err := screen.Open(o.Dashboard, stderr, o.total())
	if err != nil {
		return err
	}
	defer s.Close()
	m := newMeasurement(o, s.Log)
	dismiss := sync.OnceFunc(m.dismissProbers)
	defer dismiss()
	if err := m.find(ctx, signals); err != nil {
		return err
	}
	m.printFound(s.Screen.Say)
	dir := o.runDir(o.ID)
	file, releaseDir, err := saved.BeginRecording(dir, record.Create)
	if err != nil {
		return err
	}
	defer releaseDir()
	m.rec = &live.Recording{Writer: file, Every: o.blockEvery(), Log: m.log}
	nothing := true // was measured
	defer func() {
		_ = file.Close() // the second Close of a run that was measured
		if nothing {
			saved.Discard(dir)
		}
	}()
	m.clock = timeline.StartClock()

	var job *jobRun // nil: this process is no agent
	var agentPage *screen.Page
	if o.AgentListen != "" {
		var closeAgent func()
		if job, closeAgent, err = m.serveAgent(); err != nil {
			return err
		}
		defer closeAgent()
		agentPage = job.page
	}
	m.live = s.Begin(ctx, o.gates, m.rec, agentPage)
	m.command = &wrappedCommand{args: o.Command, capture: !o.NoCapture, output: s.Screen.Output(), event: func(e timeline.Event) { m.queue.Put(e) }, now: m.clock.Now}
	nothing = false // a panic leaves what was measured until then
	tl, err := m.run(ctx, signals)
	dismiss() // now: an agent may hold its result for long
	if err != nil {
		nothing = true
		m.live.End(nil)
		return err
	}
	if job != nil {
		m.live.End(tl)
		job.handOver(tl, signals, stdout)
		return exit.With(tl.Verdict.ExitCode, nil)
	}
	unwritten := saved.Save(dir, tl)
	signal.Reset(stopSignals...) // from here on a signal may end the process at once
	m.live.End(tl)
	return saved.Present(stdout, dir, o.Output, tl, unwritten)
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
	file, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		return nil, exit.Usagef("give another --out", "%w", err)
	}
	defer func() { _ = file.Close() }() // the second Close of a run that was measured
	s, err := screen.Open("", stderr, o.total())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m := newMeasurement(o, s.Log)
	m.rec, m.clock = &live.Recording{Writer: file, Every: o.blockEvery(), Log: m.log}, clock
	m.live = s.Begin(ctx, nil, m.rec, nil)
	tl, err := m.run(ctx, signals)
	m.live.End(tl)
	return tl, errors.Join(err, m.rec.Err)
}
