// Package lapse measures whether a server dropped requests while something happened to it, and for how long.
//
//	spec := lapse.Spec{Targets: []string{"http://127.0.0.1:8080/"}}
//	tl, err := lapse.Measure(ctx, spec, func(ctx context.Context) error { return restart(ctx) })
//	if err == nil && tl.Verdict.Failed > 0 { ... }
//
// For tests there is package lapse/lapsetest. The program is in cmd/lapse; docs/explanation/architecture.md describes
// the packages.
package lapse

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/record"
	"lapse/internal/run/measure"
	"lapse/loadgen"
	"lapse/timeline"
)

// A Spec says what is measured, and how. Only Targets is required.
type Spec struct {
	Targets []string              // URLs; the scheme chooses one of [loadgen.Protocols]: http, h2c, grpc, ws, tcp, dns
	Kinds   []timeline.TargetKind // of connections; default: a new one for each request, and kept ones
	Rate    float64               // requests per second, of each kind; default 100
	Timeout time.Duration         // of a request; default 800 ms

	Baseline time.Duration // measured before: the targets must answer; default 500 ms
	Settle   time.Duration // measured after; default 500 ms
	Slow     time.Duration // a success that took longer is slow; default: measured against the first answers

	Gates       []string // conditions under which the run fails, such as "downtime.total > 50ms"; default "failed > 0"
	MinCoverage float64  // the share of time that must have been observed, else the run is inconclusive; default 0.99

	Method       string           // HTTP: default GET
	Header       http.Header      // HTTP: sent with every request
	ExpectStatus loadgen.Statuses // HTTP: which status codes are a success; default 200 to 399
	ExpectBody   string           // HTTP: what a successful reply's body has in its first MiB
	Echo, Reply  string           // TCP, TLS, UDP: what is sent, and what a good reply begins with
	RootCAs      *x509.CertPool   // whom to trust; default: the system's

	Recording string // the file that every fact is written to, for lapse report; default: none
	Watch     *Watch // what else is recorded; default: nothing
}

// A Watch records what happens around the targets, so that failures get causes. Package lapse/lapsetest/cluster makes
// one for a Service of a Kubernetes cluster.
type Watch struct {
	Services []timeline.Service   // that the targets lead to
	Cluster  timeline.Cluster     // they are in
	Complete func(*loadgen.Probe) // says of a target which Service it leads to, and how

	// Run puts events until ctx ends. put may be called by several goroutines.
	Run func(ctx context.Context, clock timeline.Clock, put func(timeline.Fact))
}

// Measure sends requests as s says while during runs, and judges them. The context of during ends if ctx does.
//
// The document holds whatever was measured, also beside an error: that of during, of ctx, or of writing the recording.
// There is none if nothing was measured, because s is wrong or a target did not answer before during began: during has
// not been called then. tl.Verdict says whether requests failed; a failed request is no error.
//
// Measure writes no file but Recording, reads no environment, prints nothing and takes no signals. While it runs, it
// raises GOMAXPROCS by one, for the thread that sends on time.
func Measure(ctx context.Context, s Spec, during func(ctx context.Context) error) (*model.Timeline, error) {
	gates, err := s.complete()
	if err != nil {
		return nil, err
	}
	config := measure.Config{
		Meta: timeline.Meta{
			URLs: s.Targets, Options: timeline.Options{Rate: s.Rate, Slow: s.Slow, MinCoverage: s.MinCoverage},
		},
		Probes: s.probes(), Baseline: s.Baseline, Settle: s.Settle, Timeout: s.Timeout, Gates: gates,
	}
	if s.Watch != nil {
		config.Meta.Services, config.Meta.Cluster = s.Watch.Services, s.Watch.Cluster
		config.Watch = s.Watch.Run
	}
	if s.Recording != "" {
		if config.Recording, err = record.Create(s.Recording); err != nil {
			return nil, err
		}
	}
	tl, err := measure.Measure(ctx, config, during)
	if sick, ok := errors.AsType[*measure.NotWellError](err); ok {
		return nil, fmt.Errorf("lapse: a target did not answer before anything was done to it: %w", sick)
	}
	return tl, err
}

// complete checks s and sets what it does not say.
func (s *Spec) complete() (gates []verdict.Gate, err error) {
	if len(s.Targets) == 0 {
		return nil, errors.New("lapse: Spec.Targets is empty: name at least one URL")
	}
	if len(s.Kinds) == 0 {
		s.Kinds = []timeline.TargetKind{timeline.New, timeline.Reused}
	}
	for _, k := range s.Kinds {
		if k != timeline.New && k != timeline.Reused {
			return nil, fmt.Errorf("lapse: Spec.Kinds has %q: want timeline.New or timeline.Reused", k)
		}
	}
	s.Rate, s.Timeout = cmp.Or(s.Rate, 100), cmp.Or(s.Timeout, loadgen.DefaultTimeout)
	s.Baseline, s.Settle = cmp.Or(s.Baseline, 500*time.Millisecond), cmp.Or(s.Settle, 500*time.Millisecond)
	if s.Baseline < 0 || s.Settle < 0 || s.Timeout < time.Millisecond {
		const bounds = "none may be negative, and a timeout is at least 1ms"
		return nil, fmt.Errorf("lapse: Baseline %v, Settle %v, Timeout %v: %s", s.Baseline, s.Settle, s.Timeout, bounds)
	}
	if s.MinCoverage < 0 || s.MinCoverage > 1 {
		return nil, fmt.Errorf("lapse: MinCoverage %v: want a share from 0 to 1", s.MinCoverage)
	}
	if len(s.Gates) == 0 {
		s.Gates = []string{"failed > 0"}
	}
	for _, expr := range s.Gates {
		g, err := verdict.ParseGate(expr)
		if err != nil {
			return nil, fmt.Errorf("lapse: %w", err)
		}
		gates = append(gates, g)
	}
	for _, p := range s.probes() {
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("lapse: %w", err)
		}
	}
	return gates, nil
}

// probes returns a probe for each target and kind of connection.
func (s *Spec) probes() (probes []loadgen.Probe) {
	for _, target := range s.Targets {
		for _, kind := range s.Kinds {
			id := timeline.TargetID(len(probes) + 1)
			p := loadgen.Probe{
				Target: timeline.Target{ID: id, Kind: kind, Rate: s.Rate, Timeout: s.Timeout},
				Method: s.Method, Header: s.Header, ExpectStatus: s.ExpectStatus, ExpectBody: s.ExpectBody,
				Echo: s.Echo, Reply: s.Reply, RootCAs: s.RootCAs,
			}
			p.URL, p.Name = target, string(kind)
			if len(s.Targets) > 1 {
				p.Name = target + " " + p.Name
			}
			if kind == timeline.Reused {
				p.Target.Connections = loadgen.DefaultConnections
			}
			proof := loadgen.ProofOf(p)
			p.Proves, p.Blind = proof.Text, proof.Blind
			if s.Watch != nil {
				s.Watch.Complete(&p)
			}
			probes = append(probes, p)
		}
	}
	return probes
}
