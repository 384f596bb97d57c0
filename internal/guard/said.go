package guard

import (
	"context"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/incidents"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/guard/configmap"
	"lapse/internal/guard/events"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/timeline"
)

const (
	// sayFor is how long one attempt to write the Events about a run may take.
	sayFor = 5 * time.Second
	// sayAgain is how long after it the next attempt begins.
	sayAgain = 5 * time.Second
	// mostUnsaid is how long a guard keeps trying, while no guard leads or the API server does not answer.
	mostUnsaid = 15 * time.Minute
)

// conclude tells and keeps what a judged run has shown, if this guard speaks.
func (g *guard) conclude(tl *model.Timeline, line history.Line) {
	until := g.now().Add(mostUnsaid)
	speaks, r := g.speaks(until), about(tl)
	if g.past != nil && (speaks || g.ends() && r.Verdict == gate.Fail) { // the other guard may end before it knows
		g.past.Add(configmap.Run{Line: line, Gate: r})
	}
	if speaks {
		g.say(tl, until)
	}
}

// say writes Events about a judged run, while this guard speaks. That this fails is logged once, until it succeeds.
func (g *guard) say(tl *model.Timeline, until time.Time) {
	all, run := eventsOf(tl), about(tl)
	for i := range all {
		all[i].Began, all[i].Ended, all[i].By = run.Began, run.Changed, g.Home
	}
	for g.speaks(until) {
		ctx, cancel := context.WithTimeout(context.Background(), sayFor) // the end of a guard ends runs, too
		others, err := g.write(ctx, g.now(), all...)
		cancel()
		if before := g.note(&g.unsaid, err); err != nil && before == "" {
			g.Log.Warn("Events cannot be written; this is logged again once one was", "error", err)
		}
		g.noteShared(serviceOf(tl), others, err)
		if err == nil || events.Refused(err) || g.ends() || g.now().After(until) {
			return
		}
		select {
		case <-time.After(sayAgain):
		case <-g.over:
		}
	}
}

// note keeps an error for the status, "" for nil, and returns what was kept before.
func (g *guard) note(problem *string, err error) (before string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = *problem
	if *problem = ""; err != nil {
		*problem = err.Error()
	}
	return before
}

// noteShared keeps which other guards measure a Service, for the status. That it begins is logged.
func (g *guard) noteShared(service string, others []string, err error) {
	g.mu.Lock()
	before := g.shared[service]
	if len(others) > 0 {
		g.shared[service] = others
	} else if err == nil {
		delete(g.shared, service)
	}
	g.mu.Unlock()
	if len(others) > 0 && !slices.Equal(before, others) {
		g.Log.Warn("another guard measures this Service, too", "service", service, "namespace", others)
	}
}

// eventsOf returns what Events say of a judged run, on its Service and on the workloads behind it.
func eventsOf(tl *model.Timeline) []events.Event {
	namespace, name, _ := strings.Cut(serviceOf(tl), "/")
	service := timeline.Object{Kind: "Service", Namespace: namespace, Name: name}
	triggers := triggersOf(tl, namespace)
	e := events.Event{On: service, Text: sentenceOf(tl, triggers), Run: tl.Run.ID}
	e.Reason, e.Warning = findingOf(tl)
	for _, t := range triggers {
		if e.Related.IsZero() && t.Object.Name != "" && t.Object.Kind != "Service" {
			e.Related = t.Object
		}
	}
	all := []events.Event{e}
	e.Related, e.Text = service, "Service "+name+": "+e.Text
	for _, workload := range workloadsOf(tl) {
		e.On = workload
		all = append(all, e)
	}
	return all
}

// findingOf returns the reason of an Event, and whether it is a warning. Requests that a gate tolerates are none.
func findingOf(tl *model.Timeline) (reason string, warning bool) {
	switch state := stateOf(tl); {
	case tl.Verdict.Failed > 0:
		return "RequestsDropped", state != gate.Pass
	case state == gate.Pass:
		return "NoRequestDropped", false
	case state == gate.Fail:
		return "GateFailed", true
	}
	return events.NotMeasured, true
}

// sentenceOf returns what set the run off, the gate's reason and what to do: "drain of node1: 129 of 9996 failed; down
// 440 ms ±150; route-outlives-pod; keep serving ≥ 1.9 s after SIGTERM".
func sentenceOf(tl *model.Timeline, triggers []model.Trigger) string {
	text := reasonOf(tl)
	if fix := fixOf(tl); fix != "" {
		text += "; " + fix
	}
	var by []string
	for _, t := range triggers {
		by = append(by, incidents.Text(t))
	}
	if len(by) > 0 {
		text = quantity.Names(by) + ": " + text
	}
	return text
}

// triggersOf returns what ended Pods of the run's Service, and the changes of the Service.
func triggersOf(tl *model.Timeline, namespace string) (triggers []model.Trigger) {
	for _, t := range history.Of(tl, "")[0].Triggers {
		kind, name, _ := strings.Cut(t.Object, "/")
		of := timeline.Object{Kind: kind, Namespace: namespace, Name: name}
		if kind == "Node" {
			of.Namespace = ""
		}
		triggers = append(triggers, model.Trigger{Kind: t.Kind, Object: of})
	}
	return triggers
}

// fixOf returns what the incident that lost most by the run's cause says against that cause, or "".
func fixOf(tl *model.Timeline) (fix string) {
	rule, most := causeOf(tl), 0
	for _, in := range tl.Incidents {
		for _, c := range in.Causes {
			if c.Rule == rule && c.Failed > most {
				fix, most = c.Fix, c.Failed
			}
		}
	}
	return fix
}

// workloadsOf returns the Deployments, StatefulSets and DaemonSets of the run's Pods.
func workloadsOf(tl *model.Timeline) (workloads []timeline.Object) {
	states := cluster.ReadWorkloads(tl.Events)
	for i := range tl.Pods {
		kind, name, _ := strings.Cut(states.Top(&tl.Pods[i]), "/")
		of := timeline.Object{Kind: kind, Namespace: tl.Pods[i].Namespace, Name: name}
		if slices.Contains(kinds, kind) && !slices.Contains(workloads, of) {
			workloads = append(workloads, of)
		}
	}
	return workloads
}

// kinds are those of the workloads on which Events are written.
var kinds = []string{"Deployment", "StatefulSet", "DaemonSet"}
