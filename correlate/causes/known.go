package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what is known of a window whose cause is not, and where to look next.

// A fact is a part of what is known: in words, and what to look at because of it.
type fact struct{ text, next string }

// known returns what is known of a window, the most telling first.
func (v *index) known(w *model.Window) (facts []fact) {
	failing := v.failingPods(w)
	for _, find := range []func(*model.Window, []failed) fact{v.whichPods, v.saidWhat, v.behindProxy, v.whichConnections, v.otherServices, v.changedNear} {
		if f := find(w, failing); f.text != "" {
			facts = append(facts, f)
		}
	}
	if more := strings.TrimPrefix(v.unselected(w), "; "); more != "" {
		facts = append(facts, fact{text: more})
	}
	return facts
}

// whichPods says which Pods failed the same way at their own addresses, since when, and what changed of them. Where
// none did, it says so, if their addresses are asked over connections such as those that failed.
func (v *index) whichPods(w *model.Window, all []failed) fact {
	var alike []failed
	var names []string
	for _, f := range all {
		if v.alike(w, f) && !slices.Contains(names, f.pod.Name) {
			alike, names = append(alike, f), append(names, f.pod.Name)
		}
	}
	switch {
	case len(alike) > 0:
		return v.failedAlike(alike, names)
	case len(all) > 0 || len(v.healthyOthers(w)) == 0 || v.target(w).Kind != timeline.New:
		return fact{}
	}
	return fact{"no Pod failed at its own address", "look at what lies between clients and Pods: a proxy, a mesh, network policies, the nodes' routes"}
}

// failedAlike says of Pods that failed the same way since when, and what changed of them before. Those of which the
// same changed are named together.
func (v *index) failedAlike(pods []failed, names []string) fact {
	first := slices.MinFunc(pods, func(a, b failed) int { return cmp.Compare(a.outage.Start.Latest, b.outage.Start.Latest) })
	text := fmt.Sprintf("%s failed the same way at its own address", names[0])
	if len(pods) > 1 {
		text = namedOf(names) + " failed the same way at their own addresses"
	}
	text += fmt.Sprintf(" from %s on", quantity.Clock(first.outage.Start.Latest))
	if len(pods) == 1 && !first.outage.Open.End {
		text = strings.TrimSuffix(text, " on") + " to " + quantity.Clock(first.outage.End.Earliest)
		if first.outage.End.Earliest <= first.outage.Start.Latest {
			text = strings.Replace(text, " from ", " about ", 1)
			text = text[:strings.LastIndex(text, " to ")]
		}
	}
	var ways []string
	of := map[string][]string{}
	for _, f := range pods {
		way := v.afterWhat(f, len(pods) > 1)
		if of[way] == nil {
			ways = append(ways, way)
		}
		of[way] = append(of[way], f.pod.Name)
	}
	const most = 3
	for _, way := range ways[:min(len(ways), most)] {
		switch {
		case way == "" && len(ways) == 1:
			text += ", and nothing had changed of " + map[bool]string{true: "it", false: "them"}[len(pods) == 1]
		case way == "":
			text += ", and nothing had changed of " + namedOf(of[way])
		case len(pods) == 1:
			text += ", " + way
		default:
			text += fmt.Sprintf(", %s %s", namedOf(of[way]), way)
		}
	}
	next := fmt.Sprintf("look at the logs of %s from %s on", first.pod.Name, quantity.Clock(first.outage.Start.Latest))
	switch end := v.endBefore(first); {
	case end != nil && first.pod.Ending.By == model.ByItself:
		next = fmt.Sprintf("look why it ended: kubectl logs --previous %s", first.pod.Name)
	case end != nil:
		next = fmt.Sprintf("find out what each container of %s does as the Pod ends: one may end before others that need it, or go on accepting what it does not answer", first.pod.Name)
	}
	return fact{text, next}
}

// afterWhat says how long after what change of a Pod its address failed: "≤ 1.06 s after it was deleted"; of one of
// several, only after what. Which of both came first is not always known. It returns "" if nothing had changed.
func (v *index) afterWhat(f failed, several bool) string {
	what, e := v.changeBefore(f)
	switch since := f.outage.Start; {
	case e == nil:
		return ""
	case e.At.Latest > since.Latest && e.At.Latest-e.At.Earliest > vagueEnd:
		return "about when " + what
	case several:
		return "after " + what
	}
	return quantity.Length(length(e.At, f.outage.Start), false) + " after " + what
}

