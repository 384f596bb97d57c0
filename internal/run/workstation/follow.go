package workstation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/live"
	"lapse/internal/run/resolve"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// follow starts the command when the agent measures, and takes in facts until the run has ended or its Pod is lost.
// It returns the judged run.
func (r *clusterRun) follow(ctx context.Context, signals <-chan os.Signal) *model.Timeline {
	ctx = context.WithoutCancel(ctx)
	working, leave := context.WithCancel(ctx)
	var workers sync.WaitGroup
	fetched := r.begin(working, &workers, r.copy.Receive)
	commandEnded := make(chan string, 1)
	workers.Go(func() { r.sendEvents(working, commandEnded) })
	abort := func(reason string) { workers.Go(func() { r.abort(working, reason) }) }

	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-r.facts.Ready:
			r.absorb()
		case <-r.live.Begun:
			r.show()
		case <-tick.C:
			r.show()
		case <-r.commandExit:
			commandEnded <- r.stopped
			r.running = false
			over = r.isFetched()
		case err := <-fetched:
			over = r.onFetched(err)
		case sig := <-signals:
			over = r.onSignal(sig, abort)
		}
	}
	leave()
	workers.Wait() // conclude must be the only writer of the copy
	r.absorb()
	return r.conclude(ctx)
}

// isFetched reports whether the incoming recording has ended.
func (r *clusterRun) isFetched() bool { return r.whole || r.lost != nil }

// onFetched takes note that the incoming recording has ended, and reports whether the run is over. err is the reason
// for an incomplete recording.
func (r *clusterRun) onFetched(err error) (over bool) {
	r.absorb()
	run := r.live.Timeline().Run
	if err == nil && run.Live {
		err = errors.New("the Pod's recording breaks off before the run's end")
	}
	r.whole, r.lost = err == nil, err
	if !r.running {
		return true
	}
	// The command belongs to the user: it goes on without a measurement.
	if r.whole {
		why := cmp.Or(run.Aborted, "the workstation reported the end of the command")
		err = fmt.Errorf("the measuring Pod ended the run: %s", why)
	}
	r.log.Error("the command goes on, but nothing is measured any more", "error", err)
	return false
}

// onSignal ends the run in order, and reports whether it is over. A first SIGINT goes to the command, if that runs.
// Any other first signal ends the command and asks the Pod to end the run. A second signal ends the command, and does
// not wait for the Pod.
func (r *clusterRun) onSignal(sig os.Signal, abort func(reason string)) (over bool) {
	again := r.stopped != ""
	r.stopped = exit.StoppedBy(sig)
	if r.running && !again && sig == syscall.SIGINT {
		r.command.Signal(syscall.SIGINT)
		r.log.Warn(exit.ToldCommand(r.opts.Settle))
		return false
	}
	r.stopCommand()
	if again || r.isFetched() {
		return true
	}
	abort(r.stopped)
	return false
}

// acknowledge adds the events that the Pod got too late to the copy of the whole recording. Then it acknowledges the
// recording to the Pod.
func (r *clusterRun) acknowledge(ctx context.Context) *model.Timeline {
	receipt := record.Receipt{Length: r.copy.Size(), SHA256: r.copy.Sum()}
	err := r.copy.Check()
	if err == nil {
		err = r.extend(r.clock.placed(r.events.from(r.acked))...)
	}
	if closeErr := r.copy.Close(); err == nil {
		err = closeErr
	}
	tl := r.live.Timeline()
	if err != nil {
		r.log.Error("the recording is not safe here", "error", err)
		verdict.Unsaved(tl, err)
		r.keep = true
		return tl
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.client.Ack(ctx, receipt); err != nil {
		warnUnlessGone(ctx, r.log, "the Pod could not be informed that its recording is safe", err)
	}
	return tl
}

// absorb takes in the received facts.
func (r *clusterRun) absorb() { r.feed.absorb(r.noteFact) }

func (r *clusterRun) noteFact(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Batch:
		for _, request := range f.Requests {
			r.latest = max(r.latest, request.Done.Truncate(time.Microsecond))
		}
	case timeline.Event:
		r.lastEvent, r.latest = f.ID, max(r.latest, f.Seen)
		switch f.Kind {
		case timeline.RunPhase:
			r.enter(f)
		case timeline.Command, timeline.CommandOutput, timeline.DeletionAsked:
			r.acked++
		case timeline.Predicted:
			r.screen.Say(resolve.PredictedLine(f))
		}
	}
}

