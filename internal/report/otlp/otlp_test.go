package otlp

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lapse/correlate/model"
	"lapse/internal/hint"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// sampleRun is a rollout that failed a gate, with one incident of two windows.
func sampleRun() *model.Timeline {
	cause := model.Cause{Rule: "route-outlives-pod", Confidence: model.High, Text: "routes led to web-1", Fix: "sleep 2 s"}
	window := func(id int, kind model.WindowKind) model.Window {
		return model.Window{
			ID: id, Target: "web new", Kind: kind, Basis: model.Exact, Sent: 20, Failed: 12, Classes: map[string]int{"refused": 11, "reset": 1},
			Start: model.Instant{Earliest: 3 * s, Latest: 3*s + ms}, End: model.Instant{Earliest: 4 * s, Latest: 4*s + 2*ms}, Causes: []model.Cause{cause, {Rule: "pod-crashed", Confidence: model.Low}},
		}
	}
	cut := window(2, model.CutKind)
	return &model.Timeline{
		Tool: model.Tool{Version: "v1"}, T0: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Run: model.RunInfo{
			ID: "lapse-1", Duration: 9 * s, Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
			Command: &model.Command{Args: []string{"kubectl", "rollout", "restart"}, Start: new(s), End: new(2 * s), ExitCode: new(0)},
		},
		Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, URL: "http://web.shop/", Service: "shop/web"}, Source: "east", Node: "node1"}},
		Windows: []model.Window{window(1, model.Outage)},
		Held:    []model.Held{{Windows: []model.CutWindow{{Window: cut}}}},
		Incidents: []model.Incident{{
			ID: 1, Windows: []int{1, 2}, Start: model.Instant{Earliest: 3 * s, Latest: 3*s + ms}, End: model.Instant{Earliest: 4 * s, Latest: 4*s + 2*ms}, Sent: 20, Failed: 12, Cut: 12,
			Causes: []model.IncidentCause{{Cause: cause}}, Said: model.IncidentSaid{Headline: "12 requests failed"},
			Triggers: []model.Trigger{{Kind: model.RolledOut, Object: timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}, At: model.Instant{Earliest: 2 * s, Latest: 2*s + 5*ms}, Actor: "kubectl", Text: "rollout of web"}},
		}},
		Verdict: model.Verdict{Result: model.Fail, ExitCode: 3, Sent: 200, Failed: 12}, Said: model.Said{Headline: "12 of 200 requests failed"},
	}
}

func env(values ...string) Env {
	set := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		set[values[i]] = values[i+1]
	}
	return func(name string) string { return set[name] }
}

// tree returns the spans as lines, each below its parent.
func tree(spans []*tracepb.Span, parent []byte, indent string, t0 time.Time) (lines string) {
	for _, s := range spans {
		if string(s.ParentSpanId) != string(parent) {
			continue
		}
		at := func(n uint64) time.Duration { return time.Unix(0, int64(n)).Sub(t0) }
		lines += fmt.Sprintf("%s%s %v–%v %v %q %d\n", indent, s.Name, at(s.StartTimeUnixNano), at(s.EndTimeUnixNano), s.Status.GetCode(), s.Status.GetMessage(), s.Flags)
		lines += tree(spans, s.SpanId, indent+"  ", t0)
	}
	return lines
}

const spans = `lapse run 0s–9s STATUS_CODE_ERROR "12 of 200 requests failed" 257
  command 1s–2s STATUS_CODE_UNSET "" 257
  incident route-outlives-pod 3s–4.002s STATUS_CODE_ERROR "12 requests failed" 257
    window outage 3s–4.002s STATUS_CODE_ERROR "" 257
    window cut 3s–4.002s STATUS_CODE_ERROR "" 257
`

func TestARunIsATraceOfItsIncidentsAndWindows(t *testing.T) {
	run := sampleRun()
	trace, err := Trace(run, env())
	if err != nil {
		t.Fatal(err)
	}
	all := spansOf(trace)
	if diff := cmp.Diff(spans, tree(all, nil, "", run.T0)); diff != "" {
		t.Error(diff)
	}
	again, err := Trace(run, env())
	if err != nil || !proto.Equal(trace, again) {
		t.Errorf("exported twice it is not the same trace: %v, %v", again, err)
	}
	run.Run.Command.ExitCode = new(1)
	run.Events = []model.Event{{Event: timeline.Event{Kind: timeline.CommandOutput, Detail: "error: timed out"}}}
	if failed, _ := Trace(run, env()); spansOf(failed)[1].Status.GetMessage() != "exit code 1; error: timed out" {
		t.Errorf("a command that failed: %v", spansOf(failed)[1].Status)
	}
	run.Run.ID = "lapse-2"
	if other, _ := Trace(run, env()); TraceID(other) == TraceID(trace) {
		t.Error("two runs are one trace")
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[string(s.SpanId)] || len(s.SpanId) != 8 || len(s.TraceId) != 16 {
			t.Errorf("span %x of trace %x", s.SpanId, s.TraceId)
		}
		seen[string(s.SpanId)] = true
	}
}

