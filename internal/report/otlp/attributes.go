package otlp

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// attributes are those of a span or an event. Names are OpenTelemetry's where it has one, else lapse.*; lengths are
// nanoseconds. What is not known is left out.
// https://opentelemetry.io/docs/specs/semconv/
type attributes []*commonpb.KeyValue

func (a *attributes) add(key string, value *commonpb.AnyValue) {
	*a = append(*a, &commonpb.KeyValue{Key: document.Clean(key), Value: value})
}

func textValue(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: document.Clean(s)}}
}

// text adds a text, unless it is empty.
func (a *attributes) text(key, value string) {
	if value != "" {
		a.add(key, textValue(value))
	}
}

// texts adds a list of texts, unless it is empty.
func (a *attributes) texts(key string, list []string) {
	var values []*commonpb.AnyValue
	for _, s := range list {
		values = append(values, textValue(s))
	}
	if values != nil {
		array := &commonpb.ArrayValue{Values: values}
		a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: array}})
	}
}

func (a *attributes) number(key string, n int64) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}})
}

// some adds a number, unless it is 0.
func (a *attributes) some(key string, n int) {
	if n != 0 {
		a.number(key, int64(n))
	}
}

func (a *attributes) share(key string, f float64) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}})
}

// yes adds true, unless it is not.
func (a *attributes) yes(key string, is bool) {
	if is {
		a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}})
	}
}

// downtime adds a downtime's bounds. One that is open may be longer than what was observed: it has no upper one.
func (a *attributes) downtime(l model.Length, open bool) {
	a.number("lapse.downtime.min", int64(l.Min))
	if !open {
		a.number("lapse.downtime.max", int64(l.Max))
	}
}

// bracket adds how long an instant may have been after its earliest, unless that is not bounded.
func (a *attributes) bracket(key string, i model.Instant) {
	if i.Bounded() {
		a.number(key, int64(i.Latest-i.Earliest))
	}
}

// service adds a Service: NAMESPACE/NAME, or "".
func (a *attributes) service(service string) {
	if namespace, name, ok := strings.Cut(service, "/"); ok {
		a.text("k8s.namespace.name", namespace)
		a.text("k8s.service.name", name)
	}
}

// kinds are the kinds of objects that OpenTelemetry has names for.
var kinds = []string{
	"Pod", "Node", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Service",
}

// object adds an object of the cluster.
func (a *attributes) object(o timeline.Object) {
	if !slices.Contains(kinds, o.Kind) {
		a.text("lapse.object", strings.TrimSpace(o.Kind+" "+o.Name))
		return
	}
	a.text("k8s.namespace.name", o.Namespace)
	key := "k8s." + strings.ToLower(o.Kind)
	a.text(key+".name", o.Name)
	a.text(key+".uid", o.UID)
	if o.Kind == "Pod" {
		a.text("k8s.node.name", o.Node)
	}
}

func runAttributes(tl *model.Timeline) (a attributes) {
	v := tl.Verdict
	a.text("lapse.run.id", tl.Run.ID)
	a.text("lapse.verdict", string(v.Result))
	a.number("lapse.exit_code", int64(v.ExitCode))
	a.text("lapse.headline", tl.Said.Headline)
	a.text("lapse.aborted", tl.Run.Aborted)
	a.number("lapse.requests.sent", int64(v.Sent))
	a.number("lapse.requests.failed", int64(v.Failed))
	if v.Sent > 0 {
		a.downtime(v.Downtime.Total, v.Downtime.Open)
	}
	a.number("lapse.detection_limit", int64(v.DetectionLimit))
	a.share("lapse.coverage", v.Coverage)
	var services []string
	for _, s := range tl.Run.Services {
		services = append(services, s.Namespace+"/"+s.Name)
	}
	if len(services) == 1 {
		a.service(services[0])
	} else {
		a.texts("lapse.services", services)
	}
	a.texts("lapse.urls", tl.Run.URLs)
	return a
}

func incidentAttributes(in *model.Incident) (a attributes) {
	a.number("lapse.incident", int64(in.ID))
	a.text("lapse.headline", in.Said.Headline)
	a.bracket("lapse.start.bracket", in.Start)
	a.bracket("lapse.end.bracket", in.End)
	if in.Sent > 0 {
		a.number("lapse.requests.sent", int64(in.Sent))
		a.number("lapse.requests.failed", int64(in.Failed))
		a.some("lapse.requests.slow", in.Slow)
		a.downtime(in.Downtime, in.Open)
	}
	a.some("lapse.connections.cut", in.Cut)
	a.yes("lapse.open", in.Open)
	a.classes(in.Classes)
	return a
}

func windowAttributes(tl *model.Timeline, w *model.Window) (a attributes) {
	a.number("lapse.window", int64(w.ID))
	a.text("lapse.target.name", w.Target)
	i := slices.IndexFunc(tl.Targets, func(t model.Target) bool { return t.Name == w.Target })
	if i >= 0 {
		t := tl.Targets[i]
		a.text("lapse.target.kind", string(t.Kind))
		a.text("url.full", t.URL)
		a.service(t.Service)
		a.text("lapse.source.name", t.Source)
		a.text("lapse.source.node", t.Node)
	}
	a.bracket("lapse.start.bracket", w.Start)
	a.bracket("lapse.end.bracket", w.End)
	a.text("lapse.basis", string(w.Basis))
	a.yes("lapse.open.start", w.Open.Start)
	a.yes("lapse.open.end", w.Open.End)
	if w.Kind == model.CutKind {
		a.number("lapse.connections.held", int64(w.Sent))
		a.number("lapse.connections.cut", int64(w.Failed))
	} else {
		a.number("lapse.requests.sent", int64(w.Sent))
		a.number("lapse.requests.failed", int64(w.Failed))
		a.some("lapse.requests.slow", w.Slow)
		a.downtime(w.Downtime, w.IsOpen())
	}
	a.classes(w.Classes)
	return a
}

// classes adds how many requests failed in each class, and the commonest one.
func (a *attributes) classes(count map[string]int) {
	classes := slices.Sorted(maps.Keys(count))
	if len(classes) == 0 {
		return
	}
	a.text("error.type", slices.MaxFunc(classes, func(x, y string) int { return cmp.Compare(count[x], count[y]) }))
	for _, class := range classes {
		a.number("lapse.failed."+class, int64(count[class]))
	}
}

func triggerAttributes(t model.Trigger) (a attributes) {
	a.text("lapse.trigger.kind", string(t.Kind))
	a.text("lapse.trigger.text", t.Text)
	a.text("lapse.trigger.actor", t.Actor)
	a.bracket("lapse.trigger.bracket", t.At)
	a.texts("lapse.trigger.pods", t.Pods)
	a.object(t.Object)
	return a
}

func causeAttributes(c model.Cause) (a attributes) {
	a.text("lapse.cause.rule", c.Rule)
	a.text("lapse.cause.confidence", string(c.Confidence))
	a.text("lapse.cause.text", c.Text)
	a.text("lapse.cause.fix", c.Fix)
	return a
}
