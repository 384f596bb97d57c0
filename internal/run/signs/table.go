package signs

import (
	"fmt"
	"slices"
	"strings"

	"lapse/timeline"
)

// A line of the table says which events are a sign, and of what class.
type line struct {
	name  string
	class Class
	actor string // who makes such events; empty: anybody, or the event names it
	kind  timeline.EventKind
	is    func(w *Watch, e timeline.Event) bool
	text  func(e timeline.Event) string
}

// A Mark is what somebody writes on a node that is to be drained, rebooted or removed: KIND KEY or KIND KEY=VALUE. The
// kind is taint, label, annotation or condition. Without a value a condition must be True, and a label or an annotation
// not false.
type Mark struct {
	What  string
	Class Class
	Actor string // who writes it; empty if unknown
}

// table are the signs that events show. The first line that holds counts.
var table = slices.Concat([]line{
	{AnEndpoint, Now, "", timeline.EndpointChanged, func(_ *Watch, e timeline.Event) bool {
		return e.From == timeline.EndpointReady && e.To != timeline.EndpointReady
	}, endpointText},
	{AnEndpoint, Soon, "", timeline.EndpointChanged, func(w *Watch, e timeline.Event) bool {
		// A surge comes before a Pod goes, a scale-up alone. One that was lost and is back ends a disruption.
		return changed(w, e) && e.To == timeline.EndpointReady && !w.lost[endpointKey(e)]
	}, endpointText},
	{"eviction", Now, "", timeline.PodDisrupted, isReady, evictionText},
	// As of the Pods of a node that was lost minutes ago, or of a Pod that crashes.
	{"eviction", Soon, "", timeline.PodDisrupted, always, evictionText},
	{"eviction-request", Soon, "", timeline.EvictionRequested, func(w *Watch, e timeline.Event) bool {
		return changed(w, e) && e.To == timeline.EvictionWanted
	}, func(e timeline.Event) string {
		return fmt.Sprintf("the eviction of Pod %s was requested", e.Object.Name)
	}},
	// That of a Pod of a Job, or of one that has failed, disturbs nobody.
	{"deletion", Now, "", timeline.PodDeleted, isReady, func(e timeline.Event) string {
		return fmt.Sprintf("Pod %s is being deleted", e.Object.Name)
	}},
	{NodeLost, Now, "", timeline.NodeReady, func(w *Watch, e timeline.Event) bool {
		return changed(w, e) && e.To != "true" && onOurNode(w, e)
	}, func(e timeline.Event) string { return fmt.Sprintf("node %s is no longer ready", e.Object.Name) }},
	// Managed node groups cordon all old nodes up front, some for hours. A drain by hand looks the same, and evicts at
	// once: the full rate is kept for 15 minutes only.
	{"cordon", Soon, "", timeline.NodeSchedulable, func(w *Watch, e timeline.Event) bool {
		return changed(w, e) && e.To == "false" && onOurNode(w, e)
	}, func(e timeline.Event) string { return fmt.Sprintf("node %s was cordoned", e.Object.Name) }},
	{"rollout", Soon, "", timeline.SnapshotTaken, rollsOut, rolloutText},
	{"service", Soon, "", timeline.ServiceChanged, always, func(e timeline.Event) string {
		return fmt.Sprintf("Service %s was changed: %s", e.Object.Name, e.Detail)
	}},
}, marked(known), []line{
	{"taint", Soon, "", timeline.NodeTaint, func(w *Watch, e timeline.Event) bool {
		return strings.HasSuffix(e.Detail, ":NoExecute") && comesToOurs(w, e)
	}, markText},
})

