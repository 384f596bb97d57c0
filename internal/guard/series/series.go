// Package series tells Prometheus how guarded Services stand, and got through their disruptions.
//
// The series of requests and of time are those of `lapse run --metrics`. They go on from run to run, and between runs.
// Of all time since a Service is guarded, what no request has shown is unobserved. A Service has the same series from
// the beginning, as 0, until it is no longer guarded: its label is NAMESPACE/NAME. No series names a Pod, a node or a
// run.
//
// Causes, signs and gaps are counted for all Services together: by their 37 causes in 3 confidences, each Service
// would have 111 series more. Of watches their gaps are counted, and not their restarts, most of which miss nothing.
package series

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lapse/correlate/causes"
	"lapse/correlate/model"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/run/metrics"
	"lapse/internal/run/signs"
)

// A Guard has the series of all Services, and those of the guard itself.
type Guard struct {
	registry    *prometheus.Registry
	requests    *metrics.Requests
	disruptions *prometheus.CounterVec
	incidents   *prometheus.CounterVec
	armed       *prometheus.CounterVec
	lead        *prometheus.HistogramVec
	gaps        *prometheus.CounterVec
	StoreErrors prometheus.Counter // attempts to store a run or its line that failed
	Config      prometheus.Gauge   // 1: as it was read last; 0: that is wrong, and the one before is in force

	Budget func() budget.State // of --max-rate; nil: there is none

	Leads func() bool // whether this guard speaks, if there are several; nil: it does

	idle   string   // the state in which few requests are sent
	states []string // all
	now    func() time.Time

	mu       sync.Mutex
	services map[string]*Service
	known    map[string]last // the newest runs of the guard before
}

// What the labels of counters may be.
var (
	gateStates = []gate.State{gate.Pass, gate.Fail, gate.Inconclusive, gate.Pending}
	triggers   = []string{
		string(model.NodeDrained), string(model.RolledOut), string(model.ScaledDown), string(model.PodsDeleted),
		string(model.PodExited), string(model.ServiceChanged), string(model.ServiceDeleted), "several", "unknown",
	}
	verdicts    = gateStates[:3]
	confidences = []model.Confidence{model.High, model.Medium, model.Low}
	resources   = []string{
		"Pod", "EndpointSlice", "Node", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
		"PodDisruptionBudget", "Event", allResources,
	}
)

// allResources is the label of a gap in which no watch was answered.
const allResources = "all"

var (
	leaderDesc = prometheus.NewDesc("lapse_guard_leader",
		"1 if this guard speaks for all, 0 for the others, which measure as well.", nil, nil)
	maxRateDesc = prometheus.NewDesc("lapse_guard_max_rate",
		"Requests per second that all Services may get together: --max-rate.", nil, nil)
	loweredDesc = prometheus.NewDesc("lapse_guard_lowered_services",
		"Services that get a lower rate now than was asked for, by --max-rate.", nil, nil)
	stateDesc = prometheus.NewDesc("lapse_guard_state",
		"1 for the state of the guarded Service, 0 for the others.", []string{"service", "state"}, nil)
	gateDesc = prometheus.NewDesc("lapse_gate_state",
		"1 for what the gate says of the Service's newest disruption, 0 for the others; all are 0 before the first. "+
			"pending: it is measured now. A Service that is not measured is inconclusive.",
		[]string{"service", "state"}, nil)
	lastDowntimeDesc = prometheus.NewDesc("lapse_disruption_downtime_seconds",
		"How long the Service was down in the last disruption: at least (min) and at most (max).",
		[]string{"service", "bound"}, nil)
	lastFailedDesc = prometheus.NewDesc("lapse_disruption_failed_requests",
		"How many requests failed in the last disruption.", []string{"service"}, nil)
	lastTimeDesc = prometheus.NewDesc("lapse_disruption_last_timestamp_seconds",
		"When the last disruption began; 0: there was none.", []string{"service"}, nil)
)

