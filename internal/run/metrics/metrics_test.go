package metrics

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"lapse/correlate/model"
	"lapse/internal/layer"
	"lapse/internal/run/live"
	"lapse/timeline"
)

const ms = time.Millisecond

// measured is an Exporter of a Service asked by two sources.
func measured() *Exporter {
	e := New()
	for id, source := range []timeline.SourceID{1, 2} {
		e.Fact(timeline.Target{ID: timeline.TargetID(id + 1), Name: "web new", Kind: timeline.New, Service: "shop/web", Source: source})
	}
	e.Fact(timeline.Target{ID: 3, Name: "web direct web-1", Kind: timeline.Direct, Service: "shop/web", Pod: "shop/web-1", Source: 1})
	return e
}

func request(target timeline.TargetID, class timeline.Class, took time.Duration) timeline.Request {
	return timeline.Request{Target: target, Due: time.Second, Sent: time.Second, Done: time.Second + took, Outcome: timeline.Outcome{Class: class}}
}

func judgement(downtime model.Length, open bool, coverage float64, measured time.Duration) *model.Timeline {
	t := model.Target{Target: timeline.Target{ID: 1, Kind: timeline.New, Service: "shop/web"}, SlowFrom: 500 * ms, Measured: model.Instant{Latest: measured}}
	return &model.Timeline{Targets: []model.Target{t}, Verdict: model.Verdict{Sent: 1, Coverage: coverage, Downtime: model.Downtime{Total: downtime, Open: open}}}
}