// known are the signs that others write on nodes, each as it is in their code or documentation.
var known = slices.Concat(drainTaints(), []Mark{
	{"taint DeletionCandidateOfClusterAutoscaler", Planned, "cluster-autoscaler"}, // if the node stays unneeded
	{"taint node.cluster.x-k8s.io/outdated-revision", Planned, "Cluster API"},     // on all old nodes
	{"taint eks.amazonaws.com/nodegroup=unschedulable", Planned, "EKS"},           // on all old nodes
	{"taint aws-node-termination-handler/scheduled-maintenance", Planned, "aws-node-termination-handler"},
	{"taint aws-node-termination-handler/rebalance-recommendation", Planned, "aws-node-termination-handler"},
	{"taint node.cloudprovider.kubernetes.io/shutdown", Soon, "cloud-controller-manager"},
	{"taint node.kubernetes.io/out-of-service", Soon, ""}, // by hand

	// Kubernetes 1.37 names these conditions, and leaves to administrators what sets them.
	{"condition MaintenancePlanned", Planned, ""},
	{"condition DrainInProgress", Soon, ""},
	{"condition GracefulNodeShutdownInProgress", Soon, ""},
	{"condition VMEventScheduled", Planned, "AKS"}, // up to 15 minutes before
	{"label cloud.google.com/active-node-maintenance", Soon, "GKE"},
	{"label node.kubernetes.io/exclude-from-external-load-balancers", Soon, ""}, // EKS, Karpenter, administrators
	{"annotation weave.works/kured-reboot-in-progress", Planned, "kured"},       // it may stand for hours
})

// drainTaints returns the taints of nodes whose Pods are about to be evicted.
func drainTaints() (marks []Mark) {
	for _, t := range timeline.DrainTaints {
		marks = append(marks, Mark{"taint " + t.Key, Soon, t.Actor})
	}
	return marks
}

// Marks returns which labels, annotations and conditions of nodes are signs: own ones, and those of the table.
func Marks(own []Mark) (what []string) {
	for _, m := range slices.Concat(own, known) {
		if !m.isTaint() {
			what = append(what, m.What)
		}
	}
	return what
}

// Names returns the names of all signs.
func Names() []string {
	names := []string{ARequest, Announced}
	for _, l := range table {
		if !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
	}
	return names
}

func marked(marks []Mark) (all []line) {
	for _, m := range marks {
		l := line{"mark", m.Class, m.Actor, timeline.NodeMarked, m.isOn, markText}
		if m.isTaint() {
			l.name, l.kind = "taint", timeline.NodeTaint
		}
		all = append(all, l)
	}
	return all
}

func (m Mark) isTaint() bool { return strings.HasPrefix(m.What, "taint ") }

// isOn reports whether one of our nodes gets the mark by an event.
func (m Mark) isOn(w *Watch, e timeline.Event) bool {
	what := whatOf(e)
	return (what == m.What || strings.HasPrefix(what, m.What+"=")) && comesToOurs(w, e)
}

// whatOf returns what a node was marked with, as in [Mark].
func whatOf(e timeline.Event) string {
	if e.Kind != timeline.NodeTaint {
		return e.Detail
	}
	taint, _, _ := strings.Cut(e.Detail, ":") // before its effect
	return "taint " + taint
}

// isReady reports whether an event is of a Pod with a ready endpoint.
func isReady(w *Watch, e timeline.Event) bool { return w.ready[e.Object.UID] }

func always(*Watch, timeline.Event) bool { return true }

// changed reports whether an event is a change. The first list of a watch has no state before.
func changed(_ *Watch, e timeline.Event) bool { return e.From != "" }

func onOurNode(w *Watch, e timeline.Event) bool { return len(w.on[e.Object.Name]) > 0 }

func comesToOurs(w *Watch, e timeline.Event) bool { return e.From == "absent" && onOurNode(w, e) }

// rollsOut reports whether somebody changed the spec of a workload that is rolled out or scaled.
func rollsOut(_ *Watch, e timeline.Event) bool {
	return e.Snapshot != nil && e.Snapshot.Workload != nil && e.Object.Kind != "ReplicaSet" &&
		(e.To == timeline.SnapshotChanged || e.To == timeline.SnapshotDeleted)
}

func rolloutText(e timeline.Event) string {
	text := fmt.Sprintf("%s %s was %s", e.Object.Kind, e.Object.Name, e.To)
	if e.To == timeline.SnapshotChanged && e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// evictionText says that a Pod is evicted. The reason names who does.
func evictionText(e timeline.Event) string {
	return fmt.Sprintf("Pod %s is about to be ended: %s", e.Object.Name, e.To)
}

func endpointText(e timeline.Event) string {
	return fmt.Sprintf("the endpoint of %s turned from %s to %s", e.Object.Name, e.From, e.To)
}

func markText(e timeline.Event) string {
	what := e.Detail
	if e.Kind == timeline.NodeTaint {
		what = "taint " + what
	}
	return fmt.Sprintf("node %s got the %s", e.Object.Name, what)
}

// by names an actor, if it is known.
func by(actor string) string {
	if actor == "" {
		return ""
	}
	return " (" + actor + ")"
}
