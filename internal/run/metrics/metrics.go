// Package metrics serves the figures of a run to Prometheus while it goes on. No series has a label for a Pod, a node
// or a run: their number depends on what is measured, not on how long or from where.
package metrics

import (
	"bytes"
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
	sources  *prometheus.GaugeVec

	// of the goroutine that owns the run
	requests *Counter
	began    map[timeline.SourceID]bool // sources that have begun to measure
	lost     int                        // sources
	missing  map[string]bool            // nodes without a source from the beginning

	judged judged
}

// New returns an Exporter of a run that has not begun.
func New() *Exporter {
	requests := NewRequests()
	e := &Exporter{
		registry: NewRegistry(requests),
		requests: requests.Counter(),
		sources: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lapse_sources",
			Help: "Processes that send requests: measuring, lost during the run, or missing since it began.",
		}, []string{"state"}),
		began:   map[timeline.SourceID]bool{},
		missing: map[string]bool{},
		judged:  judged{services: map[string]*Times{}},
	}
	e.registry.MustRegister(e.sources, &e.judged)
	e.countSources()
	return e
}

// NewRegistry returns a registry that says which Lapse measures, and what the collectors do.
func NewRegistry(collectors ...prometheus.Collector) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lapse_build_info", Help: "Always 1; its labels say which Lapse measures.",
		ConstLabels: prometheus.Labels{"version": version.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(collectors, build)...)
	return registry
}

// Handler answers what Prometheus asks of a registry. Exemplars are in its answers in OpenMetrics and protobuf. Four
// answers are made at a time, and as many are read as there are connections: who reads slowly holds up no other.
func Handler(of *prometheus.Registry) http.Handler {
	answers := promhttp.HandlerFor(of, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer{ResponseWriter: w, status: http.StatusOK}
		answers.ServeHTTP(&a, r)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // who asked may have gone
	})
}

// An answer is kept until it is whole.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

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
	mux.Handle("GET /metrics", Handler(e.registry))
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

// Fact counts requests and sources.
func (e *Exporter) Fact(f timeline.Fact) {
	e.requests.Fact(f)
	switch f := f.(type) {
	case timeline.Target:
		if f.Kind.Judged() {
			e.judged.add(f)
		}
		if f.Kind.Judged() || f.Kind == timeline.Held {
			e.began[f.Source] = true
			e.countSources()
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

func (e *Exporter) countSources() {
	e.sources.WithLabelValues("measuring").Set(float64(max(0, len(e.began)-e.lost)))
	e.sources.WithLabelValues("lost").Set(float64(e.lost))
	e.sources.WithLabelValues("missing").Set(float64(len(e.missing)))
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
	e.requests.Judged(tl)
	e.judged.take(tl)
}