// What was not observed to its end may have been longer, and of cut connections no downtime is known.
func TestADowntimeThatIsNotKnownIsNotWritten(t *testing.T) {
	run := sampleRun()
	cut := run.Incidents[0]
	run.Verdict.Downtime.Open, run.Incidents[0].Open, run.Windows[0].Open.End = true, true, true
	cut.ID, cut.Sent, cut.Failed, cut.Windows = 2, 0, 0, nil
	run.Incidents = append(run.Incidents, cut)
	trace, err := Trace(run, env())
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range spansOf(trace) {
		got := show(span.Attributes)
		if strings.Contains(got, "lapse.downtime.max") || strings.Contains(got, "lapse.incident=2") && strings.Contains(got, "lapse.requests.sent") {
			t.Errorf("%s:\n%s", span.Name, got)
		}
	}
}

func TestASpanSaysWhatATimelineSays(t *testing.T) {
	trace, err := Trace(sampleRun(), env())
	if err != nil {
		t.Fatal(err)
	}
	all := spansOf(trace)
	for i, want := range [][]string{
		{"lapse.run.id=lapse-1", "lapse.verdict=fail", "lapse.exit_code=3", "lapse.requests.failed=12", "k8s.namespace.name=shop", "k8s.service.name=web"},
		{"process.command_args=kubectl,rollout,restart", "process.exit.code=0"},
		{"lapse.incident=1", "lapse.start.bracket=1000000", "lapse.end.bracket=2000000", "lapse.connections.cut=12", "lapse.cause.rule=route-outlives-pod", "lapse.cause.fix=sleep 2 s"},
		{"lapse.window=1", "lapse.target.name=web new", "url.full=http://web.shop/", "k8s.service.name=web", "lapse.source.node=node1", "error.type=refused", "lapse.failed.reset=1"},
		{"lapse.connections.held=20"},
	} {
		got := show(all[i].Attributes)
		for _, attribute := range want {
			if !strings.Contains(got, attribute+"\n") {
				t.Errorf("%s has no %s:\n%s", all[i].Name, attribute, got)
			}
		}
	}
	events := all[2].Events
	if got := show(events[0].Attributes); events[0].Name != "trigger" || !strings.Contains(got, "k8s.deployment.name=web\n") || !strings.Contains(got, "lapse.trigger.bracket=5000000\n") {
		t.Errorf("%s\n%s", events[0].Name, got)
	}
	if got := show(all[3].Events[0].Attributes); !strings.Contains(got, "lapse.cause.rule=pod-crashed\n") {
		t.Errorf("the second cause: %s", got)
	}
}

func show(list []*commonpb.KeyValue) (lines string) {
	for _, kv := range list {
		value := fmt.Sprint(kv.Value.Value)
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			value = v.StringValue
		case *commonpb.AnyValue_IntValue:
			value = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_ArrayValue:
			var parts []string
			for _, part := range v.ArrayValue.Values {
				parts = append(parts, part.GetStringValue())
			}
			value = strings.Join(parts, ",")
		}
		lines += kv.Key + "=" + value + "\n"
	}
	return lines
}

