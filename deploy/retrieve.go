package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/record"
	"lapse/timeline"
)

// Where a result is fetched from, best first.
const (
	FromAgent       = "agent"               // the whole recording
	FromLog         = "log"                 // the judged timeline
	FromTermination = "termination message" // the verdict only
)

// Retrieved is the fetched result of a run.
type Retrieved struct {
	From     string          // one of the above
	Pod      string          // the agent's Pod
	Receipt  record.Receipt  // FromAgent: of the recording
	Timeline []byte          // FromLog: timeline.json
	Verdict  json.RawMessage // FromTermination: the verdict as far as it fits
	Failed   []error         // why better ways failed
}

// Retrieve fetches a run's result in the best way that works. It appends the recording to w; have reads what w already
// has of it (nil: nothing). If the recording is whole and safe (w.Keep succeeds, if w is a [Keeper]), the agent ends.
// Retrieve waits for a run that has not started, and follows a run to its end. If the recording breaks off, w has what
// has come.
func Retrieve(ctx context.Context, run *Run, have io.Reader, w io.Writer) (Retrieved, error) {
	pod, err := run.startedPod(ctx)
	if err != nil {
		return Retrieved{}, err
	}
	if pod == nil {
		return Retrieved{}, noPod(run)
	}
	holder := func(ctx context.Context, run *Run, pod *corev1.Pod, result *Retrieved) error {
		return fromAgent(ctx, run, pod, have, w, result)
	}
	return bring(ctx, run, pod, holder, fromLog, fromTermination)
}

// startedPod returns the run's Pod, or nil. It waits until the Pod exists and runs.
func (r *Run) startedPod(ctx context.Context) (*corev1.Pod, error) {
	pod, err := r.Pod(ctx)
	if err != nil || !r.isToStart(pod) {
		return pod, err
	}
	r.notify(fmt.Sprintf("run %s has not started yet: waiting for %s", r.Name, situation(pod)))
	_, failure := r.waitRunning(ctx)
	pod, err = r.Pod(ctx)
	if failure != nil && (err != nil || r.isToStart(pod)) {
		return nil, fmt.Errorf("retrieve run %s: %w", r.Name, failure)
	}
	return pod, err // it may have ended meanwhile
}

// RetrieveEnded fetches what the Pod of a run that has ended has left: the timeline in its log, else the verdict. If
// there is neither, the error is [ErrNothingLeft].
func RetrieveEnded(ctx context.Context, run *Run) (Retrieved, error) {
	pod, err := run.Pod(ctx)
	if err != nil {
		return Retrieved{}, err
	}
	if pod == nil {
		return Retrieved{}, noPod(run)
	}
	return bring(ctx, run, pod, fromLog, fromTermination)
}

// ErrNothingLeft says that a Pod ended without a timeline in its log and without a verdict in its termination message:
// there is nothing to fetch.
var ErrNothingLeft = errors.New("the Pod has left no result")

const nothingLeftHint = "nothing is left of it in the cluster: was it fetched before, or by somebody else?"

// A way fetches a result.
type way func(context.Context, *Run, *corev1.Pod, *Retrieved) error

// bring returns the result of the first way that works.
func bring(ctx context.Context, run *Run, pod *corev1.Pod, ways ...way) (Retrieved, error) {
	result := Retrieved{Pod: pod.Name}
	for _, way := range ways {
		err := way(ctx, run, pod, &result)
		if err == nil {
			return result, nil
		}
		result.Failed = append(result.Failed, err)
		if ctx.Err() != nil || errors.Is(err, agent.ErrKeep) {
			break
		}
	}
	failed := errors.Join(result.Failed...)
	if !isRunning(pod) && errors.Is(failed, errNoTimeline) && errors.Is(failed, errNoVerdict) {
		failed = hint.Add(nothingLeftHint, errors.Join(ErrNothingLeft, failed))
	}
	return result, fmt.Errorf("retrieve run %s: %w", run.Name, failed)
}

const stillGoesOn = "run %s still goes on (%s); it is followed to its end. " +
	"`lapse stop -n %s %s` ends it now and keeps its data"

func fromAgent(ctx context.Context, run *Run, pod *corev1.Pod, have io.Reader, w io.Writer, result *Retrieved) error {
	if !isRunning(pod) {
		return goneError(pod, "does not run", true)
	}
	tunnel, err := tunnelTo(run.REST, pod)
	if err != nil {
		return err
	}
	client := tunnel.Client()
	defer client.Close()
	client.Logger = run.Logger
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if status.Phase != timeline.PhaseEnded {
		run.notify(fmt.Sprintf(stillGoesOn, run.Name, status.Phase, run.Namespace, run.Name))
	}
	receipt, err := client.Continue(ctx, have, w)
	if err != nil {
		return err
	}
	if err := keepSafe(w, receipt); err != nil {
		return err
	}
	result.From, result.Receipt = FromAgent, receipt
	if err := client.Ack(ctx, receipt); err != nil {
		run.logger().Warn("the recording is here, but the agent could not be reached to end it", "error", err)
	}
	return nil
}

// A Keeper makes sure that what was written to it survives this process and matches the receipt. Until then the Pod has
// the only copy.
type Keeper interface{ Keep(record.Receipt) error }

func keepSafe(w io.Writer, receipt record.Receipt) error {
	keeper, ok := w.(Keeper)
	if !ok {
		return nil
	}
	if err := keeper.Keep(receipt); err != nil {
		return fmt.Errorf("%w: %w", agent.ErrKeep, err)
	}
	return nil
}

func fromLog(ctx context.Context, run *Run, pod *corev1.Pod, result *Retrieved) error {
	log, err := run.Client.PodLog(ctx, pod.Namespace, pod.Name, corev1.PodLogOptions{Container: ContainerName})
	if err != nil {
		return fmt.Errorf("read the log of Pod %s: %w", pod.Name, err)
	}
	defer log.Close()
	timeline, err := ParseTimeline(log)
	if err != nil {
		return err
	}
	result.From, result.Timeline = FromLog, timeline
	return nil
}

func fromTermination(_ context.Context, _ *Run, pod *corev1.Pod, result *Retrieved) error {
	ended := agentEnding(pod)
	if ended == nil {
		return fmt.Errorf("Pod %s: %w", pod.Name, errNoVerdict)
	}
	message := bytes.TrimSpace([]byte(ended.Message))
	if len(message) == 0 || message[0] != '{' || !json.Valid(message) {
		return fmt.Errorf("Pod %s: %w: %s", pod.Name, errNoVerdict, terminated(ended))
	}
	result.From, result.Verdict = FromTermination, json.RawMessage(message)
	return nil
}
