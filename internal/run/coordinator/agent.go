package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/report"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/screen"
	"lapse/internal/run/source"
	"lapse/internal/run/version"
	"lapse/timeline"
)

// How long the Pod waits for its recording to be fetched after SIGTERM. The sum fits into the grace period of one
// minute. It is short, because a drain may wait for the Pod.
const (
	// lastChance is the wait for a transfer to begin.
	lastChance = 20 * time.Second
	// briefChance is lastChance in the baseline, or if the workstation ended the run: that fetches at once, or never.
	briefChance = 5 * time.Second
	// lastBytes is the wait for the end of a transfer.
	lastBytes = 45 * time.Second
	// ackWithin is the wait for the acknowledgement after a transfer.
	ackWithin = 2 * time.Second
)

// A jobRun is the run inside the Job, the agent: it measures like a run from this machine, takes requests from
// the workstation, and holds the result until it was fetched.
type jobRun struct {
	m                *measurement
	page             *screen.Page
	*source.Delivery // of the recording; once that is fetched the agent may exit

	mu        sync.Mutex
	status    agent.Status
	aborted   bool          // by the workstation
	lastCall  time.Duration // when the workstation that runs the command last called
	transfers int           // readers of the recording
	fetched   time.Duration // when a transfer last began or ended; 0: none did
}

// serveAgent serves the agent's API and the page until the returned function is called.
func (m *measurement) serveAgent() (*jobRun, func(), error) {
	ln, err := net.Listen("tcp", m.opts.AgentListen)
	if err != nil {
		return nil, nil, fmt.Errorf("serve the agent's API: %w", err)
	}
	a := &jobRun{
		m: m, page: screen.NewPage(), Delivery: source.NewDelivery(m.Rec),
		status: agent.Status{ID: m.opts.ID, Version: version.Version, Phase: timeline.PhaseStarting},
	}
	m.Entered, m.Overdue, m.Removal = a.entered, a.overdue, a.removal
	server := agent.NewServer(a, a.page.Handler())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("the agent's API ended", "error", err)
		}
	})
	return a, func() { a.close(server); serving.Wait() }, nil
}

// close stops the API server after the responses in flight: one of them may answer the request that lets the agent
// exit.
func (a *jobRun) close(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

func (a *jobRun) entered(phase timeline.Phase, detail string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Phase, a.status.Detail = phase, detail
}

// Status returns the run's phase and the size of its recording. Once the phase is [timeline.PhaseEnded], the recording
// is complete.
func (a *jobRun) Status() agent.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.status
	s.Now, s.Size = a.m.Now(), a.m.Rec.Size()
	if s.Phase == timeline.PhaseEnded {
		s.SHA256 = a.m.Rec.Sum()
	}
	return s
}

// Now returns the instant on the run's clock.
func (a *jobRun) Now() time.Duration { return a.m.Now() }

// Facts reads the recording from offset on.
func (a *jobRun) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	tail, err := a.m.Rec.Tail(ctx, offset)
	if err != nil {
		return nil, err
	}
	a.transferring(1)
	return &transfer{tail, sync.OnceFunc(func() { a.transferring(-1) })}, nil
}

// A transfer is a reader of the recording that counts until it is closed.
type transfer struct {
	io.ReadCloser
	over func()
}

func (t *transfer) Close() error {
	t.over()
	return t.ReadCloser.Close()
}

func (a *jobRun) transferring(more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.transfers += more
	a.fetched = a.m.Clock.Now()
}

// isFetched reports whether a transfer is in flight, or has just ended and may still be acknowledged.
func (a *jobRun) isFetched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.transfers > 0 || a.fetched > 0 && a.m.Clock.Now()-a.fetched < ackWithin
}

// SignOfLife records a call of the workstation that runs the command.
func (a *jobRun) SignOfLife() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastCall = a.m.Clock.Now()
}

// overdue returns the reason to stop waiting for the end of the command, or "".
func (a *jobRun) overdue(now time.Duration) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := a.m.opts.WorkstationTimeout; a.m.opts.ExternalCommand && limit > 0 && now-a.lastCall > limit {
		return fmt.Sprintf("no sign of life from the workstation that ran the command for %s", quantity.Span(limit))
	}
	return ""
}