// expect compares the series of some names.
func expect(t *testing.T, e *Exporter, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(e.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEverySeriesIsThereBeforeItHappens(t *testing.T) {
	e := measured()
	expect(t, e, `
# HELP lapse_requests_total Requests whose outcome tells something of the Service: ok, slow (answered late) or failed.
# TYPE lapse_requests_total counter
lapse_requests_total{kind="new",outcome="failed",service="shop/web"} 0
lapse_requests_total{kind="new",outcome="ok",service="shop/web"} 0
lapse_requests_total{kind="new",outcome="slow",service="shop/web"} 0
# HELP lapse_downtime_seconds_total How long the Service's target that lost most was down, of what was observed up to now: at least (min) and at most (max). A failure that was under way when measuring began, or that goes on, may be longer than max.
# TYPE lapse_downtime_seconds_total counter
lapse_downtime_seconds_total{bound="max",service="shop/web"} 0
lapse_downtime_seconds_total{bound="min",service="shop/web"} 0
# HELP lapse_sources Processes that send requests: measuring, lost during the run, or missing since it began.
# TYPE lapse_sources gauge
lapse_sources{state="lost"} 0
lapse_sources{state="measuring"} 2
lapse_sources{state="missing"} 0
`, "lapse_requests_total", "lapse_downtime_seconds_total", "lapse_sources")
	if n, err := testutil.GatherAndCount(e.registry, "lapse_errors_total"); n != int(timeline.NumClasses)-1 || err != nil {
		t.Errorf("%d errors, %v", n, err)
	}
	all, err := testutil.GatherAndCount(e.registry)
	if err != nil || all > 45 {
		t.Errorf("%d series, %v", all, err)
	}
}

func TestPrometheusFindsNothingToCriticize(t *testing.T) {
	problems, err := testutil.GatherAndLint(measured().registry)
	if len(problems) > 0 || err != nil {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestRequestsAreCountedByHowTheyEnded(t *testing.T) {
	e := measured()
	e.Judged(live.Judgement{Timeline: judgement(model.Length{}, false, 1, time.Second)})
	delayed := request(1, timeline.OK, 700*ms)
	delayed.Delayed = true
	e.Fact(timeline.Batch{Requests: []timeline.Request{
		request(1, timeline.OK, 2*ms), request(2, timeline.OK, 600*ms), request(1, timeline.OK, 600*ms), delayed,
		request(1, timeline.Refused, ms), request(2, timeline.Local, ms), request(3, timeline.Reset, ms), request(9, timeline.OK, ms),
	}})
	e.Fact(timeline.Event{Kind: timeline.ProberChanged, To: "lost"})
	expect(t, e, `
# HELP lapse_requests_total Requests whose outcome tells something of the Service: ok, slow (answered late) or failed.
# TYPE lapse_requests_total counter
lapse_requests_total{kind="new",outcome="failed",service="shop/web"} 1
lapse_requests_total{kind="new",outcome="ok",service="shop/web"} 3
lapse_requests_total{kind="new",outcome="slow",service="shop/web"} 1
# HELP lapse_sources Processes that send requests: measuring, lost during the run, or missing since it began.
# TYPE lapse_sources gauge
lapse_sources{state="lost"} 1
lapse_sources{state="measuring"} 1
lapse_sources{state="missing"} 0
`, "lapse_requests_total", "lapse_sources")
	for class, want := range map[timeline.Class]float64{timeline.Refused: 1, timeline.Local: 1, timeline.Reset: 0} {
		if got := testutil.ToFloat64(e.requests.targets[1].errors[class]); got != want {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
}

// A counter never falls, and what is not certain is neither up nor down.
func TestDowntimeNeverFalls(t *testing.T) {
	e := measured()
	for _, tl := range []*model.Timeline{
		judgement(model.Length{Min: 200 * ms, Max: 2900 * ms}, false, 0.75, 10*time.Second),
		judgement(model.Length{Min: 100 * ms, Max: 1700 * ms}, true, 0.875, 12*time.Second), // a window goes on
		nil,
	} {
		if tl == nil {
			e.Close(nil)
			continue
		}
		e.Judged(live.Judgement{Timeline: tl})
	}
	expect(t, e, `
# HELP lapse_downtime_seconds_total How long the Service's target that lost most was down, of what was observed up to now: at least (min) and at most (max). A failure that was under way when measuring began, or that goes on, may be longer than max.
# TYPE lapse_downtime_seconds_total counter
lapse_downtime_seconds_total{bound="max",service="shop/web"} 2.9
lapse_downtime_seconds_total{bound="min",service="shop/web"} 0.2
# HELP lapse_observed_seconds_total How long the Service's target that lost most was surely up, was surely down, or was not observed. What lies within the error bars is in none of these.
# TYPE lapse_observed_seconds_total counter
lapse_observed_seconds_total{service="shop/web",state="down"} 0.2
lapse_observed_seconds_total{service="shop/web",state="unobserved"} 2.5
lapse_observed_seconds_total{service="shop/web",state="up"} 7.1
`, "lapse_downtime_seconds_total", "lapse_observed_seconds_total")
}

// expectValues compares series whose help another test compares.
func expectValues(t *testing.T, e *Exporter, name string, want map[string]float64) {
	t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				labels := slices.DeleteFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "service" })
				got[labels[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// Where every request is the prober's own fault, nothing was seen: the Service may have been down all the time.
func TestWhatNobodyMeasuredIsUnobserved(t *testing.T) {
	e, tl := measured(), judgement(model.Length{}, false, 0, 10*time.Second)
	tl.Verdict.Sent = 0
	e.Judged(live.Judgement{Timeline: tl})
	expectValues(t, e, "lapse_observed_seconds_total", map[string]float64{"up": 0, "down": 0, "unobserved": 10})
	expectValues(t, e, "lapse_downtime_seconds_total", map[string]float64{"min": 0, "max": 10})
}

// Each Service of a run has its own times.
func TestAServiceOfSeveralHasItsOwnDowntime(t *testing.T) {
	e, tl := measured(), judgement(model.Length{Min: 500 * ms, Max: time.Second}, false, 1, 10*time.Second)
	e.Fact(timeline.Target{ID: 4, Name: "api new", Kind: timeline.New, Service: "shop/api", Source: 1})
	api := tl.Targets[0]
	api.ID, api.Service = 4, "shop/api"
	tl.Targets = append(tl.Targets, api)
	web, none := model.ServiceVerdict{Sent: 1, Coverage: 1, Downtime: tl.Verdict.Downtime}, model.ServiceVerdict{Sent: 1, Coverage: 1}
	tl.Services = []model.WatchedService{{Name: "shop/web", Verdict: &web}, {Name: "shop/api", Verdict: &none}}
	e.Judged(live.Judgement{Timeline: tl})
	for service, down := range map[string]time.Duration{"shop/web": 500 * ms, "shop/api": 0} {
		if got := e.judged.services[service].Down.Min; got != down {
			t.Errorf("%s was down for %v, want %v", service, got, down)
		}
	}
}

// The target that lost most may be the one that was measured for the shortest time.
func TestUpIsNoLongerThanAnyTargetWasMeasured(t *testing.T) {
	e, tl := measured(), judgement(model.Length{Min: 500 * ms, Max: time.Second}, false, 1, 10*time.Second)
	late := tl.Targets[0]
	late.ID, late.Measured.Earliest = 2, 6*time.Second
	tl.Targets = append(tl.Targets, late)
	e.Judged(live.Judgement{Timeline: tl})
	expectValues(t, e, "lapse_observed_seconds_total", map[string]float64{"up": 3, "down": 0.5, "unobserved": 0})
}

func TestEachSourceIsMeasuringLostOrMissing(t *testing.T) {
	e := measured()
	e.Fact(timeline.Target{ID: 4, Name: "web held", Kind: timeline.Held, Service: "shop/web", Source: 3})
	e.Fact(timeline.Target{ID: 5, Name: "control", Kind: timeline.Control, Source: 4})
	prober := func(to, node string) {
		e.Fact(timeline.Event{Kind: timeline.ProberChanged, To: to, Object: timeline.Object{Kind: "Node", Name: node}})
	}
	prober("missing", "node5")
	prober("missing", "node6")
	prober("lost", "node1")
	expectValues(t, e, "lapse_sources", map[string]float64{"measuring": 2, "lost": 1, "missing": 2})
	prober("measuring", "node5")
	expectValues(t, e, "lapse_sources", map[string]float64{"measuring": 2, "lost": 1, "missing": 1})
}

// What is kept does not grow with the Pods and probers that come and go, and their requests stay counted. A node's next
// prober may join before its last one is lost.
func TestTargetsThatAreGoneAreForgotten(t *testing.T) {
	e := measured()
	lost := func(i int) {
		e.Fact(timeline.Event{Kind: timeline.ProberChanged, To: "lost", Object: timeline.Object{Kind: "Node", Name: fmt.Sprint("node", i/2)}})
	}
	for i := range 1000 {
		source, of, node := timeline.SourceID(10+i), timeline.TargetID(10+2*i), fmt.Sprint("node", i/2)
		e.Fact(timeline.Source{ID: source, Role: timeline.Prober, Node: node})
		e.Fact(timeline.Target{ID: of, Source: source, Kind: timeline.New, Service: "shop/web"})
		e.Fact(timeline.Target{ID: of + 1, Source: 1, Kind: timeline.Direct, Service: "shop/web", Pod: fmt.Sprint("shop/web-", i)})
		if i%2 == 1 {
			lost(i)
		}
		e.Fact(timeline.Batch{Source: source, Requests: []timeline.Request{request(of, timeline.OK, ms), request(of+1, timeline.OK, ms)}})
		if i%2 == 1 {
			lost(i)
		}
	}
	c := e.requests
	if len(c.targets) != 2 || len(c.nodes) > 0 || testutil.ToFloat64(c.targets[1].ok) != 1000 {
		t.Errorf("%d targets and %d nodes are kept, %v requests counted", len(c.targets), len(c.nodes), testutil.ToFloat64(c.targets[1].ok))
	}
}

// The run takes for slow what took long from when it was sent, and so do its metrics.
func TestARequestThatWasSentLateIsNotSlow(t *testing.T) {
	e := measured()
	e.Judged(live.Judgement{Timeline: judgement(model.Length{}, false, 1, time.Second)})
	late := request(1, timeline.OK, 600*ms)
	late.Sent += 300 * ms
	e.Fact(timeline.Batch{Requests: []timeline.Request{late}})
	if ok, slow := testutil.ToFloat64(e.requests.targets[1].ok), testutil.ToFloat64(e.requests.targets[1].slow); ok != 1 || slow != 0 {
		t.Errorf("%v ok and %v slow, want 1 and 0", ok, slow)
	}
}

// scrape gets metrics as Prometheus does.
func scrape(t *testing.T, url, accept string) []byte {
	t.Helper()
	ask, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Accept", accept)
	r, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil || r.StatusCode != 200 {
		t.Fatal(r.Status, err)
	}
	return body.Bytes()
}

func TestPrometheusScrapesTextAndNativeHistograms(t *testing.T) {
	layer.Real(t)
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	stop := e.Serve(&told)
	url := strings.TrimSpace(strings.TrimPrefix(told.String(), "metrics: "))
	e.Fact(timeline.Target{ID: 1, Kind: timeline.Reused, URL: "http://127.0.0.1:80/"})
	e.Fact(timeline.Batch{Requests: []timeline.Request{request(1, timeline.OK, 3*ms)}})
	text := string(scrape(t, url, "text/plain"))
	for _, want := range []string{
		`lapse_build_info{goversion="go`, `lapse_requests_total{kind="reused",outcome="ok",service="http://127.0.0.1:80/"} 1`,
		`lapse_request_duration_seconds_bucket{kind="reused",service="http://127.0.0.1:80/",le="0.005"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	native := false
	families := bufio.NewReader(bytes.NewReader(scrape(t, url, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")))
	for {
		var f dto.MetricFamily
		if protodelim.UnmarshalFrom(families, &f) != nil {
			break
		}
		if f.GetName() == "lapse_request_duration_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			native = h.GetSchema() == 3 && len(h.GetPositiveSpan()) == 1 && len(h.GetBucket()) == 13
		}
	}
	if !native {
		t.Error("no native histogram with classic buckets")
	}
	stop()
	if _, err := http.Get(url); err == nil {
		t.Error("metrics are served after the run")
	}
}

func TestAnAddressInUseIsAUsageError(t *testing.T) {
	layer.Real(t)
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Serve(io.Discard)()
	if _, err := Listen(e.ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "serve metrics: ") {
		t.Error(err)
	}
	if none, err := Listen(""); none != nil || err != nil {
		t.Error(none, err)
	}
	(*Exporter)(nil).Serve(io.Discard)()
}

// A slowReader takes no answer until it is let go.
type slowReader struct {
	*httptest.ResponseRecorder
	asked, free chan struct{}
}

func (r slowReader) Write(p []byte) (int, error) {
	r.asked <- struct{}{}
	<-r.free
	return r.ResponseRecorder.Write(p)
}

// Who reads slowly holds up no other, such as Prometheus.
func TestSlowReadersHoldUpNobody(t *testing.T) {
	handler, free := Handler(measured().registry), make(chan struct{})
	var readers sync.WaitGroup
	for range 8 {
		r := slowReader{httptest.NewRecorder(), make(chan struct{}), free}
		readers.Go(func() { handler.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil)) })
		<-r.asked
	}
	got := httptest.NewRecorder()
	handler.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "lapse_requests_total") {
		t.Errorf("%d: %s", got.Code, got.Body)
	}
	close(free)
	readers.Wait()
}
