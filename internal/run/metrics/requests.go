package metrics

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Requests are the series of requests: how they ended, how long answers took, and how late they were sent. Any
// goroutine may use it.
type Requests struct {
	requests, errors *prometheus.CounterVec
	duration         *prometheus.HistogramVec
	late             prometheus.Histogram
}

// NewRequests returns series without targets.
func NewRequests() *Requests {
	of := []string{"service", "kind"}
	return &Requests{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lapse_requests_total",
			Help: "Requests whose outcome tells something of the Service: ok, slow (answered late) or failed.",
		}, append(of, "outcome")),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lapse_errors_total",
			Help: "Requests that were not answered well, by error. notsent and local are the prober's own fault.",
		}, append(of, "error")),
		duration: prometheus.NewHistogramVec(Histogram("lapse_request_duration_seconds",
			"How long answers took, from when their requests were due.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10), of),
		late: prometheus.NewHistogram(Histogram("lapse_late_seconds",
			"How long after they were due requests were sent.", .0005, .001, .005, .025, .1, .5)),
	}
}

// Histogram returns the options of a native histogram with classic buckets beside it.
func Histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

func (r *Requests) all() []prometheus.Collector {
	return []prometheus.Collector{r.requests, r.errors, r.duration, r.late}
}

// Describe is of [prometheus.Collector].
func (r *Requests) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range r.all() {
		c.Describe(descs)
	}
}

// Collect is of [prometheus.Collector].
func (r *Requests) Collect(series chan<- prometheus.Metric) {
	for _, c := range r.all() {
		c.Collect(series)
	}
}

// Drop lets go of the series of a Service.
func (r *Requests) Drop(service string) {
	of := prometheus.Labels{"service": service}
	r.requests.DeletePartialMatch(of)
	r.errors.DeletePartialMatch(of)
	r.duration.DeletePartialMatch(of)
}

// A Counter counts the requests of one process's targets. One goroutine owns it.
type Counter struct {
	Run string // an exemplar of failed requests; empty: none

	in      *Requests
	series  map[[2]string]*series        // by Service or URL and kind
	targets map[timeline.TargetID]target // judged ones
	nodes   map[timeline.SourceID]string // of the probers
}

// Counter returns a counter without targets.
func (r *Requests) Counter() *Counter {
	return &Counter{
		in: r, series: map[[2]string]*series{}, targets: map[timeline.TargetID]target{},
		nodes: map[timeline.SourceID]string{},
	}
}

// Series are those of one Service or URL and kind.
type series struct {
	ok, slow, failed prometheus.Counter
	errors           [timeline.NumClasses]prometheus.Counter
	duration         prometheus.Observer
}

// A target is one whose requests are counted.
type target struct {
	*series
	source   timeline.SourceID
	slowFrom time.Duration // an answer that took longer is slow; 0: not known yet
}

// label returns the Service of a target, or its URL if it has none.
func label(t timeline.Target) string {
	if t.Service == "" {
		return t.URL
	}
	return t.Service
}

// Fact counts requests.
func (c *Counter) Fact(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Source:
		if f.Role == timeline.Prober {
			c.nodes[f.ID] = f.Node
		}
	case timeline.Event:
		if f.Kind == timeline.ProberChanged && f.To == "lost" {
			c.forget(f.Object.Name)
		}
	case timeline.Target:
		c.add(f)
	case timeline.Batch:
		for i := range f.Requests {
			c.count(&f.Requests[i])
		}
	}
}

// Judged takes from when on an answer is slow.
func (c *Counter) Judged(tl *model.Timeline) {
	for i := range tl.Targets {
		if t, ok := c.targets[tl.Targets[i].ID]; ok {
			t.slowFrom = tl.Targets[i].SlowFrom
			c.targets[tl.Targets[i].ID] = t
		}
	}
}

// forget lets go of the targets of a node's prober, which was lost: of its oldest, where the next has joined already.
func (c *Counter) forget(node string) {
	var lost timeline.SourceID
	for id, of := range c.nodes {
		if of == node && (lost == 0 || id < lost) {
			lost = id
		}
	}
	delete(c.nodes, lost)
	maps.DeleteFunc(c.targets, func(_ timeline.TargetID, t target) bool { return lost != 0 && t.source == lost })
}

// add begins to count a target: all its series are there from the beginning, as 0.
func (c *Counter) add(t timeline.Target) {
	if _, known := c.targets[t.ID]; known || !t.Kind.Judged() {
		return
	}
	service, kind := label(t), string(t.Kind)
	of := [2]string{service, kind}
	if c.series[of] == nil {
		c.series[of] = c.in.of(service, kind)
	}
	c.targets[t.ID] = target{series: c.series[of], source: t.Source}
}

// of returns the series of a Service or URL and a kind.
func (r *Requests) of(service, kind string) *series {
	s := &series{
		ok:       r.requests.WithLabelValues(service, kind, "ok"),
		slow:     r.requests.WithLabelValues(service, kind, "slow"),
		failed:   r.requests.WithLabelValues(service, kind, "failed"),
		duration: r.duration.WithLabelValues(service, kind),
	}
	for class := range timeline.NumClasses {
		if class != timeline.OK {
			s.errors[class] = r.errors.WithLabelValues(service, kind, class.String())
		}
	}
	return s
}

func (c *Counter) count(r *timeline.Request) {
	t, ok := c.targets[r.Target]
	if !ok {
		return
	}
	if r.Class.Observed() && r.Class != timeline.NoSlot {
		c.in.late.Observe(max(0, r.Sent-r.Due).Seconds())
	}
	if r.Class != timeline.OK {
		t.errors[r.Class].Inc()
		if r.Class.Failed() {
			Inc(t.failed, c.Run)
		}
		return
	}
	outcome := t.ok
	if !r.Delayed {
		t.duration.Observe(r.Latency().Seconds())
		if t.slowFrom > 0 && r.Done-r.Sent > t.slowFrom {
			outcome = t.slow
		}
	}
	outcome.Inc()
}

// Inc adds 1 to a counter, with a run's ID as exemplar unless it is empty.
func Inc(c prometheus.Counter, run string) {
	if with, ok := c.(prometheus.ExemplarAdder); ok && run != "" {
		with.AddWithExemplar(1, prometheus.Labels{"run": run})
		return
	}
	c.Inc()
}