// rightsGone is the reason if the Pod must not even read itself after a signal. The Job owns the Pod's rights: the
// garbage collector deletes both.
const rightsGone = "the measuring Pod was told to stop, and its rights are gone: somebody has deleted the run's Job"

// removal returns the reason in the API for this Pod's deletion, or "".
func (a *jobRun) removal() string {
	if a.m.Client == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	env := a.m.opts.Env
	pod, err := a.m.Client.Pods(env[deploy.EnvNamespace]).Get(ctx, env[deploy.EnvPod], metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "the measuring Pod was deleted"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return rightsGone
	case err != nil:
		return ""
	}
	why := deploy.Removal(pod)
	if why == "" {
		return ""
	}
	return "the measuring Pod " + why
}

// Event takes in an event from the workstation.
func (a *jobRun) Event(e timeline.Event) error {
	if e.Kind != timeline.Command && e.Kind != timeline.CommandOutput && e.Kind != timeline.DeletionAsked {
		return fmt.Errorf("events of kind %q are not the workstation's to report", e.Kind)
	}
	e.Seen += a.m.Zero()
	if e.Since != 0 {
		e.Since += a.m.Zero()
	}
	a.m.Queue.Put(e)
	return nil
}

// Settle ends the measuring phase: the command has ended.
func (a *jobRun) Settle(reason string) error {
	a.m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: reason})
	return nil
}

// Abort ends the run now.
func (a *jobRun) Abort(reason string) error {
	a.mu.Lock()
	a.aborted = true
	a.mu.Unlock()
	a.m.Request(measure.PhaseRequest{Phase: timeline.PhaseEnded, Reason: reason})
	return nil
}

// handOver writes the verdict into the termination message and the timeline into the log. Then it waits until the
// recording was fetched, --hold is over, or a signal ends the wait.
func (a *jobRun) handOver(tl *model.Timeline, signals <-chan os.Signal, stdout io.Writer) {
	if err := deploy.WriteTermination(deploy.TerminationLog, tl.Verdict, summary(tl.Verdict)); err != nil {
		a.m.log.Warn("no termination message", "error", err)
	}
	err := deploy.WriteTimeline(stdout, func(w io.Writer) error { return report.JSON(w, tl, report.Options{}) })
	if err != nil {
		a.m.log.Warn("the timeline is not in the log", "error", err)
	}
	a.stay(signals)
}

// stay waits until the recording was fetched, or --hold is over. After SIGTERM it waits for a last transfer only.
func (a *jobRun) stay(signals <-chan os.Signal) {
	chance := time.Duration(0)
	if !a.m.Signalled {
		select {
		case <-a.Acked():
			return
		case <-time.After(a.m.opts.Hold):
		case <-signals:
			chance = a.chance()
		}
	} else {
		chance = a.chance()
	}
	if !a.awaitFetch(chance, signals) {
		a.m.log.Warn("nobody fetched the recording")
	}
}

// chance returns how long a Pod waits after SIGTERM for a transfer of its recording to begin.
func (a *jobRun) chance() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.aborted || a.m.Phase == timeline.PhaseBaseline {
		return min(briefChance, a.m.opts.Hold)
	}
	return min(lastChance, a.m.opts.Hold)
}

// awaitFetch waits for a transfer to begin, at most for chance, and then for its end. A signal ends both.
func (a *jobRun) awaitFetch(chance time.Duration, signals <-chan os.Signal) (fetched bool) {
	begun, over := time.NewTimer(chance), time.NewTimer(lastBytes)
	defer begun.Stop()
	defer over.Stop()
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for last := false; ; {
		select {
		case <-a.Acked():
			return true
		case <-begun.C:
			last = true
		case <-tick.C:
		case <-over.C:
			return false
		case <-signals:
			return false
		}
		if last && !a.isFetched() {
			return false
		}
	}
}

// summary returns a verdict without its parts of unbounded length: a termination message is short.
func summary(v model.Verdict) model.Verdict {
	v.Reasons, v.Gates = nil, nil
	return v
}
