// Package otlp makes an OpenTelemetry trace of a judged run, and sends it over OTLP/HTTP: the run is a span, in it are
// its command and its incidents, and in each incident its windows. It uses the protocol's messages and no SDK.
//
// https://opentelemetry.io/docs/specs/otlp/
package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"lapse/correlate/model"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
)

// An Env returns the value of an environment variable, "" if it is not set.
type Env func(name string) string

// Trace returns the run as a trace. $TRACEPARENT is the run's parent; without it the trace has an ID made of the run's,
// so that a run which is exported again is the same trace. A span reaches from when it began at the earliest to when it
// ended at the latest.
func Trace(tl *model.Timeline, env Env) (*tracepb.TracesData, error) {
	parent, err := parentOf(env)
	if err != nil {
		return nil, err
	}
	resource, err := resourceOf(tl, env)
	if err != nil {
		return nil, err
	}
	m := maker{tl: tl, key: tl.Run.ID + " " + tl.T0.UTC().Format(time.RFC3339Nano)}
	m.trace, m.flags = parent.trace, parent.flags
	if m.trace == nil {
		m.trace, m.flags = m.hash("trace", 16), sampled
	}
	m.run(parent.span)
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: resource,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "lapse", Version: document.Clean(tl.Tool.Version)},
			Spans: m.spans,
		}},
	}}}, nil
}

// A maker makes the spans of a run, each after its parent.
type maker struct {
	tl    *model.Timeline
	key   string // names the run
	trace []byte
	flags uint32 // of the trace, as W3C Trace Context has them
	spans []*tracepb.Span
}

// hash returns an ID of so many bytes for a part of the run. It is the same each time.
func (m *maker) hash(part string, size int) []byte {
	sum := sha256.Sum256([]byte(m.key + " " + part))
	return sum[:size]
}

// instant returns an instant of the run as the protocol has it.
func (m *maker) instant(d time.Duration) uint64 { return uint64(max(0, m.tl.T0.Add(d).UnixNano())) }

// span adds a span for a part of the run.
func (m *maker) span(part string, parent []byte, name string, start, end time.Duration) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: m.trace, SpanId: m.hash(part, 8), ParentSpanId: parent,
		Flags: m.flags | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
		Name:  name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: m.instant(start), EndTimeUnixNano: m.instant(max(start, end)),
	}
	m.spans = append(m.spans, s)
	return s
}

// run adds the spans of the run. parent is the span that it is part of, nil if there is none.
func (m *maker) run(parent []byte) {
	tl := m.tl
	root := m.span("run", parent, "lapse run", 0, tl.Run.Duration)
	if parent != nil {
		root.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	root.Attributes = runAttributes(tl)
	if tl.Verdict.Result == model.Fail {
		fail(root, tl.Said.Headline)
	}
	m.command(root)
	windows := map[int]*model.Window{}
	for i := range tl.Windows {
		windows[tl.Windows[i].ID] = &tl.Windows[i]
	}
	for _, w := range tl.HeldWindows() {
		windows[w.ID] = &w.Window
	}
	for i := range tl.Incidents {
		m.incident(root, &tl.Incidents[i], windows)
	}
}

// command adds the span of the wrapped command, if it ran.
func (m *maker) command(root *tracepb.Span) {
	c := m.tl.Run.Command
	if c == nil || c.Start == nil {
		return
	}
	end := m.tl.Run.Duration
	if c.End != nil {
		end = *c.End
	}
	s := m.span("command", root.SpanId, "command", *c.Start, end)
	var a attributes
	a.texts("process.command_args", c.Args)
	if c.ExitCode != nil {
		a.number("process.exit.code", int64(*c.ExitCode))
		if *c.ExitCode != 0 {
			said := append([]string{fmt.Sprintf("exit code %d", *c.ExitCode)}, wording.LastWords(m.tl)...)
			fail(s, strings.Join(said, "; "))
		}
	}
	s.Attributes = a
}

// incident adds the spans of an incident and of its windows.
func (m *maker) incident(root *tracepb.Span, in *model.Incident, windows map[int]*model.Window) {
	name := "incident"
	if len(in.Causes) > 0 {
		name += " " + in.Causes[0].Rule
	}
	s := m.span(fmt.Sprint("incident ", in.ID), root.SpanId, name, in.Start.Earliest, in.End.Latest)
	s.Attributes = incidentAttributes(in)
	for _, t := range in.Triggers {
		s.Events = append(s.Events, &tracepb.Span_Event{
			Name: "trigger", TimeUnixNano: m.instant(t.At.Latest), Attributes: triggerAttributes(t),
		})
	}
	for i, c := range in.Causes {
		m.cause(s, i, c.Cause, in.Start)
	}
	if in.Failed > 0 || in.Cut > 0 {
		fail(s, in.Said.Headline)
	}
	for _, id := range in.Windows {
		if w := windows[id]; w != nil {
			m.window(s, w)
		}
	}
}

// window adds the span of a window.
func (m *maker) window(incident *tracepb.Span, w *model.Window) {
	name := "window " + string(w.Kind)
	s := m.span(fmt.Sprint("window ", w.ID), incident.SpanId, name, w.Start.Earliest, w.End.Latest)
	s.Attributes = windowAttributes(m.tl, w)
	for i, c := range w.Causes {
		m.cause(s, i, c, w.Start)
	}
	if w.Failed > 0 {
		fail(s, w.Said.Lasted)
	}
}

// cause adds a cause to a span: the most likely one to its attributes, another one as an event of its start.
func (m *maker) cause(s *tracepb.Span, rank int, c model.Cause, start model.Instant) {
	if rank == 0 {
		s.Attributes = append(s.Attributes, causeAttributes(c)...)
		return
	}
	s.Events = append(s.Events, &tracepb.Span_Event{
		Name: "cause", TimeUnixNano: m.instant(start.Latest), Attributes: causeAttributes(c),
	})
}

// fail says that what the span stands for failed, and how.
func fail(s *tracepb.Span, how string) {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: document.Clean(how)}
}

// TraceID returns the ID of a trace, as tools show it.
func TraceID(trace *tracepb.TracesData) string { return hex.EncodeToString(spansOf(trace)[0].TraceId) }

func spansOf(trace *tracepb.TracesData) []*tracepb.Span {
	return trace.ResourceSpans[0].ScopeSpans[0].Spans
}
