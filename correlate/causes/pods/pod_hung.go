package pods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// pod-hung: a Pod accepts connections and does not answer: its process is stopped, or waits for something. The kernel
// accepts for it, so that connections are made and only answers fail to come.
//
//	svc     ok ok ok t ok t ok ok t ok ok ok      timeout_response, at the Pod's share
//	direct  ok ok ok t t  t t  t  t ok ok ok

var PodHung = rule.Rule{
	Name:  "pod-hung",
	Doc:   "A Pod that was ready accepted connections and did not answer.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Test:  testPodHung,
}

func testPodHung(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	hung := v.Suspects.That(w, v.Suspects.Hangs)
	if len(hung) == 0 {
		return rule.No("no Pod that was ready accepted connections at its own address and did not answer")
	}
	hung = slices.DeleteFunc(hung, func(s evidence.Suspect) bool {
		return v.Changes.NodeNotReady(s.Outage, s.Pod.Node) != nil
	})
	if len(hung) == 0 {
		return rule.No("the nodes of the Pods that did not answer at their own addresses turned not ready meanwhile")
	}
	certain := slices.DeleteFunc(slices.Clone(hung), func(s evidence.Suspect) bool {
		return s.Outage.Length.Min < v.Run.Run.Timeout/2
	})
	if len(certain) > 0 {
		hung = certain
	}
	worst := slices.MaxFunc(hung, func(a, b evidence.Suspect) int {
		return cmp.Compare(a.Outage.Length.Max, b.Outage.Length.Max)
	})
	together := len(evidence.SuspectPods(hung)) > 1 && w.Share >= evidence.NearlyAll &&
		len(v.Suspects.OthersAnswered(w, hung)) == 0
	only := v.Services.Service(w).MostReady(w.Start.Earliest, w.Start.Latest) == 1
	f := rule.Finding{Text: hungText(hung, worst), Fix: hungFix(worst, together, only)}
	rule.Accuse(v, w, hung, &f)
	f.Oppose(evidence.InParts(hung, "it was slow rather than hung")...)
	f.Oppose(onOtherNodes(v, w, hung)...)
	if len(certain) == 0 {
		f.Lack(evidence.Watched.Doubt("it was too short to tell a Pod that hangs from one that is slow"))
	}
	for _, s := range hung {
		p := s.Pod
		if at := p.EndpointNotReady; at != nil && !p.TerminatingBy(at.Latest) &&
			at.Latest >= s.Outage.Start.Earliest && at.Earliest <= s.Outage.End.Latest {
			f.For = append(f.For, evidence.Context.Event(v.Changes.IDOf(p, timeline.EndpointChanged, at), at,
				p.Name+" left the ready endpoints"))
		}
	}
	return f
}

// onOtherNodes returns the doubt that several Pods hang, all on other nodes than the prober's, and none but the
// prober's own answers: then their replies may get lost between nodes, as large ones do where the MTU is wrong.
func onOtherNodes(v *evidence.Evidence, w *model.Window, hung []evidence.Suspect) []evidence.Sign {
	own, near := v.Traffic.Target(w).Node, false
	if own == "" || len(evidence.SuspectPods(hung)) < 2 || slices.ContainsFunc(hung, func(s evidence.Suspect) bool {
		return s.Pod.Node == "" || s.Pod.Node == own
	}) {
		return nil
	}
	for _, p := range v.Addresses.HealthyOthers(w) {
		if v.Traffic.OutageNear(v.Addresses.DirectName(w, p), w.Span()) != nil {
			continue
		}
		if p.Node != own {
			return nil
		}
		near = true
	}
	if !near {
		return nil
	}
	return []evidence.Sign{evidence.Close.Doubt(fmt.Sprintf("only Pods on %s answered: replies from other nodes may "+
		"have been lost on the way", own))}
}

func hungText(hung []evidence.Suspect, worst evidence.Suspect) string {
	pods, did := evidence.SuspectPods(hung), "did not answer"
	if slices.ContainsFunc(hung, func(s evidence.Suspect) bool { return !s.Whole() }) {
		did = "left some requests unanswered"
	}
	switch o := worst.Outage; {
	case len(pods) == 1 && o.Open != model.Open{} && o.Length.Min <= 0: // how long is not known
		return fmt.Sprintf("%s accepted connections and %s", worst.Pod.Name, did)
	case len(pods) == 1:
		return fmt.Sprintf("%s accepted connections and %s %s", worst.Pod.Name, did, evidence.Lasted(o))
	}
	return fmt.Sprintf("%s accepted connections and %s, %s for longest (%s): %s", quantity.Count(len(pods), "Pod"),
		did, worst.Pod.Name, evidence.Lasted(worst.Outage), quantity.PodNames(pods))
}

// noticed is how soon a readiness probe with the shortest period, its default timeout and two failures takes a Pod out.
const noticed = 3 * time.Second

// hungFix does not ask for a quicker probe where all Pods hung together, or where there was only one: it would have
// left no endpoint.
func hungFix(worst evidence.Suspect, together, only bool) string {
	fix := fmt.Sprintf("find out what the process of %s waited for, or whether it got CPU: %d requests to its own "+
		"address were not answered", worst.Pod.Name, worst.Outage.Failed)
	switch {
	case together:
		fix += "; all hung at once: look for what they share, as a database or a node"
	case only:
		fix += "; it was the only ready endpoint: with ≥ 2 replicas a readiness probe can take out one that hangs"
	case worst.Outage.Length.Min > noticed:
		fix += fmt.Sprintf("; a readiness probe with periodSeconds 1, timeoutSeconds 1 and failureThreshold 2 takes "+
			"it out of the endpoints after about %s", quantity.Span(noticed))
	}
	return fix
}
