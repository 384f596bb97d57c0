package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// failing-version: Pods of one template fail at their own addresses from their first request on, and never answer
// well; Pods of another template do. A readiness probe that does not ask what clients ask lets the rollout go on
// until no Pod is left that serves.
//
//	endpoint  . . . . R R R R R R R R R R
//	svc       ok ok ok ok x ok x x x x x x      more, as the rollout takes Pods of the other template away
//	direct            x x x x x x x x x x      each Pod of this template, to the end
//	others    ok ok ok ok ok ok . . .          Pods of the other template, while they are there

var FailingVersion = rule.Rule{
	Name:  "failing-version",
	Doc:   "Pods of one version never answered successfully, and Pods of another version did.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.RequestsFailed},
	Test:  testFailingVersion,

	Reasons: []string{otherWorkload},
}

// otherWorkload is the reason where the Pods that fail are of another workload than those that answer.
const otherWorkload = "other-workload"

// slowestStart is how long a Pod that only starts slowly may fail.
const slowestStart = time.Minute

func testFailingVersion(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	young := slices.DeleteFunc(youngSuspects(v, w), func(s evidence.Suspect) bool {
		return !evidence.AnswersBadly(s.Outage) || s.Pod.Template == "" || v.Addresses.Probe(w, s.Pod).FirstOK != nil
	})
	if len(young) == 0 {
		return rule.No("no Pod failed at its own address from its first request on and never answered well")
	}
	failing := evidence.SuspectPods(young)
	var well []*model.Pod
	for _, p := range v.Services.Pods(w) {
		if v.Addresses.Probe(w, p).FirstOK == nil || p.Template == "" {
			continue
		}
		if slices.ContainsFunc(failing, func(f *model.Pod) bool { return f.Template == p.Template }) {
			return rule.No(p.Name + " answered well, and has the same template as Pods that never did")
		}
		well = append(well, p)
	}
	if len(well) == 0 {
		return rule.No("no Pod with another template is known to have answered well")
	}
	longest := slices.MaxFunc(young, func(a, b evidence.Suspect) int {
		return int(a.Outage.Length.Min - b.Outage.Length.Min)
	})
	f := rule.Finding{Text: failingText(v, failing, longest), Fix: failingFix(v, longest)}
	taken := alsoTakes(v, w, failing, well)
	if taken.selector != "" {
		f.Text, f.Fix, f.Reason = taken.text(v, longest), taken.fix(f.Fix), otherWorkload
	}
	rule.AccuseYoung(v, w, young, &f)
	f.For = append(f.For, evidence.Context.Target(v.Addresses.DirectName(w, well[0]), nil, quantity.PodNames(well)+
		", with another template, answered well"))
	if taken.jobs { // nothing that ends is meant to serve: neither a slow start nor a crash
		return f
	}
	if longest.Outage.Length.Min < slowestStart {
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("%s was observed for %s only: it may just start slowly",
			longest.Pod.Name, quantity.Lowest(longest.Outage.Length.Min))))
	}
	others := slices.DeleteFunc(v.Suspects.FailedAlso(w, young), func(p *model.Pod) bool {
		first := v.Addresses.Probe(w, p).FirstOK
		return first == nil || *first > longest.Outage.Start.Earliest // it is young as well, and started late
	})
	if len(others) > 0 {
		f.Oppose(evidence.Watched.Doubt(quantity.PodNames(others) +
			" failed as well, and had answered before: what " +
			"they share fits better"))
	}
	f.Oppose(onOneNodeOnly(failing, well)...)
	for _, p := range failing {
		if evidence.ExitedItself(p) {
			f.Oppose(evidence.Watched.Doubt(p.Name + " exited: it may have crashed"))
		}
	}
	return f
}

// A takenPods is the other Pods that a Service's selector selects, besides those that answer.
type takenPods struct {
	selector string // whose; "" if all are of one workload
	failing  string // the Pods that fail, counted: "1 Pod"
	owner    string // of the Pods that fail
	serving  string // the workload of those that answer
	jobs     bool   // the Pods that fail are of Jobs
}