// enter follows the agent into a phase, and starts the command when it measures.
func (r *clusterRun) enter(f timeline.Event) {
	if timeline.Phase(f.To) != timeline.PhaseMeasuring || r.command == nil {
		return
	}
	r.screen.ShowEvent(f) // before the screen shows the command
	r.running = true
	if err := r.command.Start(func(code int) { r.commandExit <- code }); err != nil {
		r.log.Error("the command did not start", "error", err)
		r.sendLater(timeline.Event{
			Seen: r.clock.local.Now(), Kind: timeline.Command, To: "exited", Writer: "lapse",
			ExitCode: new(127), Detail: err.Error(),
		})
		r.commandExit <- 127
	}
}

// abort asks the agent to end the run now.
func (r *clusterRun) abort(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.client.Abort(ctx, reason); err != nil {
		warnUnlessGone(ctx, r.log, "the Pod could not be asked to stop", err)
	}
}

// stopCommand ends the command, if it runs.
func (r *clusterRun) stopCommand() {
	if r.running {
		r.command.Stop(r.commandExit)
		r.running = false
	}
}

// conclude ends the run and returns the result. If the recording is incomplete here and the Pod has ended, the result
// is the timeline in the Pod's log. Otherwise it is the part that came in, and the time from there to the end of the
// command is unobserved. After a signal to stop, the run ends now.
func (r *clusterRun) conclude(ctx context.Context) *model.Timeline {
	r.keep = false
	if r.whole {
		return r.acknowledge(ctx)
	}
	gone, isGone := errors.AsType[*agent.GoneError](r.lost)
	r.keep = r.lost != nil && !isGone
	if isGone && gone.Ended {
		tl, err := r.fromLog(ctx)
		if err == nil {
			return tl
		}
		if r.keep = !errors.Is(err, deploy.ErrNothingLeft); r.keep {
			r.log.Warn("the run could not be read from the Pod's log either", "error", err)
		}
	}
	end, why := r.latest, r.stopped
	own := r.clock.placed(r.events.from(r.acked))
	for _, e := range own {
		end = max(end, e.Seen)
	}
	switch {
	case isGone:
		why = "the measuring " + gone.Error()
	case r.lost != nil:
		why = r.lost.Error()
	default:
		end = max(end, r.clock.now())
	}
	r.live.Tracker.SetEnd(end)
	last := timeline.PhaseChange(end, "", timeline.PhaseEnded, why)
	last.Writer = "lapse"
	err := r.extend(append(own, last)...)
	tl := r.live.Timeline()
	if err != nil {
		r.log.Error("the recording lacks the run's end; the report does not", "error", err)
		verdict.Unsaved(tl, err)
	}
	return tl
}

// extend adds events of this machine to the copy, and judges them with the rest.
func (r *clusterRun) extend(events ...timeline.Event) error {
	if len(events) == 0 {
		return nil
	}
	var facts []timeline.Fact
	for _, e := range events {
		r.lastEvent++
		e.ID = r.lastEvent
		facts = append(facts, e)
		r.live.Add(e)
	}
	return r.copy.Extend(facts...)
}

// fromLog reads the run's timeline from the log of its Pod. The Pod must have ended.
func (r *clusterRun) fromLog(ctx context.Context) (*model.Timeline, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	got, err := deploy.RetrieveEnded(ctx, r.job)
	if err != nil {
		return nil, err
	}
	if got.From != deploy.FromLog {
		return nil, fmt.Errorf("only the verdict is left: %s", got.Verdict)
	}
	tl, err := report.ReadJSON(bytes.NewReader(got.Timeline))
	if err != nil {
		return nil, err
	}
	r.logged = true
	r.log.Warn("the Pod ended before its whole recording was here: this is the run as the Pod judged it, from its log",
		"partial recording", filepath.Join(r.dir, saved.PartialFile))
	if unsent := len(r.events.from(r.acked)); unsent > 0 {
		r.log.Warn("the last events of the command did not reach the Pod", "events", unsent)
	}
	return tl, nil
}
