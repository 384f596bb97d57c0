// Package workstation follows a run in the cluster. [Run] creates the Job, copies the recording while it is written,
// judges and shows it, runs the command, and sends what the command does to the Job. [Attach] only watches.
package workstation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/record"
	"lapse/internal/run/command"
	"lapse/internal/run/exit"
	"lapse/internal/run/measure"
	"lapse/internal/run/prober"
	"lapse/internal/run/resolve"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/internal/run/spec"
)

// A clusterRun is a run in the cluster that this workstation follows. The command runs here, a Pod measures, and its
// recording comes in meanwhile. One goroutine, in follow, owns it.
type clusterRun struct {
	feed
	opts        *spec.Options
	job         *deploy.Run
	dir         string
	copy        *record.Copy
	screen      *screen.Screen
	log         *slog.Logger
	command     measure.Work // nil: a duration is measured
	commandExit chan int     // the command's exit code
	events      *commandEvents

	measured bool   // the Pod measures, or has
	running  bool   // the command runs
	stopped  string // the signal that ended the run, as in [exit.StoppedBy]; empty: none
	whole    bool   // the whole recording has come in
	lost     error  // why the rest of the recording will not come in; nil: it may
	keep     bool   // the Job must not be deleted: it may hold facts that could not be fetched
	logged   bool   // the result came from the Pod's log, and the copy is a part of the recording

	lastEvent uint32        // the number of the last event that came in
	latest    time.Duration // the latest instant that came in
	acked     int           // how many of events came back in the recording
}

// Run measures from a Job. At the end it deletes all of the run's objects in the cluster, unless the Job
// holds facts that are not safe here.
func Run(ctx context.Context, o *spec.Options, signals exit.Signals, stdout, stderr io.Writer) error {
	setup, release := exit.Interruptible(ctx, signals.C)
	defer release()
	s, err := screen.Open(screen.Addresses{Page: o.Dashboard, Metrics: o.Metrics}, stderr, o.Total())
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := o.Kube.Connect(setup)
	if err != nil {
		return exit.StoppedOr(setup, err)
	}
	config, err := resolve.Job(setup, o, c, s.Log)
	if err != nil {
		return exit.StoppedOr(setup, exit.AsUsage(err))
	}
	o.PrintChoice(s.Screen.Say)
	for _, line := range o.NotCovered {
		s.Screen.Say(line)
	}
	r := newClusterRun(o, s)
	var releaseDir func()
	if r.copy, releaseDir, err = saved.BeginRecording(r.dir, record.CreateCopy); err != nil {
		return err
	}
	defer releaseDir()
	defer r.closeCopy()
	cleanUp := sync.OnceFunc(func() { r.cleanUp(ctx) })
	defer cleanUp()
	if err := r.startJob(ctx, setup, c.Deploy(s.Log), config); err != nil {
		return exit.StoppedOr(setup, err)
	}
	defer r.client.Close()
	if release(); setup.Err() != nil {
		return exit.StoppedOr(setup, nil)
	}
	r.live = s.Begin(ctx, o.Gates, nil, nil)
	r.command = r.newWork(c.Client)
	leaveOutside, err := r.measureOutside(ctx)
	if err != nil {
		return exit.StoppedOr(setup, err)
	}
	r.measured = true
	r.keep = true // until the end is in order: a panic must not delete what the Pod holds
	tl := r.follow(ctx, signals.C)
	leaveOutside()
	unwritten := r.save(tl)
	cleanUp()
	signals.Release() // from here on a signal may end the process at once
	r.live.End(tl)
	if o.Changes > 0 {
		return presentRoutes(stdout, r.dir, o.Output, tl, unwritten)
	}
	return saved.Present(stdout, r.dir, o.Output, tl, unwritten)
}

// newClusterRun returns a run without a copy of its recording, a Job and a live judgement.
func newClusterRun(o *spec.Options, s *screen.Session) *clusterRun {
	return &clusterRun{
		opts: o, log: s.Log, screen: s.Screen, dir: o.RunDir(o.ID), feed: newFeed(s.Log),
		commandExit: make(chan int, 1), events: newCommandEvents(),
	}
}

// newWork returns what this machine does while the Job measures; nil: it only waits.
func (r *clusterRun) newWork(client kube.Client) measure.Work {
	switch o := r.opts; {
	case o.Changes > 0:
		return r.newPodChanger(client)
	case len(o.Command) > 0:
		return &command.Wrapped{
			Args: o.Command, Capture: !o.NoCapture, Output: r.screen.Output(),
			Event: r.sendLater, Now: r.clock.local.Now,
		}
	}
	return nil
}

