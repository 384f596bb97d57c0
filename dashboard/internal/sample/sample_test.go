package sample

import (
	"slices"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// The page is shown everything that a run can hold only if the sample holds it.
func TestTheSampleHoldsWhatThePageShows(t *testing.T) {
	run := Run(Length)
	rules := map[string]bool{}
	kinds := map[model.WindowKind]bool{}
	for _, w := range run.Windows {
		kinds[w.Kind] = true
		for _, c := range w.Causes {
			rules[c.Rule] = true
		}
	}
	for _, kind := range []model.WindowKind{model.Outage, model.Partial, model.Slow} {
		if !kinds[kind] {
			t.Errorf("no window is %s", kind)
		}
	}
	for _, rule := range []string{"route-outlives-pod", "no-ready-endpoint", "unexplained"} {
		if !rules[rule] {
			t.Errorf("no window was caused by %s", rule)
		}
	}
	for _, drained := range []string{"node-b", "node-c"} {
		if !slices.ContainsFunc(run.Incidents, func(i model.Incident) bool {
			return slices.ContainsFunc(i.Triggers, func(t model.Trigger) bool { return t.Kind == model.NodeDrained && t.Object.Name == drained })
		}) {
			t.Errorf("no incident was set off by the drain of %s", drained)
		}
	}
	for _, kind := range []timeline.EventKind{timeline.PodContainer, timeline.EndpointChanged, timeline.NodeSchedulable, timeline.KubeEvent, timeline.Command, timeline.CommandOutput, timeline.ProberStall, timeline.WatchGap} {
		if !slices.ContainsFunc(run.Events, func(e model.Event) bool { return e.Kind == kind }) {
			t.Errorf("no event of the kind %s", kind)
		}
	}
	outcomes := map[model.GateOutcome]bool{}
	for _, g := range run.Verdict.Gates {
		outcomes[g.Outcome] = true
	}
	if !outcomes[model.GatePass] || !outcomes[model.GateFail] || len(run.Unobserved) == 0 || len(run.Pods) != 4 {
		t.Errorf("gates %v, unobserved %v, %d Pods", run.Verdict.Gates, run.Unobserved, len(run.Pods))
	}
}

func TestTheLargeSampleIsLarge(t *testing.T) {
	script := large()
	if events := len(script.facts()); events < LargeEvents || len(script.pods) != LargePods || len(script.probes) != 10 {
		t.Errorf("%d events, %d Pods, %d targets", events, len(script.pods), len(script.probes))
	}
}
