package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file says what is known of a window without a known cause, and where to look next.

// nearBy is how far from a window's onset a change is still worth mentioning when no rule applies.
const nearBy = 2 * time.Second

// A fact is a part of what is known: in words, and what to look at because of it. One with a reason says why most
// requests failed, if not what set that off.
type fact struct {
	text, next, reason string

	last string // what to look at if there is nothing else
}

// known returns what is known of a window, the most telling first.
func known(v *evidence.Evidence, w *model.Window) (facts []fact) {
	failing := v.Addresses.FailingPods(w)
	for _, find := range []func(*evidence.Evidence, *model.Window, []evidence.Failed) fact{
		saidWhat, whichPods, behindProxy, whichConnections, otherServices, changedNear,
	} {
		if f := find(v, w, failing); f.text != "" {
			facts = append(facts, f)
		}
	}
	if more := strings.TrimPrefix(v.Addresses.Unselected(w), "; "); more != "" {
		facts = append(facts, fact{text: more})
	}
	return facts
}

// whichPods says which Pods failed the same way at their own addresses, since when, and what changed of them. If none
// did, it says so, provided their addresses are probed over the same kind of connection.
func whichPods(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	var alike []evidence.Failed
	var names []string
	for _, f := range all {
		if v.Addresses.Alike(w, f) && !slices.Contains(names, f.Pod.Name) {
			alike, names = append(alike, f), append(names, f.Pod.Name)
		}
	}
	f := fact{text: "no Pod failed at its own address",
		next: "look at what lies between clients and Pods: a proxy, a mesh, network policies, the nodes' routes"}
	switch slow := v.Addresses.Slow(w); {
	case len(alike) > 0:
		return failedAlike(v, alike, names)
	case len(slow) > 0:
		return fact{text: quantity.PodNames(slow) + " answered late at " + its(len(slow)) + " as well",
			next: logsOf(v, w, slow)}
	case len(all) > 0 || len(v.Addresses.HealthyOthers(w)) == 0:
		return fact{}
	case w.Kind == model.Slow:
		f.text = "no Pod failed or was slow at its own address"
		return f
	case v.Traffic.Target(w).Kind != timeline.New:
		return fact{}
	}
	return f
}

// its returns "its own address" or "their own addresses".
func its(pods int) string {
	if pods == 1 {
		return "its own address"
	}
	return "their own addresses"
}

// logsOf says to look at the logs of Pods from a window's onset on.
func logsOf(v *evidence.Evidence, w *model.Window, pods []*model.Pod) string {
	return fmt.Sprintf("look at the logs of %s from %s on", quantity.PodNames(pods),
		second(v, v.Traffic.Onset(w).Latest))
}

// second returns the second of an instant, as logs are searched by.
func second(v *evidence.Evidence, at time.Duration) string {
	clock, _, _ := strings.Cut(quantity.Clock(v.Run, at), ".")
	return clock
}

// failedAlike says since when Pods failed the same way, and what changed of them before. It groups them by that change.
func failedAlike(v *evidence.Evidence, pods []evidence.Failed, names []string) fact {
	first := slices.MinFunc(pods, func(a, b evidence.Failed) int {
		return cmp.Compare(a.Outage.Start.Latest, b.Outage.Start.Latest)
	})
	text := quantity.Names(names) + " failed the same way at " + its(len(pods))
	since := quantity.Clock(v.Run, first.Outage.Start.Latest)
	text += fmt.Sprintf(" from %s on", since)
	if len(pods) == 1 && !first.Outage.Open.End {
		text = strings.TrimSuffix(text, " on") + " to " + quantity.Clock(v.Run, first.Outage.End.Earliest)
		if first.Outage.End.Earliest <= first.Outage.Start.Latest {
			text = strings.Replace(text, " from ", " about ", 1)
			text = text[:strings.LastIndex(text, " to ")]
		}
	}
	var ways []string
	of := map[string][]string{}
	for _, f := range pods {
		way := afterWhat(v, f, len(pods) > 1)
		if of[way] == nil {
			ways = append(ways, way)
		}
		of[way] = append(of[way], f.Pod.Name)
	}
	const most = 3
	for _, way := range ways[:min(len(ways), most)] {
		switch {
		case way == "" && len(ways) == 1:
			text += ", and nothing had changed there before"
		case way == "":
			text += fmt.Sprintf(", %s without a change before", quantity.Names(of[way]))
		case len(pods) == 1:
			text += ", " + way
		default:
			text += fmt.Sprintf(", %s %s", quantity.Names(of[way]), way)
		}
	}
	next := fmt.Sprintf("look at the logs of %s from %s on", quantity.Names(names),
		second(v, first.Outage.Start.Latest))
	switch end := v.Addresses.EndBefore(first); {
	case end != nil && first.Pod.Ending.By == model.ByItself:
		next = fmt.Sprintf("look why it ended: kubectl logs --previous %s", first.Pod.Name)
	case end != nil:
		next = fmt.Sprintf("find out what each container of %s does as the Pod ends: one may end before others that "+
			"need it, or go on accepting what it does not answer", first.Pod.Name)
	}
	return fact{text: text, next: next}
}

// afterWhat says how long after what change of a Pod its address failed: "≤ 1.06 s after it was deleted"; of one of
// several, only after what. Which of both came first is not always known. It returns "" if nothing had changed.
func afterWhat(v *evidence.Evidence, f evidence.Failed, several bool) string {
	what, e := v.Addresses.ChangeBefore(f)
	switch since := f.Outage.Start; {
	case e == nil:
		return ""
	case e.At.Latest > since.Latest && e.At.Latest-e.At.Earliest > evidence.VagueEnd:
		return "about when " + what
	case several:
		return "after " + what
	}
	return quantity.Length(evidence.Length(e.At, f.Outage.Start), false) + " after " + what
}