// New returns the series of a guard without Services. A Service is in one of the states, in idle if few requests are
// sent.
func New(now func() time.Time, idle string, states ...string) *Guard {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	g := &Guard{
		requests: metrics.NewRequests(),
		disruptions: counter("lapse_disruptions_total", "Disruptions that were measured, by what set them off and "+
			"their verdict.", "service", "trigger", "verdict"),
		incidents: counter("lapse_incidents_total", "Incidents in the disruptions of all Services, by their most "+
			"likely cause.", "cause", "confidence"),
		armed: counter("lapse_guard_armed_total", "How often a sign raised a Service to the full rate.", "sign"),
		lead: prometheus.NewHistogramVec(metrics.Histogram("lapse_guard_lead_seconds",
			"How long before the first endpoint of a disruption was lost a sign was seen first.",
			.01, .1, 1, 5, 30, 120), []string{"sign"}),
		gaps: counter("lapse_watch_gaps_total", "How often changes in the cluster may have been missed or seen late.",
			"resource"),
		StoreErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lapse_store_errors_total", Help: "How often a run, or its line of history, could not be stored.",
		}),
		Config: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lapse_guard_config_last_reload_successful",
			Help: "1 if the configuration that was read last is in force; 0 if it is wrong, and the one before is.",
		}),
		idle: idle, states: append([]string{idle}, states...),
		now: now, services: map[string]*Service{}, known: map[string]last{},
	}
	for _, rule := range causes.Rules() {
		for _, confidence := range confidences {
			g.incidents.WithLabelValues(rule.Name, string(confidence))
		}
	}
	for _, sign := range signs.Names() {
		g.armed.WithLabelValues(sign)
		g.lead.WithLabelValues(sign)
	}
	for _, resource := range resources {
		g.gaps.WithLabelValues(resource)
	}
	g.Config.Set(1)
	g.registry = metrics.NewRegistry(
		g.requests, g.disruptions, g.incidents, g.armed, g.lead, g.gaps, g.StoreErrors, g.Config, g)
	return g
}

// Handler answers what Prometheus asks.
func (g *Guard) Handler() http.Handler { return metrics.Handler(g.registry) }

// Knew notes a run of the guard before.
func (g *Guard) Knew(l history.Line, r gate.Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known[l.Service].before(r, g.now()) {
		return
	}
	last := last{began: r.Began, verdict: r.Verdict, failed: l.Failed}
	if l.Downtime != nil {
		last.downtime = l.Downtime.Total
	}
	g.known[l.Service] = last
}

// Service returns the figures of a Service, which begin now if it was not guarded.
func (g *Guard) Service(name string) *Service {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.services[name]
	if s != nil {
		return s
	}
	s = &Service{name: name, in: g, since: g.now(), last: g.known[name], ahead: map[string]time.Duration{}}
	g.services[name] = s
	for _, trigger := range triggers {
		for _, verdict := range verdicts {
			g.disruptions.WithLabelValues(name, trigger, string(verdict))
		}
	}
	return s
}

// Drop lets go of the series of a Service that is no longer guarded.
func (g *Guard) Drop(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.services, name)
	delete(g.known, name) // if it is guarded again, that was too long ago
	g.requests.Drop(name)
	g.disruptions.DeletePartialMatch(prometheus.Labels{"service": name})
}

// Observed returns how long each Service was observed since the call before.
func (g *Guard) Observed() map[string]time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]time.Duration{}
	for name, s := range g.services {
		all[name] = s.observedSince(g.now())
	}
	return all
}

// gap counts a gap of a watch.
func (g *Guard) gap(resource string) {
	if resource == "" {
		resource = allResources
	}
	g.gaps.WithLabelValues(resource).Inc()
}

// count counts a judged run.
func (g *Guard) count(service string, tl *model.Timeline, verdict gate.State) {
	metrics.Inc(g.disruptions.WithLabelValues(service, triggerOf(tl, service), string(verdict)), tl.Run.ID)
	for _, i := range tl.Incidents {
		if len(i.Causes) > 0 {
			c := i.Causes[0]
			metrics.Inc(g.incidents.WithLabelValues(c.Rule, string(c.Confidence)), tl.Run.ID)
		}
	}
}

// Describe is of [prometheus.Collector].
func (g *Guard) Describe(descs chan<- *prometheus.Desc) {
	metrics.DescribeTimes(descs)
	own := []*prometheus.Desc{
		leaderDesc, maxRateDesc, loweredDesc, stateDesc, gateDesc, lastDowntimeDesc, lastFailedDesc, lastTimeDesc,
	}
	for _, d := range own {
		descs <- d
	}
}

// Collect is of [prometheus.Collector].
func (g *Guard) Collect(series chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	leads := g.Leads == nil || g.Leads()
	series <- prometheus.MustNewConstMetric(leaderDesc, prometheus.GaugeValue, oneIf(leads))
	if g.Budget != nil {
		b := g.Budget()
		series <- prometheus.MustNewConstMetric(maxRateDesc, prometheus.GaugeValue, b.Most)
		series <- prometheus.MustNewConstMetric(loweredDesc, prometheus.GaugeValue, float64(b.Lowered))
	}
	for _, s := range g.services {
		s.collect(series)
	}
}
