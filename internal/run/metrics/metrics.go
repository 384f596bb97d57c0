// Package metrics serves the figures of a run to Prometheus while it goes on. No series has a label for a Pod, a node
// or a run: their number depends on what is measured, not on how long or from where.
package metrics

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lapse/correlate/model"
	"lapse/internal/run/exit"
	"lapse/internal/run/live"
	"lapse/internal/run/version"
	"lapse/timeline"
)

// An Exporter is the observer of a run that counts for Prometheus.
type Exporter struct {
	ln       net.Listener
	registry *prometheus.Registry

	requests, errors *prometheus.CounterVec
	duration         *prometheus.HistogramVec
	sources          *prometheus.GaugeVec

	// of the goroutine that owns the run
	targets map[timeline.TargetID]*target // judged ones
	began   map[timeline.SourceID]bool    // sources that have begun to measure
	lost    int                           // sources
	missing map[string]bool               // nodes without a source from the beginning

	judged judged
}

// A target is one whose requests are counted, in series of its Service or URL and its kind.
type target struct {
	ok, slow, failed prometheus.Counter
	errors           [timeline.NumClasses]prometheus.Counter
	duration         prometheus.Observer
	slowFrom         time.Duration // an answer that took longer is slow; 0: not known yet
}

// New returns an Exporter of a run that has not begun.
func New() *Exporter {
	of := []string{"service", "kind"}
	e := &Exporter{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lapse_requests_total",
			Help: "Requests whose outcome tells something of the Service: ok, slow (answered late) or failed.",
		}, append(of, "outcome")),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lapse_errors_total",
			Help: "Requests that were not answered well, by error. notsent and local are the prober's own fault.",
		}, append(of, "error")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "lapse_request_duration_seconds",
			Help:                            "How long answers took, from when their requests were due.",
			Buckets:                         []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}, of),
		sources: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lapse_sources",
			Help: "Processes that send requests: measuring, lost during the run, or missing since it began.",
		}, []string{"state"}),
		targets: map[timeline.TargetID]*target{},
		began:   map[timeline.SourceID]bool{},
		missing: map[string]bool{},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lapse_build_info", Help: "Always 1; its labels say which Lapse measures.",
		ConstLabels: prometheus.Labels{"version": version.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	e.registry.MustRegister(build, e.requests, e.errors, e.duration, e.sources, &e.judged)
	e.countSources()
	return e
}

// Listen returns an Exporter that is to be served on addr, or nil if addr is empty.
func Listen(addr string) (*Exporter, error) {
	if addr == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, exit.Usagef("give another --metrics address, such as 127.0.0.1:9117", "serve metrics: %w", err)
	}
	e := New()
	e.ln = ln
	return e, nil
}

// Serve answers GET /metrics until the returned function is called. The nil Exporter serves nothing.
func (e *Exporter) Serve(stderr io.Writer) (stop func()) {
	if e == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(e.ln); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(stderr, "lapse: serve metrics: %v\n", err)
		}
	})
	fmt.Fprintf(stderr, "metrics: http://%s/metrics\n", e.ln.Addr())
	return func() {
		server.Close()
		serving.Wait()
	}
}

// Fact counts requests.
func (e *Exporter) Fact(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Target:
		e.add(f)
	case timeline.Batch:
		for i := range f.Requests {
			e.count(&f.Requests[i])
		}
	case timeline.Event:
		if f.Kind == timeline.ProberChanged {
			e.proberIs(f.To, f.Object.Name)
		}
	}
}

func (e *Exporter) proberIs(state, node string) {
	switch state {
	case "lost":
		e.lost++
	case "missing":
		e.missing[node] = true
	case "measuring":
		delete(e.missing, node)
	}
	e.countSources()
}

// add begins to count a target: all its series are there from the beginning, as 0.
func (e *Exporter) add(t timeline.Target) {
	if t.Kind.Judged() || t.Kind == timeline.Held {
		e.began[t.Source] = true
		e.countSources()
	}
	if !t.Kind.Judged() || e.targets[t.ID] != nil {
		return
	}
	service := t.Service
	if service == "" {
		service = t.URL
	}
	kind := string(t.Kind)
	counted := &target{
		ok:       e.requests.WithLabelValues(service, kind, "ok"),
		slow:     e.requests.WithLabelValues(service, kind, "slow"),
		failed:   e.requests.WithLabelValues(service, kind, "failed"),
		duration: e.duration.WithLabelValues(service, kind),
	}
	for class := range timeline.NumClasses {
		if class != timeline.OK {
			counted.errors[class] = e.errors.WithLabelValues(service, kind, class.String())
		}
	}
	e.targets[t.ID] = counted
}

func (e *Exporter) countSources() {
	e.sources.WithLabelValues("measuring").Set(float64(max(0, len(e.began)-e.lost)))
	e.sources.WithLabelValues("lost").Set(float64(e.lost))
	e.sources.WithLabelValues("missing").Set(float64(len(e.missing)))
}

func (e *Exporter) count(r *timeline.Request) {
	t := e.targets[r.Target]
	if t == nil {
		return
	}
	if r.Class != timeline.OK {
		t.errors[r.Class].Inc()
		if r.Class.Failed() {
			t.failed.Inc()
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

// Wants asks for totals once a second.
func (e *Exporter) Wants() live.Detail { return live.Seldom }

// Judged takes what is known of the downtime so far.
func (e *Exporter) Judged(j live.Judgement) { e.take(j.Timeline) }

// Close takes the judged run.
func (e *Exporter) Close(tl *model.Timeline) { e.take(tl) }

func (e *Exporter) take(tl *model.Timeline) {
	if tl == nil {
		return
	}
	for i := range tl.Targets {
		if t := e.targets[tl.Targets[i].ID]; t != nil {
			t.slowFrom = tl.Targets[i].SlowFrom
		}
	}
	e.judged.take(tl)
}
