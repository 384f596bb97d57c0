// Package perfetto writes a judged run as a trace for Perfetto and chrome://tracing: JSON in the Trace Event Format.
// Sources are processes. Targets with their windows, Pods and other objects are tracks, and arrows lead from what set
// an incident off to its windows.
//
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
package perfetto

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// clock says what times count from, in the trace's metadata.
const clock = "ts and dur are microseconds, args nanoseconds, both on the run's monotonic clock; " +
	"its zero is t0, by the wall clock"

// Write writes the run as a trace, an event to a line, by time. A slice reaches from when its window, incident or
// trigger began at the earliest to when it ended at the latest, an instant lies where its event happened at the
// latest; args hold both bounds, as timeline.json does.
func Write(w io.Writer, tl *model.Timeline) error {
	out := bufio.NewWriter(w)
	about := map[string]string{
		"clock": clock, "t0": tl.T0.UTC().Format(time.RFC3339Nano), "run": tl.Run.ID, "lapse": tl.Tool.Version,
		"verdict": tl.Said.Word, "headline": tl.Said.Headline,
	}
	_, _ = out.WriteString("{\"displayTimeUnit\":\"ms\",\n\"otherData\":") // Flush returns its error
	if err := writeJSON(out, about); err != nil {
		return err
	}
	_, _ = out.WriteString(",\n\"traceEvents\":[")
	before := "\n"
	for _, e := range eventsOf(tl) {
		_, _ = out.WriteString(before)
		if err := writeJSON(out, e); err != nil {
			return err
		}
		before = ",\n"
	}
	_, _ = out.WriteString("\n]}\n")
	return out.Flush()
}

func writeJSON(out *bufio.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode trace: %w", err)
	}
	_, _ = out.Write(document.CleanJSON(bytes.TrimSpace(text.Bytes()))) // Flush returns its error
	return nil
}

// eventsOf returns the trace's events in the order of [event.order].
func eventsOf(tl *model.Timeline) []event {
	t := &trace{tl: tl, tracks: map[string]*track{}}
	t.run = t.process("run " + tl.Run.ID)
	t.measured()
	t.changes()
	t.incidents()
	slices.SortStableFunc(t.events, event.order)
	return t.events
}

// A trace is being made of a run.
type trace struct {
	tl      *model.Timeline
	events  []event
	numbers int // of processes, rows and arrows: each has its own, for some readers take a thread's as its process's

	run, cluster *process
	sources      map[string]*process
	tracks       map[string]*track // of objects, by what they are
}

func (t *trace) number() int {
	t.numbers++
	return t.numbers
}

// measured adds a process for each source, a track for each target with its windows, and how many requests were sent
// and failed.
func (t *trace) measured() {
	t.sources = map[string]*process{}
	for _, s := range t.tl.Sources {
		t.sources[s.Name] = t.process(sourceName(s))
	}
	for _, target := range t.tl.Targets {
		t.counts(t.target(target.Name, t.source(target.Source)), target.Name)
	}
	for _, u := range t.tl.Unobserved {
		k := t.target(u.Target, t.run).beside("unobserved")
		k.slice(event{Name: u.Reason, Category: "unobserved", Args: u}, u.Start, u.End)
	}
}

func sourceName(s model.Source) string {
	if s.Node == "" {
		return fmt.Sprintf("%s (%s)", s.Name, s.Role)
	}
	return fmt.Sprintf("%s (%s on %s)", s.Name, s.Role, s.Node)
}

// source returns the process of a source; that of the run if the recording names none.
func (t *trace) source(name string) *process {
	if name == "" && len(t.tl.Sources) == 1 {
		name = t.tl.Sources[0].Name
	}
	if name == "" {
		return t.run
	}
	if t.sources[name] == nil {
		t.sources[name] = t.process(name)
	}
	return t.sources[name]
}

// target returns the track of a target, which stands with its source.
func (t *trace) target(name string, source *process) *track {
	return t.track("target "+name, source, name)
}

// counts adds how many requests of a target were sent and failed, where that changed. Where none was sent, nothing
// was measured.
func (t *trace) counts(k *track, target string) {
	series, ok := t.tl.Buckets.Of(target)
	if !ok {
		return
	}
	type counts struct {
		Failed int `json:"failed"`
		Sent   int `json:"sent"`
	}
	last, slot := counts{-1, -1}, 0
	add := func(c counts) {
		if c != last {
			at := micros(time.Duration(series.Start+slot) * t.tl.Buckets.Width)
			t.add(event{
				Name: fmt.Sprintf("%s, requests in %v", target, t.tl.Buckets.Width),
				Kind: counter, At: at, Process: k.process.number, Thread: k.row(0).number, Args: c,
			})
		}
		last = c
	}
	for slot = range series.Sent {
		add(counts{Failed: series.Failed[slot], Sent: series.Sent[slot]})
	}
	if slot = len(series.Sent); slot > 0 {
		add(counts{})
	}
}

// changes adds what changed: the run's phases, its command, and each Pod, node and other object.
func (t *trace) changes() {
	if c := t.tl.Run.Command; c != nil && c.Start != nil {
		end := t.tl.Run.Duration
		if c.End != nil {
			end = *c.End
		}
		t.track("command", t.run, "command").slice(event{Name: strings.Join(c.Args, " "), Args: c}, *c.Start, end)
	}
	for _, p := range t.tl.Pods {
		t.pod(p)
	}
	var phase *model.Event
	for i := range t.tl.Events {
		e := &t.tl.Events[i]
		if e.Kind != timeline.RunPhase {
			t.change(*e)
			continue
		}
		t.phase(phase, e.At.Latest)
		phase = e
	}
	t.phase(phase, t.tl.Run.Duration)
}

