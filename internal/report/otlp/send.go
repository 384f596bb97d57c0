package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lapse/internal/hint"
	"lapse/internal/report/document"
)

const (
	maxAnswer = 1 << 20 // how many bytes of a receiver's answer are read
	maxSaid   = 300     // and how many of them an error has
)

// A Receiver takes traces over HTTP.
type Receiver struct {
	url     *url.URL
	headers map[string]string
	timeout time.Duration
}

// String returns the receiver's URL, without a password and without a query, which may have a key.
func (r Receiver) String() string {
	shown := *r.url
	if shown.RawQuery != "" {
		shown.RawQuery = "..."
	}
	return shown.Redacted()
}

// ReceiverOf returns the receiver that the environment names. Variables for traces alone go before those for all
// signals. Errors have a hint.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
func ReceiverOf(env Env) (r Receiver, err error) {
	of := func(what string) (name, value string) {
		name = "OTEL_EXPORTER_OTLP_TRACES_" + what
		if env(name) == "" {
			name = "OTEL_EXPORTER_OTLP_" + what
		}
		return name, env(name)
	}
	if name, protocol := of("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return r, hint.Errorf("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and in "+
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT a URL such as http://collector:4318/v1/traces",
			"%s is %q: Lapse sends http/protobuf alone", name, protocol)
	}
	name, endpoint := of("ENDPOINT")
	if r.url, err = url.Parse(cmp.Or(endpoint, "http://localhost:4318")); err != nil ||
		r.url.Scheme != "http" && r.url.Scheme != "https" || r.url.Host == "" {
		return r, hint.Errorf("as in http://collector:4318", "%s is not the URL of a receiver of OTLP over HTTP", name)
	}
	if !strings.Contains(name, "TRACES") {
		r.url = r.url.JoinPath("v1", "traces")
	}
	r.timeout = 10 * time.Second
	if name, text := of("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return r, hint.Errorf("as in 10000, for 10 s", "%s is %q: it is a number of milliseconds", name, text)
		}
		r.timeout = time.Duration(ms) * time.Millisecond
	}
	name, _ = of("HEADERS") // one or the other: what is for all signals may be another receiver's login
	r.headers, err = listOf(env, name)
	return r, err
}

// Send sends a trace, once: no failure is retried. An error has what the receiver said; warning is what it said though
// it took all spans.
func (r Receiver) Send(ctx context.Context, trace *tracepb.TracesData, agent string) (warning string, err error) {
	request := &collectorpb.ExportTraceServiceRequest{ResourceSpans: trace.ResourceSpans}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("encode trace: %w", err)
	}
	answer, err := r.post(ctx, body, agent)
	if err != nil {
		return "", fmt.Errorf("send the trace: %w", err)
	}
	partial := answer.GetPartialSuccess()
	warning = short(partial.GetErrorMessage())
	if n := partial.GetRejectedSpans(); n > 0 {
		return "", fmt.Errorf("send the trace: %s rejected %d of %d spans: %s",
			r, n, len(spansOf(trace)), cmp.Or(warning, "it does not say why"))
	}
	return warning, nil
}

// post sends a request, and returns the answer of a receiver that took it, or part of it.
func (r Receiver) post(
	ctx context.Context, body []byte, agent string,
) (*collectorpb.ExportTraceServiceResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", protobuf)
	request.Header.Set("User-Agent", agent)
	request.Close = true
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok { // it has the whole URL
		return nil, hint.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT names the receiver, as in http://collector:4318",
			"%s: %w", r, failed.Err)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", r, err)
	}
	return r.read(response, text)
}

const protobuf = "application/x-protobuf"

// read reads an answer.
func (r Receiver) read(response *http.Response, text []byte) (*collectorpb.ExportTraceServiceResponse, error) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode/100 != 2 {
		return nil, r.refused(response, kind, text)
	}
	answer := new(collectorpb.ExportTraceServiceResponse)
	if len(text) > 0 && kind != protobuf || proto.Unmarshal(text, answer) != nil {
		return nil, hint.Errorf(advice[http.StatusNotFound],
			"%s answered %s, but not as OTLP: %q", r, response.Status, kind)
	}
	return answer, nil
}

// refused returns what a receiver said that took nothing.
func (r Receiver) refused(response *http.Response, kind string, text []byte) error {
	said := string(text)
	if kind == protobuf {
		// a google.rpc.Status, which has the same first two fields: a number and a text
		status := new(collectorpb.ExportTracePartialSuccess)
		_ = proto.Unmarshal(text, status) // what is no Status says nothing
		said = status.GetErrorMessage()
	}
	if said = short(said); said != "" {
		said = ": " + said
	}
	err := fmt.Errorf("%s answered %s%s", r, response.Status, said)
	if after := response.Header.Get("Retry-After"); after != "" {
		return hint.Errorf(sendAgain, "%w (Retry-After: %s)", err, document.Clean(after))
	}
	return hint.Add(advice[response.StatusCode], err)
}

// short returns the beginning of what a receiver said.
func short(said string) string {
	if said = strings.TrimSpace(said); len(said) > maxSaid {
		said = said[:maxSaid] + "…"
	}
	return document.Clean(said)
}

const sendAgain = "nothing was retried; send it again later: it is the same trace then"

// advice is what to do about a status.
var advice = map[int]string{
	http.StatusUnauthorized: "OTEL_EXPORTER_OTLP_HEADERS has what the receiver wants to see, as in api-key=SECRET",
	http.StatusForbidden:    "OTEL_EXPORTER_OTLP_HEADERS has what the receiver wants to see, as in api-key=SECRET",
	http.StatusNotFound: "to OTEL_EXPORTER_OTLP_ENDPOINT, /v1/traces is added; " +
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is the whole URL",
	http.StatusTooManyRequests:    sendAgain,
	http.StatusBadGateway:         sendAgain,
	http.StatusServiceUnavailable: sendAgain,
	http.StatusGatewayTimeout:     sendAgain,
}
