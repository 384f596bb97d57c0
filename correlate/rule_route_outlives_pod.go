package correlate

import (
	"fmt"
	"math"
	"time"

	"lapse/timeline"
)

// route-outlives-pod: a Pod that is asked to end stops listening, and for a while this node's routes
// still lead to it. New connections are refused, or time out once the Pod's sandbox is gone, at the
// share the Pod had of the Service's endpoints; everything else goes on. The proof is the Pod's own
// address, which stops answering at the same instant.
//
//	svc     ok ok ok x ok x x ok x ok ok ok
//	direct  ok ok ok x x  x x x  x x  x  x     the Pod stopped at the onset, the routes followed later
//	others  ok ok ok ok …                      and no other Pod had any part in it

// routeMargin is added to the longest time a route was seen to outlive its Pod. One drain is one
// sample: kube-proxy gathers changes for up to its minSyncPeriod, 1 s by default, before it
// rewrites the routes (kubernetes/kubernetes#92836), and how much of that a Pod's end meets is luck.
const routeMargin = time.Second

// A race is a window that opened when a Pod stopped, and went on after.
type race struct {
	pod      *Pod
	stop     Instant
	proved   bool          // by the Pod's own address
	exited   bool          // by the watch, which saw its containers end
	peers    int           // ready endpoints before, itself included; 0 if the watch did not tell
	outlived time.Duration // the last failed request was sent so long after the Pod had stopped, at most
	after    bool          // it was certainly sent after
}

func routeOutlivesPod(v *view, w *Window) (*Cause, string) {
	r, why := findRace(v, w)
	if r == nil {
		return nil, why
	}
	cause := &Cause{Confidence: High, Text: r.text(v, w), Fix: raceFix(v, w), Evidence: raceEvidence(v, w, r), Measures: r.measures(v, w)}
	weighStop(cause, r)
	weighAfter(cause, r)
	weighOthers(v, w, r.pod, cause)
	weighShare(v, w, r, cause)
	return cause, ""
}

func (r *race) measures(v *view, w *Window) []Measure {
	lag := Length{Min: max(0, lastRouted(v, w)-r.stop.Latest), Max: w.End.Latest - r.stop.Earliest}
	return []Measure{{Name: RouteLag, Object: r.pod.Name, Node: v.target(w).Node, Length: lag}}
}

func (r *race) text(v *view, w *Window) string {
	howLong := span(r.outlived)
	if !r.proved || !r.after {
		howLong = "up to " + howLong
	}
	return fmt.Sprintf("%s still routed to %s %s after it had stopped", v.from(w), r.pod.Name, howLong)
}

// dials reports whether the window tells of connections that could not be made, or were cut before
// they carried a reply. On persistent connections only a failed dial does.
func dials(v *view, w *Window) bool {
	failedDials := some(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable)
	if v.target(w).Kind == timeline.Reused {
		return failedDials > 0
	}
	return w.Kind != Slow && failedDials+some(w.Classes, timeline.Reset, timeline.EOF, timeline.TimeoutResponse, timeline.NoSlot) > 0
}

// findRace looks for the Pod whose stop the window's onset can be. Proof by the Pod's own address
// goes before the watch's word, and the narrower bracket before the wider.
func findRace(v *view, w *Window) (best *race, silent string) {
	if len(v.pods(w)) == 0 {
		return nil, "no Pods were watched"
	}
	if !dials(v, w) {
		return nil, "no new connection failed to be made"
	}
	silent = "no Pod was ending " + between(w.Start)
	for _, p := range v.pods(w) {
		if !p.terminatingBy(w.End.Latest) {
			continue
		}
		r := raceWith(v, w, p)
		switch {
		case r == nil:
			silent = fmt.Sprintf("%s was ending, but did not stop %s", p.Name, between(w.Start))
		case best == nil, r.strength() > best.strength():
			best = r
		}
	}
	if best == nil {
		return nil, silent
	}
	best.peers = endpointsBefore(v, w, best.pod)
	if best.peers == 1 && emptyNear(v, w) != nil {
		return nil, fmt.Sprintf("%s was the last endpoint: there was no other to route to", best.pod.Name)
	}
	return best, ""
}

// strength orders races by how well the stop is known.
func (r *race) strength() float64 {
	width := (r.stop.Latest - r.stop.Earliest).Seconds()
	switch {
	case r.proved:
		return 2 + 1/(1+width)
	case r.exited:
		return 1 + 1/(1+width)
	}
	return 1 / (1 + width)
}

