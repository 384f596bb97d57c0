package pods

import (
	"cmp"
	"fmt"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// undeclared-termination: a kubelet ended a Pod for its own reasons: the node shut down or ran short of memory or
// disk, or the Pod's activeDeadlineSeconds were over. Nobody deleted the Pod, so its endpoint is ready while it ends,
// and a preStop hook does not help (kubernetes/kubernetes#116965).
//
//	Pod        Running   ended by its kubelet   Failed
//	endpoint   ready     ready ready            not-ready
//	svc        ok ok     x ok x ok              ok ok

var UndeclaredTermination = rule.Rule{
	Name: "undeclared-termination",
	Doc: "A kubelet ended a Pod, or a container of it, without a deletion, and its endpoint was ready until it had " +
		"ended.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Test:  testUndeclaredTermination,
}

func testUndeclaredTermination(c *rule.Case) rule.Finding {
	crashes, whyNot := routedCrashes(c, func(cr crash) bool {
		return cr.ended != nil || cr.anew != nil
	}, "no kubelet ended a Pod while it was routed to")
	if whyNot != "" {
		return rule.No(whyNot)
	}
	cr := crashes[0]
	if cr.ended == nil {
		f := rule.Finding{
			Text: fmt.Sprintf("the kubelet of %s ended a container of %s to restart it (%s), and requests "+
				"were still routed to it", cr.pod.Node, cr.pod.Name, cr.anew.Detail),
			Fix: anewFix(cr.anew, len(crashes))}
		crashed(c, crashes, &f)
		return f
	}
	reason := cmp.Or(strings.TrimSuffix(strings.TrimSpace(cr.ended.Detail), "."), cr.ended.To) // it stands in brackets
	f := rule.Finding{
		Text: fmt.Sprintf("the kubelet of %s ended %s without a deletion (%s), and requests were still routed to it",
			cr.pod.Node, cr.pod.Name, reason),
		Fix: undeclaredFix(cr.pod, len(crashes), reason),
		For: []evidence.Sign{evidence.Watched.Seen(cr.ended, cr.pod.Name+" was ended by its kubelet: "+reason)},
	}
	crashed(c, crashes, &f)
	return f
}

// undeclaredFix returns what helps against such an end.
//
// A kubelet that preempts a Pod waits for its end and meanwhile reports nothing that probes say (kubernetes,
// pkg/kubelet/preemption: "a blocking call" of its main loop). One that evicts a Pod gives it 1 s, unless only a soft
// threshold is reached (pkg/kubelet/eviction, immediateEvictionGracePeriodSeconds). So the server can do nothing.
func undeclaredFix(p *model.Pod, containers int, reason string) string {
	ended := fmt.Sprintf("its kubelet ended %s (%s), without notice", quantity.Count(containers, "container"), reason)
	is := func(text string) bool { return strings.Contains(strings.ToLower(reason), text) }
	switch {
	case is("preempt"):
		return fmt.Sprintf("leave room on %s for critical Pods, or give %s a priority class that they do not "+
			"preempt: %s, and reports no probe until it has ended", p.Node, p.Name, ended)
	case is("low on resource"), is("evicted"):
		return fmt.Sprintf("request what %s uses, or give it a higher priority class, and leave room on %s: %s. It "+
			"has 1 s to stop then, and no PodDisruptionBudget holds", p.Name, p.Node, ended)
	case is("exceeds the"), is("exceeded its"): // its own limit of storage
		return fmt.Sprintf("raise the limit that %s exceeds, or let it write less: %s. It has 1 s to stop then", p.Name,
			ended)
	}
	return fmt.Sprintf(
		"let %s fail its readiness probe from SIGTERM on, and go on serving until its endpoint has left: %s", p.Name,
		ended)
}

// anewFix returns what helps if a container was restarted in a Pod that goes on.
func anewFix(said *model.Event, containers int) string {
	instead := "change the Pod's template, which is rolled out with new Pods"
	if strings.HasSuffix(said.Detail, " resize requires restart") {
		instead = "set its resizePolicy to NotRequired if the server takes another size without a restart, else " +
			"change the size in the Pod's template, which is rolled out with new Pods"
	}
	return fmt.Sprintf("%s: %s restarted while the Pod was routed to", instead, quantity.Count(containers, "container"))
}