// whichConnections says whether only kept connections failed, or only new ones.
func (v *index) whichConnections(w *model.Window, all []failed) fact {
	own := v.target(w)
	kept := own.Kind == timeline.Reused
	if w.Kind == model.Slow || !kept && own.Kind != timeline.New {
		return fact{}
	}
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind == own.Kind || t.Kind != timeline.New && t.Kind != timeline.Reused || t.Sent == 0 || !v.shareRoutes(t, own) {
			continue
		}
		if v.windowNear(own, t.Kind, model.Instant{Earliest: w.Start.Earliest - nearBy, Latest: w.End.Latest + nearBy}) != nil {
			return fact{}
		}
		if kept {
			return fact{"only requests on kept connections failed, new connections were well",
				"look for what makes a server close or reset connections that are in use: a limit of requests or age per connection, workers that are recycled, a reload, an idle timeout"}
		}
		f := fact{text: "only new connections failed, kept ones were well"}
		if 2*some(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Reset, timeline.EOF) > w.Failed {
			f.next = "look for what accepts connections: a full queue, a limit of connections, routes to Pods"
		}
		return f
	}
	return fact{}
}

// saidWhat says what the text of a failure tells beyond its class.
func (v *index) saidWhat(w *model.Window, all []failed) fact {
	for _, e := range v.errorsOf(w) {
		if strings.Contains(e.Text, "certificate has expired") || strings.Contains(e.Text, "certificate is not yet valid") {
			return fact{"the server's certificate is not valid at this time: " + e.Text,
				"compare the certificate that is served with the one in its Secret: a server that read it once goes on with the old one until it reloads"}
		}
	}
	return fact{}
}

// behindProxy says that a proxy answered for somebody behind it, if it answered at least a tenth of what failed: where
// an address behind it is gone, most requests time out.
// https://www.rfc-editor.org/rfc/rfc9110#name-502-bad-gateway
func (v *index) behindProxy(w *model.Window, all []failed) fact {
	n := some(w.Classes, timeline.HTTP5xx)
	if n == 0 || 10*n < w.Failed {
		return fact{}
	}
	var statuses []string
	for _, e := range v.errors {
		if e.Object.Name == w.Target && e.To == timeline.HTTP5xx.String() && e.At.Earliest <= w.End.Latest && (e.Status == 502 || e.Status == 504) {
			statuses = append(statuses, fmt.Sprint(e.Status))
		}
	}
	if len(statuses) == 0 {
		return fact{}
	}
	slices.Sort(statuses)
	text := "status " + strings.Join(slices.Compact(statuses), " and ")
	if 2*n < w.Failed {
		text = fmt.Sprintf("%d of %d failed requests got %s, and that", n, w.Failed, text)
	}
	return fact{text + " is a proxy's answer: somebody behind it did not answer",
		"look at whom the proxy passes requests to, in the same Pod or behind another Service: measure that together with this one"}
}

// otherServices says which other Services' endpoints changed about the window's onset, the most changed first,
// unless a Pod of this one failed as it ended.
func (v *index) otherServices(w *model.Window, all []failed) fact {
	own := v.target(w).Service
	onset := v.onset(w)
	changed := func(f failed) bool { return v.alike(w, f) && v.endBefore(f) != nil }
	if own == "" || !onset.Bounded() || onset.Latest-onset.Earliest > nearBy || slices.ContainsFunc(all, changed) {
		return fact{}
	}
	changes := map[string]int{}
	var names []string
	for _, e := range v.changesNear(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest + nearBy}) {
		if e.Kind != timeline.EndpointChanged || e.Service == "" || e.Service == own {
			continue
		}
		if changes[e.Service]++; changes[e.Service] == 1 {
			names = append(names, e.Service)
		}
	}
	if len(names) == 0 {
		return fact{}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(changes[b], changes[a]), cmp.Compare(a, b)) })
	return fact{text: fmt.Sprintf("endpoints of %s changed within %s of its onset", namedOf(names), quantity.Span(nearBy))}
}

// changedNear says of what something changed near the window's onset, where no Pod failed as its requests did.
func (v *index) changedNear(w *model.Window, all []failed) fact {
	onset := v.onset(w)
	if onset.Latest-onset.Earliest > nearBy || slices.ContainsFunc(all, func(f failed) bool { return v.alike(w, f) }) {
		return fact{}
	}
	var names []string
	for _, e := range v.changesNear(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest + nearBy}) {
		if e.Object != nil && e.Object.Name != "" && !slices.Contains(names, e.Object.Name) {
			names = append(names, e.Object.Name)
		}
	}
	if len(names) == 0 {
		return fact{}
	}
	return fact{text: fmt.Sprintf("within %s of its onset something changed of %s", quantity.Span(nearBy), namedOf(names))}
}
