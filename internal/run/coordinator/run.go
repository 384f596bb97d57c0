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

// Run measures from this machine, and prints the result. The agent in the Job hands it over instead.
func Run(ctx context.Context, o *spec.Options, signals exit.Signals, stdout, stderr io.Writer) error {
	s, err := screen.Open(screen.Addresses{Page: o.Dashboard, Metrics: o.Metrics}, stderr, o.Total())
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
	nothing := true // has been measured
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
	begin := func() *live.Run {
		l := s.Begin(ctx, o.Gates, m.Rec, agentPage)
		if job != nil {
			limit := live.MemoryLimit{Most: deploy.MostMemory}
			l.Observers = slices.Insert(l.Observers, 0, live.Observer(limit))
		}
		return l
	}
	if o.Armed {
		m.arm(begin, s.Screen.Say)
	} else {
		m.Live = begin()
	}
	if len(o.Command) > 0 {
		m.Work = &command.Wrapped{
			Args: o.Command, Capture: !o.NoCapture, Output: s.Screen.Output(),
			Event: func(e timeline.Event) { m.Queue.Put(e) }, Now: m.Clock.Now,
		}
	}
	nothing = false // a panic keeps what was measured until then
	tl, err := m.run(ctx, signals.C)
	dismiss() // now: an agent may hold its result for a long time
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

// A Place is where a measurement happens for [MeasureOn].
type Place struct {
	Clock   timeline.Clock // started
	Dir     string         // for the recording; it must exist
	Signals <-chan os.Signal
	Stderr  io.Writer
}

// MeasureOn measures from this machine, and returns the judged run.
func MeasureOn(ctx context.Context, o *spec.Options, p Place) (*model.Timeline, error) {
	o.ID = spec.NewID()
	file, err := record.Create(filepath.Join(p.Dir, saved.FactsFile))
	if err != nil {
		return nil, exit.Usagef("give another --out", "%w", err)
	}
	defer func() { _ = file.Close() }() // the second Close of a run that was measured
	s, err := screen.Open(screen.Addresses{}, p.Stderr, o.Total())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m := newMeasurement(o, s.Log)
	m.Rec, m.Clock = &live.Recording{Writer: file, Every: blockEvery(o), Log: m.log}, p.Clock
	m.Live = s.Begin(ctx, nil, m.Rec, nil)
	tl, err := m.run(ctx, p.Signals)
	m.Live.End(tl)
	return tl, errors.Join(err, m.Rec.Err)
}

// blockEvery returns the time between two blocks of the recording. It is long, because larger blocks are denser, and
// short where a workstation follows the recording.
func blockEvery(o *spec.Options) time.Duration {
	if o.AgentListen != "" {
		return live.Refresh
	}
	return time.Second
}
