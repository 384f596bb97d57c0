package coordinator

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/run/measure"
)

// Probers measure for a guard from other nodes, in the Pods of a DaemonSet.
type Probers struct {
	Namespace string
	Selector  string // of the Pods
	Me        string // this guard, among others that they measure for
	// Keys returns the guard's keys. It is called now and then: keys change.
	Keys func(context.Context) (agent.KeyPair, error)
}

const (
	// findGuardProbers is the time between two searches for the probers' Pods of a guard.
	findGuardProbers = 5 * time.Second
	// renewKeys is the time after which keys are asked for again.
	renewKeys = 10 * time.Minute
	// keysWithin is how long the guard that leads may take to make the first ones.
	keysWithin = time.Minute
	// tellsLate is how much later than a run's own requests those of a guard's probers are known: they tell of few
	// requests once per second.
	tellsLate = 2 * time.Second
)

// MeasureFrom lets probers measure, too, from [Many.Run] on. Call it before that.
func (all *Many) MeasureFrom(p Probers, log *slog.Logger) {
	c := newCrew(all.unshared, p.Namespace, p.Selector, log)
	c.name = p.Me + " " + rand.Text() // else a process that starts again would have the sources of the one before
	c.clock, c.every = all.thread.NewClock(), findGuardProbers
	c.pods.ResourceVersion = "0" // what the API server has at hand is new enough
	c.looked = func(_ context.Context, pods []corev1.Pod) { c.forgetNodes(pods) }
	keys := &renewed{get: p.Keys, now: c.clock.Now, log: log}
	c.keys = keys.client
	all.crew, all.keys = c, keys
}

// Probers returns why there are no requests from nodes with a prober; "": there are. It is nil without probers.
func (all *Many) Probers() map[string]string {
	if all.crew == nil {
		return nil
	}
	return all.crew.nodes()
}

// joinProbers lets probers measure what m does, and share its rates.
func (all *Many) joinProbers(m *measurement) {
	if all.crew == nil {
		return
	}
	m.fleet = m.newFleet(all.crew)
	m.fleet.also = true
	waits := make(chan struct{})
	m.fleet.begin = sync.OnceFunc(func() { close(waits) })
	m.Parts = append(m.Parts, measure.Part{Refresh: m.assignReady, Probe: func(ctx context.Context) {
		select {
		case <-waits: // for the baseline, which judges this process alone
			all.crew.serve(ctx, &m.fleet.party)
		case <-ctx.Done():
		}
	}}, measure.Part{Refresh: m.noteMissing})
	m.Armed.Places, m.Armed.Late = m.places, tellsLate
}

// nodes returns the state of each node.
func (c *crew) nodes() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[string]string{}
	for node, why := range c.state {
		nodes[node] = why
	}
	return nodes
}

// forgetNodes forgets the state of nodes that have no Pod.
func (c *crew) forgetNodes(pods []corev1.Pod) {
	there := map[string]bool{}
	for i := range pods {
		there[deploy.ProberNode(&pods[i])] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for node := range c.state {
		if !there[node] {
			delete(c.state, node)
		}
	}
}

// renewed are keys that change. Any goroutine may use them.
type renewed struct {
	get func(context.Context) (agent.KeyPair, error)
	now func() time.Duration
	log *slog.Logger

	mu     sync.Mutex
	config *tls.Config   // with the last keys; nil: there were none
	got    time.Duration // when that was
	said   string        // why there are none, or no newer ones, as it was logged
}

// client returns the configuration of connections to probers. Each handshake has the keys of its time.
func (r *renewed) client(ctx context.Context) (*tls.Config, error) {
	if err := r.renew(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	config := r.config.Clone()
	config.Certificates = nil
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return &r.config.Certificates[0], nil
	}
	return config, nil
}

// keep renews the keys until ctx ends. The probers' Pods wait for the first ones.
func (r *renewed) keep(ctx context.Context) {
	for ctx.Err() == nil {
		again := renewKeys
		if r.renew(ctx) != nil {
			again = findProbers
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// renew gets the keys again. With those before, it fails only in the log.
func (r *renewed) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pair, err := r.get(ctx)
	var config *tls.Config
	if err == nil {
		config, err = pair.Client()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.config, r.got, r.said = config, r.now(), ""
		return nil
	}
	if r.now()-r.got > keysWithin && r.said != err.Error() && !errors.Is(err, context.Canceled) {
		r.said = err.Error()
		r.log.Warn("no keys for the probers", "error", err)
	}
	if r.config != nil {
		return nil
	}
	return err
}