func TestAPipelinesSpanIsTheParent(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	trace, err := Trace(sampleRun(), env("TRACEPARENT", "00-"+id+"-00f067aa0ba902b7-01"))
	if err != nil {
		t.Fatal(err)
	}
	root := spansOf(trace)[0]
	if TraceID(trace) != id || hex.EncodeToString(root.ParentSpanId) != "00f067aa0ba902b7" || root.Flags != 0x301 {
		t.Errorf("trace %s, parent %x, flags %x", TraceID(trace), root.ParentSpanId, root.Flags)
	}
	if again := spansOf(trace)[1]; again.Flags != 0x101 || hex.EncodeToString(again.TraceId) != id {
		t.Errorf("a child: trace %x, flags %x", again.TraceId, again.Flags)
	}
	if _, err := Trace(sampleRun(), env("TRACEPARENT", "cc-"+id+"-00f067aa0ba902b7-01-what-will-be")); err != nil {
		t.Errorf("a later version: %v", err)
	}
	for text, why := range map[string]string{
		"x":                                                      "too short",
		"00-" + id + "-00f067aa0ba902b7-01-x":                    "too long",
		"cc-" + id + "-00f067aa0ba902b7-01x":                     "too long",
		"ff-" + id + "-00f067aa0ba902b7-01":                      "no version ff",
		"00-" + id + "-00f067aa0ba902b7-0x":                      "digits",
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01":     "digits",
		"00_" + id + "-00f067aa0ba902b7-01":                      "digits",
		"00-" + id + "00-f067aa0ba902b7-01":                      "digits",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": "trace ID is zero",
		"00-" + id + "-0000000000000000-01":                      "span ID is zero",
	} {
		_, err := Trace(sampleRun(), env("TRACEPARENT", text))
		if err == nil || !strings.Contains(err.Error(), "TRACEPARENT") || !strings.Contains(err.Error(), why) || hint.Of(err) == "" {
			t.Errorf("%s: %v, want %q", text, err, why)
		}
		if Check(env("TRACEPARENT", text)) == nil {
			t.Errorf("%s is not refused before the run", text)
		}
	}
}

