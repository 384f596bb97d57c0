package coordinator

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/internal/record"
	"lapse/internal/run/command"
	"lapse/internal/run/exit"
	"lapse/internal/run/live"
	"lapse/internal/run/resolve"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// Run measures from this machine: a URL, a Service with --here, and all targets of the agent in the Job.
func Run(ctx context.Context, o *spec.Options, signals exit.Signals, stdout, stderr io.Writer) error {
	s, err := screen.Open(o.Dashboard, stderr, o.Total())
	if err != nil {
		return err
	}
	defer s.Close()
	m := newMeasurement(o, s.Log)
	dismiss := sync.OnceFunc(m.dismissProbers)
	defer dismiss()
	setup, release := exit.Interruptible(ctx, signals.C)
	defer release()
	if err := m.Find(setup); err != nil {
		return exit.StoppedOr(setup, err)
	}
	if release(); setup.Err() != nil {
		return exit.StoppedOr(setup, nil)
	}
	m.printFound(s.Screen.Say)
	dir := o.RunDir(o.ID)
	file, releaseDir, err := saved.BeginRecording(dir, record.Create)
	if err != nil {
		return err
	}
	defer releaseDir()
	m.Rec = &live.Recording{Writer: file, Every: blockEvery(o), Log: m.log}
	nothing := true // was measured
	defer func() {
		_ = file.Close() // the second Close of a run that was measured
		if nothing {
			saved.Discard(dir)
		}
	}()
	m.Clock = timeline.StartClock()

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
	m.Live = s.Begin(ctx, o.Gates, m.Rec, agentPage)
	if job != nil {
		limit := live.MemoryLimit{Most: deploy.MostMemory}
		m.Live.Observers = slices.Insert(m.Live.Observers, 0, live.Observer(limit))
	}
	if len(o.Command) > 0 {
		m.Work = &command.Wrapped{
			Args: o.Command, Capture: !o.NoCapture, Output: s.Screen.Output(),
			Event: func(e timeline.Event) { m.Queue.Put(e) }, Now: m.Clock.Now,
		}
	}
	nothing = false // a panic leaves what was measured until then
	tl, err := m.run(ctx, signals.C)
	dismiss() // now: an agent may hold its result for long
	if err != nil {
		nothing = true
		m.Live.End(nil)
		return err
	}
	if job != nil {
		m.Live.End(tl)
		job.handOver(tl, signals.C, stdout)
		return exit.With(tl.Verdict.ExitCode, nil)
	}
	unwritten := saved.Save(dir, tl)
	signals.Release() // from here on a signal may end the process at once
	m.Live.End(tl)
	return saved.Present(stdout, dir, o.Output, tl, unwritten)
}

// printFound prints the predictions of preflight, and what a pass does not cover.
func (m *measurement) printFound(say func(line string)) {
	for _, e := range m.Predicts {
		say(resolve.PredictedLine(e))
	}
	for _, s := range m.Services {
		for _, line := range spec.NotCoveredLines(s.Info) {
			say(line)
		}
	}
}

// MeasureOn measures from this machine on a started clock, and records into dir, which must exist.
func MeasureOn(ctx context.Context, o *spec.Options, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o.ID = spec.NewID()
	file, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		return nil, exit.Usagef("give another --out", "%w", err)
	}
	defer func() { _ = file.Close() }() // the second Close of a run that was measured
	s, err := screen.Open("", stderr, o.Total())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m := newMeasurement(o, s.Log)
	m.Rec, m.Clock = &live.Recording{Writer: file, Every: blockEvery(o), Log: m.log}, clock
	m.Live = s.Begin(ctx, nil, m.Rec, nil)
	tl, err := m.run(ctx, signals)
	m.Live.End(tl)
	return tl, errors.Join(err, m.Rec.Err)
}

// blockEvery is how often what was measured is put into the recording: as seldom as is allowed, because
// larger blocks are denser, but soon where a workstation follows it.
func blockEvery(o *spec.Options) time.Duration {
	if o.AgentListen != "" {
		return live.Refresh
	}
	return time.Second
}
