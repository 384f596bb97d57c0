// Package lapse measures whether a server dropped requests while something happened to it, and for how long.
//
//	tl, err := lapse.Measure(ctx, lapse.Spec{Targets: []string{"http://127.0.0.1:8080/"}}, func(ctx context.Context) error {
//		return restart(ctx)
//	})
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
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/loadgen"
	"lapse/record"
	"lapse/run/source"
	"lapse/timeline"
)

// A Spec says what is measured, and how. Only Targets is required.
type Spec struct {
	Targets []string              // URLs; the scheme chooses the protocol: http, https, h2, h2c, grpc, ws, sse, tcp, tls, udp, dns and others
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
}

// Measure sends requests as s says while during runs, and judges them. The context of during ends if ctx does.
//
// The document holds whatever was measured, also beside an error: that of during, of ctx, or of writing the recording.
// There is none if nothing was measured, because s is wrong or a target did not answer before during began: during has
// not been called then. tl.Verdict says whether requests failed; a failed request is no error.
//
// Measure writes no file but Recording, reads no environment, prints nothing and takes no signals. While it runs, it
// raises GOMAXPROCS by one, for the thread that sends on time.
func Measure(ctx context.Context, s Spec, during func(ctx context.Context) error) (tl *model.Timeline, err error) {
	gates, err := s.complete()
	if err != nil {
		return nil, err
	}
	m := &measurement{
		Spec: s, clock: timeline.StartClock(), tracker: correlate.NewTracker(correlate.Options{}),
		firstError: map[string]string{},
	}
	if s.Recording != "" {
		if m.recording, err = record.Create(s.Recording); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.recording.Close()) }()
	}
	if err := m.start(); err != nil {
		return nil, err
	}
	problem := m.run(ctx, during)
	if m.baseline != nil {
		return nil, m.baseline
	}
	tl = m.tracker.Last()
	tl.Tool = model.Tool{Name: "lapse"}
	verdict.Judge(tl, gates)
	if m.unwritten != nil {
		verdict.Unsaved(tl, m.unwritten)
	}
	return tl, errors.Join(problem, m.unwritten)
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
		return nil, fmt.Errorf("lapse: Baseline %v, Settle %v, Timeout %v: none may be negative, and a timeout is at least 1ms",
			s.Baseline, s.Settle, s.Timeout)
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
			p := loadgen.Probe{
				Target: timeline.Target{ID: timeline.TargetID(len(probes) + 1), Kind: kind, Rate: s.Rate, Timeout: s.Timeout},
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
			probes = append(probes, p)
		}
	}
	return probes
}

// A measurement is a Spec being measured. But for the source's queue it belongs to one goroutine at a time.
type measurement struct {
	Spec
	clock     timeline.Clock
	source    *source.Source
	tracker   *correlate.Tracker
	recording *record.Writer // nil: none
	unwritten error          // why facts are missing in the recording

	lastEvent  uint32
	firstError map[string]string // the text of a target's first failure, by its name
	baseline   error             // a target did not answer before during began
}

const here timeline.SourceID = 1

// start records what is measured, and begins to measure it.
func (m *measurement) start() error {
	m.add(timeline.Meta{
		ID: m.clock.T0().UTC().Format("20060102-150405"), T0: m.clock.T0(), URLs: m.Targets,
		Options: timeline.Options{
			Rate: m.Rate, Timeout: m.Timeout, Baseline: m.Baseline, Settle: m.Settle, Slow: m.Slow,
			MinCoverage: m.MinCoverage, Gates: m.Gates,
		},
	})
	m.add(timeline.Source{ID: here, Name: "here", Role: timeline.Workstation, T0: m.clock.T0()})
	probes := m.probes()
	control := timeline.Target{ID: timeline.TargetID(len(probes) + 1), Name: "control", Kind: timeline.Control, Rate: min(m.Rate, 100), Timeout: m.Timeout}
	m.source = source.New(source.Config{ID: here, Clock: m.clock, Logger: slog.New(slog.DiscardHandler)})
	for _, p := range append(probes, loadgen.Probe{Target: control}) {
		began, err := m.source.Start(p)
		if err != nil {
			m.source.Close()
			return err
		}
		p.Target.Source = here
		m.add(p.Target)
		m.add(began)
	}
	return nil
}