// phase adds the phase that began with an event, if there is one and it did not end with the run.
func (t *trace) phase(began *model.Event, end time.Duration) {
	if began != nil && !began.Enters(timeline.PhaseEnded) {
		t.track("phases", t.run, "phases").slice(event{Name: began.To, Args: began}, began.At.Latest, end)
	}
}

// pod adds the stretches of a Pod's life.
func (t *trace) pod(p model.Pod) {
	k := t.object(timeline.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID})
	states := p.States
	p.States = nil
	for i, s := range states {
		end := t.tl.Run.Duration
		if i+1 < len(states) {
			end = states[i+1].Start
		}
		if s.State != "gone" && end > s.Start {
			k.slice(event{Name: s.State, Category: "pod", Args: p}, s.Start, end)
		}
	}
	if p.Stopped != nil {
		k.instant(event{Name: "stopped answering", Category: "pod", Args: p.Stopped}, p.Stopped.Latest)
	}
}

// change adds an event as an instant, on the track of its object, or on that of its source's events.
func (t *trace) change(e model.Event) {
	var k *track
	switch {
	case e.Kind == timeline.Command || e.Kind == timeline.CommandOutput:
		k = t.track("command", t.run, "command")
	case e.Object.Kind != "" && e.Object.Name != "":
		k = t.object(e.Object)
	default:
		k = t.track("events of "+e.Source, t.source(e.Source), "events")
	}
	name := string(e.Kind)
	switch {
	case e.Kind == timeline.CommandOutput:
		name = e.Detail
	case e.From != "":
		name += ": " + e.From + " → " + e.To
	case e.To != "":
		name += ": " + e.To
	}
	e.Snapshot, e.Preflight, e.Lookup = nil, nil, nil // they are large, and no instant needs them
	k.instant(event{Name: name, Category: string(e.Kind), Args: e}, e.At.Latest)
}

// object returns the track of an object of the cluster.
func (t *trace) object(o timeline.Object) *track {
	if t.cluster == nil {
		t.cluster = t.process("cluster")
	}
	name := o.Kind + " " + o.Name
	if o.Namespace != "" {
		name = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	if o.Kind == "Pod" { // the next one may have its name
		return t.track(name+" "+o.UID, t.cluster, name)
	}
	return t.track(name, t.cluster, name)
}

// track returns the track with a key, and makes it if there is none.
func (t *trace) track(key string, of *process, name string) *track {
	k, ok := t.tracks[key]
	if !ok {
		k = of.track(name)
		t.tracks[key] = k
	}
	return k
}

// incidents adds incidents, their triggers and windows, and an arrow from each trigger to each window.
func (t *trace) incidents() {
	windows := map[int]placed{}
	for i := range t.tl.Windows {
		w := &t.tl.Windows[i]
		windows[w.ID] = t.window(w, w)
	}
	for _, w := range t.tl.HeldWindows() {
		windows[w.ID] = t.window(&w.Window, w)
	}
	for i := range t.tl.Incidents {
		in := &t.tl.Incidents[i]
		name := fmt.Sprintf("incident %d", in.ID)
		if len(in.Causes) > 0 {
			name += ": " + in.Causes[0].Rule
		}
		k := t.track("incidents", t.run, "incidents")
		k.slice(event{Name: name, Category: "incident", Args: in}, in.Start.Earliest, in.End.Latest)
		for _, trigger := range in.Triggers {
			since := trigger.At.Latest
			if trigger.At.Bounded() {
				since = trigger.At.Earliest
			}
			e := event{Name: trigger.Text, Category: "trigger", Args: trigger}
			from := t.track("triggers", t.run, "what set incidents off").slice(e, since, trigger.At.Latest)
			for _, id := range in.Windows {
				t.arrow(from, windows[id])
			}
		}
	}
}

// window adds a window to its target's track. args is the window with all that its kind has.
func (t *trace) window(w *model.Window, args any) placed {
	name := string(w.Kind)
	if len(w.Causes) > 0 {
		name += ": " + w.Causes[0].Rule
	}
	e := event{Name: name, Category: "window", Args: args}
	return t.target(w.Target, t.run).slice(e, w.Start.Earliest, w.End.Latest)
}

// arrow leads from a slice to another one, unless that was over before the first began.
func (t *trace) arrow(from, to placed) {
	if to.Thread == 0 || to.end < from.At {
		return
	}
	e := event{Name: "set off", Category: "trigger", Number: t.number()}
	e.Kind, e.At, e.Process, e.Thread = arrowFrom, from.At, from.Process, from.Thread
	t.add(e)
	e.Kind, e.At, e.Process, e.Thread, e.Bind = arrowTo, max(from.At, to.At), to.Process, to.Thread, "e"
	t.add(e)
}

func (t *trace) add(e event) { t.events = append(t.events, e) }

// order orders events by time, and those of the same time by kind: names first, and a slice before the arrow that
// begins or ends there.
func (e event) order(o event) int {
	return cmp.Or(
		cmp.Compare(e.At, o.At),
		cmp.Compare(strings.Index(phases, e.Kind), strings.Index(phases, o.Kind)),
	)
}