// closeCopy closes the copy of the recording. If nothing was measured it removes the run's directory.
func (r *clusterRun) closeCopy() {
	if err := r.copy.Close(); err != nil {
		r.log.Warn("the copy of the recording may be incomplete", "error", err)
	}
	if !r.measured {
		saved.Discard(r.dir)
	}
}

// startJob creates the Job, waits until its Pod measures, and compares the clocks.
func (r *clusterRun) startJob(ctx, setup context.Context, cluster deploy.Cluster, config deploy.Config) (err error) {
	r.screen.Say(fmt.Sprintf("creating Job %s/%s", config.Namespace, config.Name))
	var over func()
	cluster.Notify, over = SayWaiting(r.screen.Say, "waiting for the API server to create it")
	defer over()
	cluster.CreateWait = r.opts.ProberWait
	if r.job, err = deploy.Create(setup, cluster, config); err != nil {
		return notBegun(err)
	}
	if r.client, _, err = r.job.WaitMeasuring(setup); err != nil {
		return r.notFollowed(ctx, err)
	}
	r.client.RunsCommand = true
	if err := r.clock.compare(setup, r.client.SyncClock); err != nil {
		r.client.Close()
		return r.notFollowed(ctx, fmt.Errorf("compare clocks with the Pod: %w", err))
	}
	return nil
}

// SayWaiting says every few seconds what a run waits for, until over is called or the run is armed. notify, for a
// [deploy.Cluster], replaces what that is.
func SayWaiting(say func(string), what string) (notify func(string), over func()) {
	waiting := screen.StartWaiting(say, what)
	notify = func(what string) {
		if waiting.Is(what); what == deploy.Armed {
			waiting.Over()
			say(what)
		}
	}
	return notify, waiting.Over
}

// save writes the result to disk. If the result is the timeline from the Pod's log, the incomplete recording gets
// another name: the run must not be judged by it.
func (r *clusterRun) save(tl *model.Timeline) error {
	err := saved.Save(r.dir, tl)
	if !r.logged {
		return err
	}
	if err == nil {
		err = saved.RenameFile(filepath.Join(r.dir, saved.FactsFile), filepath.Join(r.dir, saved.PartialFile))
	}
	r.keep = err != nil // only the Pod's log has the result then
	return err
}

// measureOutside measures from this machine as well, if --from outside asks for it, until leave is called.
func (r *clusterRun) measureOutside(ctx context.Context) (leave func(), err error) {
	if len(r.opts.FromHere) == 0 {
		return func() {}, nil
	}
	p, err := prober.JoinOutside(ctx, r.client, r.clock.local, r.opts, r.log)
	if err != nil {
		return nil, fmt.Errorf("measure from outside of the cluster: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var measuring sync.WaitGroup
	measuring.Go(func() { p.Run(ctx) })
	return func() { cancel(); measuring.Wait() }, nil
}

// notFollowed returns the error of a run that could not be followed. If its Pod has measured and ended, for example
// while this workstation was suspended, the Job is kept: it holds the result.
func (r *clusterRun) notFollowed(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if _, nothing := deploy.RetrieveEnded(ctx, r.job); nothing != nil {
		return notBegun(err)
	}
	r.keep = true
	return hint.Errorf(retrieves(r.job)+" its result",
		"run %s had ended before it could be followed from here", r.job.Name)
}

// cleanUp deletes the Job and all objects that came with it, even if ctx has ended.
func (r *clusterRun) cleanUp(ctx context.Context) {
	if r.job == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	deletes := "`lapse delete -n " + r.job.Namespace + " " + r.job.Name + "`"
	if r.keep {
		r.log.Warn("the Job is kept, because it may hold data that was not fetched: " +
			retrieves(r.job) + " it, then " + deletes)
		return
	}
	if err := r.job.Delete(ctx); err != nil {
		r.log.Warn("the Job may still be there: try "+deletes, "error", err)
		return
	}
	if err := r.job.WaitGone(ctx); err != nil {
		r.log.Warn("the Job is deleted, its Pod still ends", "error", err)
	}
}

// notBegun returns the error of a run in the cluster that did not begin: a usage error if the cluster refused it.
func notBegun(err error) error {
	if deploy.Refused(err) {
		return exit.AsUsage(err)
	}
	return err
}