// run measures before, during and after, and returns during's error. It has taken in all facts when it returns.
func (m *measurement) run(ctx context.Context, during func(context.Context) error) (problem error) {
	probing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	awaited := make(chan struct{}) // closed when the baseline is over
	well := make(chan error, 1)    // what it says
	phases := make(chan error, 1)
	go func() {
		problem := errors.New("lapse: during ended its goroutine") // as by t.FailNow
		defer func() {
			phases <- problem
			stop()
		}()
		problem = m.phases(ctx, awaited, well, during)
	}()
	asked := awaited
	_ = m.source.Measure(probing, func(measured []timeline.Fact, _ bool) error { // the function returns no error
		for _, f := range measured {
			m.add(f)
		}
		m.tracker.SetEnd(m.clock.Now())
		select {
		case <-asked:
			asked = nil
			well <- m.judgeBaseline()
		default:
		}
		return nil
	})
	problem = <-phases
	for _, f := range m.source.Facts.Take() {
		m.add(f)
	}
	m.tracker.SetEnd(m.clock.Now())
	return problem
}

// phases goes through the phases of the run. It sends requests to judge the baseline over awaited, and reads the answer
// from well.
func (m *measurement) phases(ctx context.Context, awaited chan struct{}, well chan error, during func(context.Context) error) (problem error) {
	phase := timeline.Phase("")
	enter := func(next timeline.Phase, why string) {
		m.source.Facts.Put(timeline.PhaseChange(m.clock.Now(), phase, next, why))
		phase = next
	}
	enter(timeline.PhaseBaseline, "")
	wait(ctx, m.Baseline)
	close(awaited)
	if err := <-well; err != nil || ctx.Err() != nil {
		m.baseline = cmp.Or(err, context.Cause(ctx))
		return nil
	}
	enter(timeline.PhaseMeasuring, "")
	problem = during(ctx)
	enter(timeline.PhaseSettling, "")
	wait(ctx, m.Settle)
	why := ""
	if err := context.Cause(ctx); err != nil {
		why, problem = err.Error(), cmp.Or(problem, err)
	}
	enter(timeline.PhaseEnded, why)
	return problem
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// judgeBaseline returns an error if a target did not answer most of its requests.
func (m *measurement) judgeBaseline() error {
	tl := m.tracker.Brief()
	for _, t := range tl.Targets {
		if !t.Kind.Judged() || t.OK > t.Failed {
			continue
		}
		why := cmp.Or(m.firstError[t.Name], commonest(t.Classes), "no answer came")
		return fmt.Errorf("lapse: %s did not answer before anything was done to it: %d of %d requests failed (%s)",
			t.URL, t.Failed, t.Sent, why)
	}
	return nil
}

// commonest returns the class of most failures, "" if there are none.
func commonest(failures map[string]int) (class string) {
	for _, c := range slices.Sorted(maps.Keys(failures)) {
		if failures[c] > failures[class] {
			class = c
		}
	}
	return class
}

// add judges and records a fact, and numbers it if it is an event.
func (m *measurement) add(f timeline.Fact) {
	if e, ok := f.(timeline.Event); ok {
		m.lastEvent++
		e.ID, e.Source = m.lastEvent, here
		if e.Kind == timeline.RequestError {
			m.firstError[e.Object.Name] = cmp.Or(m.firstError[e.Object.Name], e.To+": "+e.Detail)
		}
		f = e
	}
	m.tracker.Add(f)
	if m.recording != nil && m.unwritten == nil {
		m.unwritten = m.recording.Append(f)
	}
}
