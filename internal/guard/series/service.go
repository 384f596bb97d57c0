package series

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lapse/correlate/model"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/run/metrics"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// A Service has the figures of a guarded Service: those of its measurements, one after the other, and of their runs.
// Those of a disruption come from the goroutine that measures, and states from any.
type Service struct {
	name string
	in   *Guard

	mu       sync.Mutex
	state    string
	since    time.Time     // from then on each second is observed or not
	observed time.Duration // by measurements that are over
	now      *measurement  // the one that goes on; nil: none
	ended    model.Length  // the downtime of runs that are over
	current  model.Length  // of the run that goes on
	open     bool          // it may be longer
	pending  string        // the run that is not judged yet; empty: none
	shown    metrics.Times // no counter falls
	reported time.Duration // of observed, by observedSince
	last     last
	ahead    map[string]time.Duration // when the signs of the next disruption were first seen
}

// A measurement sends requests to a Service, on a clock of its own.
type measurement struct {
	began time.Time
	coverage
	requests *metrics.Counter
}

// A last is the newest run that was judged.
type last struct {
	began    time.Time
	verdict  gate.State
	downtime model.Length
	failed   int
}

// before reports whether a run is newer. It may be stored late.
func (l last) before(r gate.Run, now time.Time) bool {
	return !r.Began.Before(l.began) || gate.Run{Began: l.began}.Ahead(now)
}

func lastOf(tl *model.Timeline, r gate.Run) last {
	return last{r.Began, r.Verdict, tl.Verdict.Downtime.Total, tl.Verdict.Failed}
}

// Stands notes the Service's state, in which it is measured or is not.
func (s *Service) Stands(state string, measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state = state; !measured {
		s.stop()
	}
}

// stop ends the measurement. What it has not shown by then stays unobserved.
func (s *Service) stop() {
	if s.now != nil {
		s.observed += s.now.observed()
	}
	s.now, s.open = nil, false
	s.ahead = map[string]time.Duration{}
}

// Fact counts what a measurement gets to know, in all its states. It reports whether it shows that nothing was observed
// for longer than [mostUnseen].
func (s *Service) Fact(f timeline.Fact) (missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f := f.(type) {
	case timeline.Meta:
		s.stop()
		s.now = &measurement{
			began:    s.in.now(),
			coverage: coverage{resolution: f.Options.Resolution, targets: map[timeline.TargetID]*covered{}},
			requests: s.in.requests.Counter(),
		}
	case timeline.Event:
		if f.Kind == timeline.WatchGap {
			s.in.gap(f.Object.Kind)
		}
	}
	if s.now == nil {
		return false
	}
	s.now.add(f)
	s.now.requests.Fact(f)
	return s.now.missed()
}

// Signed counts a sign. An idle Service is raised to the full rate by it, unless it may come hours before.
func (s *Service) Signed(sign signs.Sign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == s.in.idle && sign.Class >= signs.Soon {
		s.in.armed.WithLabelValues(sign.Name).Inc()
	}
	if sign.Name == signs.AnEndpoint && sign.Class == signs.Now {
		for name, at := range s.ahead {
			if lead := sign.At - at; lead <= gate.MostAwaited {
				s.in.lead.WithLabelValues(name).Observe(max(0, lead).Seconds())
			}
		}
		s.ahead = nil // until the next disruption
	}
	if at, known := s.ahead[sign.Name]; s.ahead != nil && (!known || sign.At-at > gate.MostAwaited) {
		s.ahead[sign.Name] = sign.At
	}
}

// Begin notes that a run begins.
func (s *Service) Begin(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending = run; s.now != nil {
		s.now.requests.Run = run
	}
}

// Judged takes the totals of a run that goes on.
func (s *Service) Judged(tl *model.Timeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, open := metrics.TimesOf(tl, s.name)
	if s.current, s.open = t.Down, open; s.now != nil {
		s.now.requests.Judged(tl)
	}
}

// Over takes a run when it is over. The next may begin before [Service.End] has it.
func (s *Service) Over(tl *model.Timeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, _ := metrics.TimesOf(tl, s.name)
	s.ended.Min += t.Down.Min
	s.ended.Max += t.Down.Max
	s.current, s.open = model.Length{}, false
	s.ahead = map[string]time.Duration{}
	if s.now != nil {
		s.now.requests.Run = ""
		s.now.requests.Judged(tl)
	}
}

// End takes a run when the gate answers for it.
func (s *Service) End(tl *model.Timeline, r gate.Run) {
	s.in.count(s.name, tl, r.Verdict)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == r.ID {
		s.pending = ""
	}
	if s.last.before(r, s.in.now()) {
		s.last = lastOf(tl, r)
	}
}

// times returns how long the Service was up, down and unobserved until now.
func (s *Service) times(now time.Time) metrics.Times {
	observed, recent := s.observed, time.Duration(0)
	if m := s.now; m != nil {
		observed += m.observed()
		if last := m.last(); last >= 0 {
			recent = now.Sub(m.began) - last
		}
		if recent > m.interval()+m.timeout()+lastBatch { // nothing comes in any more
			recent = 0
		}
	}
	down := model.Length{Min: s.ended.Min + s.current.Min, Max: s.ended.Max + s.current.Max}
	t := metrics.Times{Down: down, Unobserved: now.Sub(s.since) - observed - max(0, recent)}
	if !s.open {
		t.Up = observed - down.Max
	}
	s.shown.Raise(t)
	return s.shown
}

// observedSince returns how long the Service was observed since the call before. It is below 0 if requests turn out to
// have sent nothing.
func (s *Service) observedSince(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := now.Sub(s.since) - s.times(now).Unobserved
	length := all - s.reported
	s.reported = all
	return length
}

// lastBatch is how long after its timeout a request may be handed over.
const lastBatch = 5 * time.Second

// gate returns what the gate says of the newest disruption: "" before the first.
func (s *Service) gate() gate.State {
	switch {
	case s.pending != "":
		return gate.Pending
	case s.now == nil:
		return gate.Inconclusive
	}
	return s.last.verdict
}

// collect returns the series of the Service that are made when Prometheus asks.
func (s *Service) collect(series chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times(s.in.now()).Collect(series, s.name)
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		all := append([]string{s.name}, labels...)
		series <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, all...)
	}
	for _, state := range s.in.states {
		gauge(stateDesc, oneIf(state == s.state), state)
	}
	for _, state := range gateStates {
		gauge(gateDesc, oneIf(state == s.gate()), string(state))
	}
	gauge(lastDowntimeDesc, s.last.downtime.Min.Seconds(), "min")
	gauge(lastDowntimeDesc, s.last.downtime.Max.Seconds(), "max")
	gauge(lastFailedDesc, float64(s.last.failed))
	at := 0.0
	if !s.last.began.IsZero() {
		at = float64(s.last.began.UnixMilli()) / 1000
	}
	gauge(lastTimeDesc, at)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// triggerOf returns what set a run off: "several" if that is more than one kind of change, "unknown" if it is none that
// is known.
func triggerOf(tl *model.Timeline, service string) string {
	trigger := "unknown"
	for _, line := range history.Of(tl, "") {
		if line.Service != service {
			continue
		}
		for _, t := range line.Triggers {
			switch kind := string(t.Kind); trigger {
			case "unknown", kind:
				trigger = kind
			default:
				return "several"
			}
		}
	}
	return trigger
}