// alsoTakes compares the workloads of Pods that fail with those of Pods that answer well, before their templates tell
// versions apart.
func alsoTakes(v *evidence.Evidence, w *model.Window, failing, well []*model.Pod) takenPods {
	owner := v.Changes.States.Top(failing[0])
	known := func(p *model.Pod) bool { // of whom a ReplicaSet is, where that is not watched, its name may not tell
		top := v.Changes.States.Top(p)
		return !strings.HasPrefix(top, "ReplicaSet/") || len(v.Changes.States.Of(p.Namespace, top)) > 0
	}
	other := func(p *model.Pod) bool {
		return v.Changes.States.Top(p) != owner && (known(p) || known(failing[0]))
	}
	if slices.ContainsFunc(failing, other) || !slices.ContainsFunc(well, other) ||
		slices.ContainsFunc(well, func(p *model.Pod) bool {
			return !other(p)
		}) {
		return takenPods{}
	}
	name := func(p *model.Pod) string {
		return cluster.WorkloadWords(cmp.Or(v.Changes.States.Top(p), "Pod/"+p.Name))
	}
	_, service, _ := strings.Cut(v.Traffic.Target(w).Service, "/")
	selector := "the selector of the Service"
	if service != "" {
		selector = "the selector of Service " + service
	}
	return takenPods{
		selector: selector,
		failing:  quantity.Count(len(failing), "Pod"),
		owner:    name(failing[0]),
		serving:  name(well[0]),
		jobs:     strings.HasPrefix(owner, "Job/"),
	}
}

// text says which Pods the selector should not select, and what they do.
func (t takenPods) text(v *evidence.Evidence, longest evidence.Suspect) string {
	return fmt.Sprintf("%s selects %s of %s as well: from the first request on %s %s%s, while the Pods of %s answered",
		t.selector, t.failing, t.owner, longest.Pod.Name, v.Suspects.FailedHow(longest),
		v.Templates.AskedFor(longest.Pod), t.serving)
}

// fix says how the selector leaves the Pods out; undo is the fix of a version.
func (t takenPods) fix(undo string) string {
	narrow := fmt.Sprintf("give the Pods of %s a label of their own and, when they have it, select by that (it leaves "+
		"out %s of %s); or name their container's port, and use the name as the Service's targetPort", t.serving,
		t.failing, t.owner)
	if t.jobs {
		return narrow
	}
	return fmt.Sprintf("if %s is not meant to serve, %s; else %s", t.owner, narrow, undo)
}

// onOneNodeOnly returns the doubt that all Pods that fail are on one node, and none that is well: then something of
// that node fits as well.
func onOneNodeOnly(failing, well []*model.Pod) []evidence.Sign {
	node := failing[0].Node
	elsewhere := func(p *model.Pod) bool { return p.Node != node }
	if node == "" || slices.ContainsFunc(failing, elsewhere) || !slices.ContainsFunc(well, elsewhere) ||
		slices.ContainsFunc(well, func(p *model.Pod) bool {
			return !elsewhere(p)
		}) {
		return nil
	}
	return []evidence.Sign{evidence.Close.Doubt(fmt.Sprintf("only Pods on %s failed so, and none that answered was "+
		"there: something of that node fits as well", node))}
}

func failingText(v *evidence.Evidence, failing []*model.Pod, longest evidence.Suspect) string {
	who := longest.Pod.Name
	if len(failing) > 1 {
		who = quantity.Count(len(failing), "Pod") + " of one version"
	}
	text := fmt.Sprintf("%s failed from the first request on (%s for %s)", who, longest.Pod.Name,
		quantity.Length(longest.Outage.Length, true))
	if len(failing) == 1 {
		text = fmt.Sprintf("%s failed from its first request on, for %s", who,
			quantity.Length(longest.Outage.Length, true))
	} else {
		text += ": " + quantity.PodNames(failing)
	}
	return fmt.Sprintf("%s; %s %s%s; Pods with another template answered", text, longest.Pod.Name,
		v.Suspects.FailedHow(longest), v.Templates.AskedFor(longest.Pod))
}

// failingFix says how to be rid of the version.
func failingFix(v *evidence.Evidence, longest evidence.Suspect) string {
	p, undo := longest.Pod, "take this version back"
	if kind, name, _ := strings.Cut(v.Changes.States.Top(p), "/"); kind == "Deployment" || kind == "StatefulSet" ||
		kind == "DaemonSet" {
		undo += fmt.Sprintf(" (`kubectl rollout undo %s/%s`, or scale it to 0 if another workload serves; a "+
			"ConfigMap or Secret that it reads is not taken back with it)", strings.ToLower(kind), name)
	}
	probe := "add a readiness probe that asks"
	if v.Templates.ReadinessOf(p) != nil {
		probe = "let the readiness probe ask"
	}
	return fmt.Sprintf("%s, and %s for what clients ask: a rollout stops at Pods that do not become ready (%s was "+
		"ready, and failed, for %s)",
		undo, probe, p.Name, quantity.Length(longest.Outage.Length, true))
}