// raceWith holds the window against one ending Pod. A Pod whose own address was probed and did not
// stop at the onset is cleared; without a probe, it stopped between its deletion and its exit.
func raceWith(v *view, w *Window, p *Pod) *race {
	r := &race{pod: p}
	switch {
	case p.Stopped != nil:
		r.stop, r.proved = *p.Stopped, true
	case p.LastOK != nil && *p.LastOK > w.Start.Latest:
		return nil // it answered after the onset
	default:
		stop, known := stopByWatch(p)
		if !known {
			return nil
		}
		r.stop, r.exited = stop, p.Exited != nil
	}
	lastFailure := lastRouted(v, w)
	if !r.stop.overlaps(v.onset(w)) || lastFailure < r.stop.Earliest {
		return nil
	}
	r.outlived, r.after = lastFailure-r.stop.Earliest, lastFailure > r.stop.Latest
	return r
}

// stopByWatch bounds a Pod's stop by what the watch saw: not before its deletion was asked for, for
// it may stop listening long before it exits, and not after its containers had ended or it was gone.
func stopByWatch(p *Pod) (stop Instant, known bool) {
	if p.Deleted == nil {
		return Instant{}, false
	}
	stop.Earliest = p.Deleted.Earliest
	switch {
	case p.Exited != nil:
		stop.Latest = p.Exited.Latest
	case p.Gone != nil:
		stop.Latest = p.Gone.Latest
	default:
		stop.Latest = p.Deleted.Latest // still to be seen
	}
	return stop, stop.Earliest <= stop.Latest
}

// lastRouted is when the window's last failed request was sent that a stale route can explain: once
// no endpoint is left, failures have another cause.
func lastRouted(v *view, w *Window) time.Duration {
	last := w.End.Earliest
	for _, empty := range v.emptySpans(w) {
		if empty.whole().overlaps(w.span()) {
			last = min(last, max(empty.start.Latest, w.Start.Latest))
		}
	}
	return last
}

// endpointsBefore counts the ready endpoints before the Pod's own turned away, the Pod's included; 0
// if the watch did not tell.
func endpointsBefore(v *view, w *Window, p *Pod) int {
	if v.laneOff("endpointslice", w) {
		return 0
	}
	book, n := endpointBook{}, 0
	for _, e := range v.service(w).endpoints {
		was := book.ready()
		book.enter(e)
		leaves := e.Object.UID == p.UID && e.From == timeline.EndpointReady && e.To != timeline.EndpointReady
		if leaves && e.At.Earliest <= w.End.Latest {
			n = was
		}
	}
	return n
}

func raceEvidence(v *view, w *Window, r *race) []Evidence {
	var evidence []Evidence
	if r.proved {
		evidence = append(evidence, Evidence{Target: v.direct(r.pod), At: &r.stop, Text: r.pod.Name + " itself stopped answering"})
	}
	evidence = append(evidence, Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + classCounts(w.Classes)})
	return append(evidence, signsOfEnd(v, r.pod)...)
}

// signsOfEnd tells a Pod's end as the watch saw it.
func signsOfEnd(v *view, p *Pod) []Evidence {
	var evidence []Evidence
	add := func(at *Instant, kind timeline.EventKind, text string) {
		if at != nil {
			evidence = append(evidence, Evidence{Event: v.changeOf(p, kind, at), At: at, Text: p.Name + " " + text})
		}
	}
	add(p.Deleted, timeline.PodDeleted, "was deleted")
	add(p.Killing, timeline.KubeEvent, "was being killed by its kubelet")
	add(p.EndpointNotReady, timeline.EndpointChanged, "left the ready endpoints")
	add(p.Exited, timeline.PodContainer, "exited")
	if p.EndpointRemoved != nil && (p.EndpointNotReady == nil || *p.EndpointRemoved != *p.EndpointNotReady) {
		add(p.EndpointRemoved, timeline.EndpointChanged, "left the EndpointSlice")
	}
	return evidence
}

// weighStop lowers the confidence where the Pod's stop was not measured.
func weighStop(c *Cause, r *race) {
	switch {
	case r.proved:
	case r.exited:
		c.Confidence = lower(c.Confidence, Medium)
		c.Rivals = append(c.Rivals, "without a direct target its stop is only known from the watch: any change about that time fits as well")
	default:
		c.Confidence = lower(c.Confidence, Low)
		c.Rivals = append(c.Rivals, "only closeness in time: neither a direct target nor its container's end tells when it stopped")
	}
}

// weighAfter asks whether any request was certainly sent after the Pod had stopped. If not, all of them may have been on
// their way when it exited, with its route as it should be.
func weighAfter(c *Cause, r *race) {
	if !r.after {
		c.Confidence = lower(c.Confidence, Medium)
		c.Rivals = append(c.Rivals, "no failed request was certainly sent after it had stopped: it may have cut those under way when it exited")
	}
}