func TestTheEnvironmentSaysWhoseTraceItIs(t *testing.T) {
	trace, err := Trace(sampleRun(), env("OTEL_SERVICE_NAME", "web tests", "OTEL_RESOURCE_ATTRIBUTES", "service.name=x, deployment.environment.name=a%2Cb,"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "deployment.environment.name=a,b\nservice.name=web tests\nservice.version=v1\n"
	if got := show(trace.ResourceSpans[0].Resource.Attributes); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []string{"secret", "=x", "a=%zz"} {
		_, err := Trace(sampleRun(), env("OTEL_RESOURCE_ATTRIBUTES", bad))
		if err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") || strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A collector is a server that takes traces, and answers what it is told to.
type collector struct {
	status  int
	header  http.Header
	answer  []byte
	got     *collectorpb.ExportTraceServiceRequest
	request *http.Request
	calls   int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.calls++
	c.request, c.got = r, new(collectorpb.ExportTraceServiceRequest)
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, c.got)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", protobuf)
	for name := range c.header {
		w.Header().Set(name, c.header.Get(name))
	}
	w.WriteHeader(max(c.status, http.StatusOK))
	w.Write(c.answer)
}

// send sends the sample to a collector.
func send(t *testing.T, c *collector, values ...string) (warning string, err error) {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	r, err := ReceiverOf(env(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", server.URL + "/otlp/"}, values...)...))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Trace(sampleRun(), env())
	if err != nil {
		t.Fatal(err)
	}
	return r.Send(t.Context(), trace, "lapse/v1")
}

func TestATraceIsSentAsItIs(t *testing.T) {
	var c collector
	if warning, err := send(t, &c, "OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b,X-One=1"); err != nil || warning != "" {
		t.Fatal(warning, err)
	}
	trace, _ := Trace(sampleRun(), env())
	if !proto.Equal(c.got, &collectorpb.ExportTraceServiceRequest{ResourceSpans: trace.ResourceSpans}) {
		t.Errorf("%v came", c.got)
	}
	got := []string{c.request.Method, c.request.URL.Path}
	for _, name := range []string{"Content-Type", "User-Agent", "Api-Key", "X-One"} {
		got = append(got, c.request.Header.Get(name))
	}
	if diff := cmp.Diff([]string{"POST", "/otlp/v1/traces", "application/x-protobuf", "lapse/v1", "a b", "1"}, got); diff != "" {
		t.Error(diff)
	}
}

// What is for all signals may be another receiver's login.
func TestHeadersForTracesReplaceThoseForAll(t *testing.T) {
	var c collector
	if _, err := send(t, &c, "OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=SECRET,X-One=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-one=2"); err != nil {
		t.Fatal(err)
	}
	if key, one := c.request.Header.Get("Api-Key"), c.request.Header.Get("X-One"); key != "" || one != "2" {
		t.Errorf("%q and %q were sent", key, one)
	}
}

func TestWhatAReceiverSaysIsTold(t *testing.T) {
	encode := func(m proto.Message) []byte {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	partly := func(n int64, text string) []byte {
		return encode(&collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: n, ErrorMessage: text}})
	}
	// a google.rpc.Status: code 3, the text, and a detail
	status := []byte("\x08\x03\x12\x0espan too large\x1a\x02\x0a\x00")
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	for _, test := range []struct {
		name             string
		c                collector
		warning, err, do string
	}{
		{name: "all is well", c: collector{answer: partly(0, "")}},
		{name: "a warning", c: collector{answer: partly(0, "old\x1b protocol")}, warning: `old\x1b protocol`},
		{name: "a part", c: collector{answer: partly(2, "too old")}, err: "rejected 2 of 5 spans: too old"},
		{name: "a part, many words", c: collector{answer: partly(2, strings.Repeat("x", 999))}, err: "rejected 2 of 5 spans: xxx"},
		{name: "a part, no word", c: collector{answer: partly(5, "")}, err: "rejected 5 of 5 spans: it does not say why"},
		{name: "a status", c: collector{status: 400, answer: status}, err: "answered 400 Bad Request: span too large"},
		{name: "a page", c: collector{status: 500, header: header("Content-Type", "text/plain"), answer: []byte("no\ndisk " + strings.Repeat("x", 999))}, err: "answered 500 Internal Server Error: no disk xxx"},
		{name: "no key", c: collector{status: 401}, err: "answered 401 Unauthorized", do: "OTEL_EXPORTER_OTLP_HEADERS"},
		{name: "not there", c: collector{status: 404}, err: "answered 404 Not Found", do: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{name: "too much", c: collector{status: 429, header: header("Retry-After", "30")}, err: "answered 429 Too Many Requests (Retry-After: 30)", do: "nothing was retried"},
		{name: "later", c: collector{status: 503}, err: "answered 503 Service Unavailable", do: "nothing was retried"},
		{name: "elsewhere", c: collector{status: 307, header: header("Location", "/v1/traces")}, err: "answered 307 Temporary Redirect"},
		{name: "no receiver", c: collector{header: header("Content-Type", "text/html; charset=utf-8"), answer: []byte("<html>")}, err: `answered 200 OK, but not as OTLP: "text/html"`},
		{name: "nonsense", c: collector{answer: []byte("\xff\xff")}, err: "not as OTLP"},
	} {
		warning, err := send(t, &test.c)
		if warning != test.warning || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || len(err.Error()) > 500 || !strings.Contains(hint.Of(err), test.do)) {
			t.Errorf("%s: %q, %v (hint: %s); want %q, %q", test.name, warning, err, hint.Of(err), test.warning, test.err)
		}
		if test.c.calls != 1 {
			t.Errorf("%s: %d requests, want one", test.name, test.c.calls)
		}
	}
}

func TestAReceiverThatIsNotThereOrDoesNotAnswerIsAnError(t *testing.T) {
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer silent.Close()
	defer close(done)
	closed := httptest.NewServer(nil)
	closed.Close()
	for url, want := range map[string]string{silent.URL: "no answer within 20ms", closed.URL: "refused"} {
		r, err := ReceiverOf(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/?key=SECRET", "OTEL_EXPORTER_OTLP_TIMEOUT", "20"))
		if err != nil {
			t.Fatal(err)
		}
		trace, _ := Trace(sampleRun(), env())
		if _, err := r.Send(t.Context(), trace, ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), url) || strings.Contains(err.Error(), "SECRET") || hint.Of(err) == "" {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTheEnvironmentNamesTheReceiver(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for _, test := range []struct {
		values []string
		want   string
	}{
		{nil, "http://localhost:4318/v1/traces"},
		{[]string{all + "ENDPOINT", "https://a:secret@collector"}, "https://a:xxxxx@collector/v1/traces"},
		{[]string{all + "ENDPOINT", "http://collector/x", traces + "ENDPOINT", "http://other/y"}, "http://other/y"},
		{[]string{all + "PROTOCOL", "grpc", traces + "PROTOCOL", "http/protobuf"}, "http://localhost:4318/v1/traces"},
	} {
		if r, err := ReceiverOf(env(test.values...)); err != nil || r.String() != test.want {
			t.Errorf("%q: %v, %v; want %s", test.values, r, err, test.want)
		}
	}
	for name, bad := range map[string]string{
		all + "ENDPOINT": "collector:4317", traces + "ENDPOINT": "http://", all + "PROTOCOL": "grpc", traces + "TIMEOUT": "10s", all + "TIMEOUT": "0", all + "HEADERS": "secret",
	} {
		if _, err := ReceiverOf(env(name, bad)); err == nil || !strings.Contains(err.Error(), name) || hint.Of(err) == "" {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
}
