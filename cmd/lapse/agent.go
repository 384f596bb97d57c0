package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"lapse/correlate"
	"lapse/dashboard"
	"lapse/deploy"
	"lapse/report"
	"lapse/timeline"
)

// lastChance is how long the Pod stays for its recording to be fetched after it was told to go.
const lastChance = 5 * time.Second

// An agent is the run inside the Job: it measures as a run from here does, takes its orders from
// the workstation, and keeps the result until it was fetched.
type agent struct {
	m     *measurement
	page  *page
	acked chan struct{}
	ack   sync.Once

	mu     sync.Mutex
	status deploy.Status
}

// agentEnv fills in the options of an agent from the environment that its Job gives it.
func (o *options) agentEnv() error {
	o.control = os.Getenv(deploy.EnvListen)
	if o.control == "" {
		return nil
	}
	o.here = true
	o.id = os.Getenv(deploy.EnvRun)
	o.out = os.Getenv(deploy.EnvDir)
	o.untilTold = o.duration == 0
	err := o.readPrivate(os.Environ())
	if err != nil {
		return err
	}
	if o.hold, err = time.ParseDuration(os.Getenv(deploy.EnvHold)); err != nil {
		return refuse("the Job sets it", "%s: %w", deploy.EnvHold, err)
	}
	deadline, err := time.ParseDuration(os.Getenv(deploy.EnvDeadline))
	if err != nil {
		return refuse("the Job sets it", "%s: %w", deploy.EnvDeadline, err)
	}
	// Kubernetes deletes the Pod at the deadline, with all it holds: the run ends well before.
	o.maxDuration = deadline - o.hold
	return nil
}

// serveAgent serves the agent's API and the page until the returned function is called.
func (m *measurement) serveAgent() (*agent, func(), error) {
	ln, err := net.Listen("tcp", m.opts.control)
	if err != nil {
		return nil, nil, fmt.Errorf("serve the agent's API: %w", err)
	}
	a := &agent{
		m: m, page: newPage(), acked: make(chan struct{}),
		status: deploy.Status{ID: m.opts.id, Version: version, Phase: deploy.PhaseStarting},
	}
	m.entered = a.entered
	handler := deploy.NewHandler(a, a.page.handler())
	server := dashboard.Options{}.Server(handler)
	server.WriteTimeout = 0 // the recording streams for as long as the run goes on
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("the agent's API ended", "error", err)
		}
	})
	return a, func() { a.close(server); serving.Wait() }, nil
}

// close ends the API, but lets the answers under way through: one of them may be to the word that the agent may go.
func (a *agent) close(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

func (a *agent) entered(phase, detail string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Phase, a.status.Detail = phase, detail
}

// Status is how far the run has come. It has ended only once its recording is complete.
func (a *agent) Status() deploy.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.status
	s.Now, s.Size = a.m.clock.Now(), a.m.rec.Size()
	if s.Phase == deploy.PhaseEnded {
		s.SHA256 = a.m.rec.Sum()
	}
	return s
}

// Now is the instant on the run's clock.
func (a *agent) Now() time.Duration { return a.m.clock.Now() }

// Facts reads the recording from offset on.
func (a *agent) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return a.m.rec.Tail(ctx, offset)
}

// Event takes in what the workstation saw.
func (a *agent) Event(e timeline.Event) error {
	if e.Kind != timeline.Command && e.Kind != timeline.CommandOutput {
		return fmt.Errorf("events of kind %q are not the workstation's to report", e.Kind)
	}
	a.m.queue.put(e)
	return nil
}

// Settle ends the measuring phase: the command has ended.
func (a *agent) Settle(reason string) error {
	a.m.tell(order{phaseSettling, reason})
	return nil
}

// Abort ends the run now.
func (a *agent) Abort(reason string) error {
	a.m.tell(order{phaseEnded, reason})
	return nil
}

// Ack lets the agent go: its recording is safe elsewhere.
func (a *agent) Ack(r deploy.Receipt) error {
	if ours := a.receipt(); r != ours {
		return fmt.Errorf("the recording has %d bytes with SHA-256 %s, not %d with %s", ours.Length, ours.SHA256, r.Length, r.SHA256)
	}
	a.ack.Do(func() { close(a.acked) })
	return nil
}

func (a *agent) receipt() deploy.Receipt {
	return deploy.Receipt{Length: a.m.rec.Size(), SHA256: a.m.rec.Sum()}
}

// handOver leaves the verdict where Kubernetes keeps it, prints the timeline into the log, and
// waits until somebody has fetched the recording, the time to hold it is over, or a signal says to go.
func (a *agent) handOver(tl *correlate.Timeline, signals <-chan os.Signal, stdout io.Writer) {
	if err := deploy.WriteTermination(deploy.TerminationLog, tl.Verdict, summary(tl.Verdict)); err != nil {
		a.m.log.Warn("no termination message", "error", err)
	}
	var doc bytes.Buffer
	err := report.Formats["json"](&doc, tl, report.Options{})
	if err == nil {
		err = deploy.WriteTimeline(stdout, doc.Bytes())
	}
	if err != nil {
		a.m.log.Warn("the timeline is not in the log", "error", err)
	}
	hold := a.m.opts.hold
	if a.m.signalled {
		hold = min(hold, lastChance) // Kubernetes wants the Pod gone
	}
	select {
	case <-a.acked:
	case <-time.After(hold):
		a.m.log.Warn("nobody fetched the recording", "waited", hold)
	case <-signals:
	}
}

// summary is a verdict without its parts of any length, which a termination message may not hold.
func summary(v correlate.Verdict) correlate.Verdict {
	v.Reasons, v.Gates = nil, nil
	return v
}