// weighOthers asks the other Pods' own addresses: if healthy ones failed too, more was wrong than one
// stale route.
func weighOthers(v *view, w *Window, p *Pod, c *Cause) {
	clean := 0
	for _, other := range v.healthyOthers(w, p) {
		name := v.direct(other)
		if trouble := v.outageNear(name, w.span()); trouble != nil {
			c.Confidence = lower(c.Confidence, Medium)
			c.Rivals = append(c.Rivals, fmt.Sprintf("%s failed at its own address as well (%s), though it was ready", other.Name, classCounts(trouble.Classes)))
			continue
		}
		clean++
		c.Evidence = append(c.Evidence, Evidence{Target: name, Text: other.Name + " went on answering at its own address"})
	}
}

// healthyOthers are the Pods that were ready before and not ending, and that were probed directly.
func (v *view) healthyOthers(w *Window, but *Pod) []*Pod {
	var others []*Pod
	for _, p := range v.pods(w) {
		if (but == nil || p.UID != but.UID) && p.FirstOK != nil && *p.FirstOK < w.Start.Latest &&
			!p.terminatingBy(w.End.Latest) && p.readyBy(w.Start.Latest) {
			others = append(others, p)
		}
	}
	return others
}

// weighShare compares how much failed with the share the Pod had of the endpoints.
func weighShare(v *view, w *Window, r *race, c *Cause) {
	switch {
	case v.target(w).Kind != timeline.New:
		return
	case r.peers == 0:
		c.Confidence = lower(c.Confidence, Medium)
		c.Rivals = append(c.Rivals, "how many endpoints were ready is not known: that there was none fits as well")
		if w.Kind == Outage {
			c.Confidence = Low
		}
		return
	}
	expected := 1 / float64(r.peers)
	text := fmt.Sprintf("%d of %d requests failed (%s); one of %d endpoints is %s", w.Failed, w.Sent, percent(w.Share), r.peers, percent(expected))
	c.Evidence = append(c.Evidence, Evidence{Target: w.Target, Text: text})
	if exceeds(w.Failed, w.Sent, expected) {
		c.Confidence = lower(c.Confidence, Medium)
		c.Rivals = append(c.Rivals, "more failed than one Pod's share of the endpoints")
	}
}

// exceeds reports whether more failed than chance allows at this probability: more than three
// standard deviations above the mean. Fewer is no contradiction, for a window also holds the good
// requests between two of its runs of failures.
func exceeds(failed, sent int, p float64) bool {
	mean := float64(sent) * p
	return float64(failed) > mean+3*math.Sqrt(mean*(1-p))+1
}

// raceFix says how long to keep serving: the longest time any route was seen to outlive a Pod of
// this Service in the run, plus a margin, plus what the Pod served already after being told to end.
func raceFix(v *view, w *Window) string {
	worst := longestRace(v, w)
	if worst.race == nil {
		return ""
	}
	margin := max(routeMargin, worst.outlived/4)
	served := servedAfterKilling(worst.race)
	return fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down): %s%s",
		span(roundUp(served+worst.outlived+margin)), worst.text(v, worst.window), alreadyServed(served))
}

func alreadyServed(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", which was %s after it was told to end", span(d))
}

// A raceSeen is a race and the window it was seen in.
type raceSeen struct {
	*race
	window *Window
}

// longestRace is the race of the window's Service whose route outlived its Pod the longest. One whose
// Pod's stop was measured goes before those where it was not.
func longestRace(v *view, w *Window) raceSeen {
	svc := v.service(w)
	if svc.longest != nil {
		return *svc.longest
	}
	svc.longest = &raceSeen{}
	for i := range v.run.Windows {
		other := &v.run.Windows[i]
		if v.target(other).Service != v.target(w).Service {
			continue
		}
		if r, _ := findRace(v, other); r != nil && svc.longest.shorterThan(r) {
			*svc.longest = raceSeen{r, other}
		}
	}
	return *svc.longest
}

func (s raceSeen) shorterThan(r *race) bool {
	if s.race == nil || r.proved != s.proved {
		return s.race == nil || r.proved
	}
	return r.outlived > s.outlived
}

// servedAfterKilling is how long the Pod is known to have served after its kubelet began to end it;
// 0 if that is not known, or so little that the margin holds it.
func servedAfterKilling(r *race) time.Duration {
	if r.pod.Killing == nil || r.stop.Earliest-r.pod.Killing.Latest < routeMargin/10 {
		return 0
	}
	return r.stop.Earliest - r.pod.Killing.Latest
}