// whichConnections says whether only requests on reused connections failed, or only on new ones.
func whichConnections(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	own := v.Traffic.Target(w)
	kept := own.Kind == timeline.Reused
	if w.Kind == model.Slow || !kept && own.Kind != timeline.New {
		return fact{}
	}
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind == own.Kind || t.Kind != timeline.New && t.Kind != timeline.Reused || t.Sent == 0 ||
			!v.Traffic.ShareRoutes(t, own) {
			continue
		}
		if v.Traffic.WindowNear(own, t.Kind, model.Instant{Earliest: w.Start.Earliest - nearBy, Latest: w.End.Latest +
			nearBy}) != nil {
			return fact{}
		}
		if kept {
			return fact{text: "only requests on reused connections failed, none on new ones",
				next: "look for what makes a server close or reset connections that are in use: a limit of requests " +
					"or age per connection, workers that are recycled, a reload, an idle timeout"}
		}
		f := fact{text: "only new connections failed, no request on reused ones"}
		if 2*evidence.Count(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Reset,
			timeline.EOF) > w.Failed {
			f.next = "look for what accepts connections: a full queue, a limit of connections, routes to Pods"
		}
		return f
	}
	return fact{}
}

// saidWhat says what an error's text adds to its class.
func saidWhat(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	var invalid, others []string
	for _, e := range v.Traffic.ErrorsOf(w) {
		switch {
		case e.Class != timeline.TLS.String():
		case strings.Contains(e.Text, "certificate has expired"),
			strings.Contains(e.Text, "certificate is not yet valid"):
			invalid = append(invalid, e.Text)
		default:
			others = append(others, e.Text)
		}
	}
	if len(invalid) == 0 {
		return fact{}
	}
	f := fact{text: "the server's certificate is not valid at this time: " + invalid[0],
		next: "compare the certificate that is served with the one in its Secret: if they differ make the server " +
			"reload it, else renew it"}
	if len(others) == 0 && 2*evidence.Count(w.Classes, timeline.TLS) > w.Failed {
		f.reason = "certificate"
	}
	return f
}

// behindProxy says that a proxy answered for a server behind it, if it answered at least ten of the failed requests, or
// a tenth of them: where an address behind it is gone, most requests time out.
// https://www.rfc-editor.org/rfc/rfc9110#name-502-bad-gateway
func behindProxy(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	n := evidence.Count(w.Classes, timeline.HTTP5xx)
	if n < 10 && 10*n < w.Failed || n == 0 {
		return fact{}
	}
	var statuses []string
	for _, e := range v.Traffic.Errors {
		if e.Object.Name == w.Target && e.To == timeline.HTTP5xx.String() && e.At.Earliest <= w.End.Latest &&
			(e.Status == 502 || e.Status == 504) {
			statuses = append(statuses, fmt.Sprint(e.Status))
		}
	}
	if len(statuses) == 0 {
		return fact{}
	}
	slices.Sort(statuses)
	text := "status " + strings.Join(slices.Compact(statuses), " and ")
	if 2*n < w.Failed {
		text += fmt.Sprintf(", the answer to %d of the %d failed requests,", n, w.Failed)
	}
	return fact{text: text + " is a proxy's: a server behind it did not answer",
		next: "look at the server that the proxy passes requests to, in the same Pod or behind another Service"}
}

// otherServices says which other Services' endpoints changed about the window's onset, the most changed first,
// unless a Pod of this one failed as it ended.
func otherServices(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	own := v.Traffic.Target(w).Service
	onset := v.Traffic.Onset(w)
	changed := func(f evidence.Failed) bool { return v.Addresses.Alike(w, f) && v.Addresses.EndBefore(f) != nil }
	if own == "" || !onset.Bounded() || onset.Latest-onset.Earliest > nearBy || slices.ContainsFunc(all, changed) {
		return fact{}
	}
	changes := map[string]int{}
	var names []string
	for _, e := range v.Changes.Near(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest +
		nearBy}) {
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
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(changes[b], changes[a]), cmp.Compare(a, b))
	})
	return fact{text: fmt.Sprintf("endpoints of %s changed within %s of its onset", quantity.Names(names),
		quantity.Span(nearBy))}
}

// changedNear says what changed near the window's onset, if no Pod failed as its requests did: of each object the
// nearest change.
func changedNear(v *evidence.Evidence, w *model.Window, all []evidence.Failed) fact {
	onset := v.Traffic.Onset(w)
	if onset.Latest-onset.Earliest > nearBy || slices.ContainsFunc(all, func(f evidence.Failed) bool {
		return v.Addresses.Alike(w, f)
	}) {
		return fact{}
	}
	changes := v.Changes.Near(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest + nearBy})
	slices.SortStableFunc(changes, func(a, b *model.Event) int {
		return cmp.Compare(onset.Distance(a.Seen), onset.Distance(b.Seen))
	})
	var names, said []string
	var pods []*model.Pod
	for _, e := range changes {
		if e.Object.Name == "" || slices.Contains(names, e.Object.Name) {
			continue
		}
		names = append(names, e.Object.Name)
		said = append(said, evidence.Plainly(e))
		for _, p := range v.Services.Pods(w) {
			if p.UID == e.Object.UID {
				pods = append(pods, p)
			}
		}
	}
	if len(names) == 0 {
		return fact{}
	}
	f := fact{text: fmt.Sprintf("within %s of its onset: %s", quantity.Span(nearBy), quantity.Names(said))}
	if len(pods) > 0 {
		f.last = logsOf(v, w, pods)
	}
	return f
}
