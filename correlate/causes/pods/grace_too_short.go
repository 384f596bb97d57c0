package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// grace-too-short: a Pod had not ended when its grace period was over, and its kubelet killed it. What was in flight
// then is cut, all in one instant: neither the routes nor the way of closing connections is to blame.
//
//	Pod    deleted ───── grace period ─────┤ SIGKILL, exit code 137
//	svc    ok ok ok ok (3 s each) …        x x x x x x     those under way

// killLate is how long after the end of the grace period a kubelet kills: it gives 2 s more to a Pod whose hook took
// all of it. https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution
const killLate = 2500 * time.Millisecond

// A kill is the end of a Pod whose grace period was over.
type kill struct {
	pod   *model.Pod
	grace time.Duration
	at    model.Instant // when it was killed
	ended *model.Event  // its container's end
	until time.Duration // no request can have been sent to it later
	cut   int           // requests that were in flight then
	taken time.Duration // the longest of these so far
	sent  time.Duration // how long after the Pod's deletion the last of these was sent, at most
	last  time.Duration // when that was
}

var GraceTooShort = rule.Rule{
	Name:  "grace-too-short",
	Doc:   "A Pod was killed at the end of its grace period with requests in flight.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsCut},
	Test:  testGraceTooShort,
	Held:  testHeldGrace,
}

func testGraceTooShort(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	kills := kills(v, w)
	if len(kills) == 0 {
		return rule.No("no Pod was killed at the end of its grace period")
	}
	cut := 0
	for i := range kills {
		kills[i].count(v.Traffic.Failures(w))
		cut += kills[i].cut
	}
	kills = slices.DeleteFunc(kills, func(k kill) bool { return k.cut == 0 })
	if len(kills) == 0 {
		return rule.No("nothing was cut when Pods were killed at the end of their grace periods")
	}
	f := rule.Finding{}
	var names []string
	for _, k := range kills[:min(len(kills), rule.MostNamed)] {
		names = append(names, k.pod.Name)
		f.For = append(f.For, k.signs(v, w)...)
	}
	first := kills[0]
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.Start, quantity.Count(cut, "request")+
		" in flight were cut then"))
	if w.Cut == nil {
		f.Lack(evidence.Measured.Doubt("whether they were cut at the same moment was not seen"))
	}
	f.Text = fmt.Sprintf("%s %s killed at the end of the grace period of %s with %s in flight",
		quantity.Names(names), quantity.Was(len(names)), quantity.Span(first.grace), quantity.Count(cut, "request"))
	f.Fix = graceFix(v, w, kills)
	f.ExplainsAtMost(w, cut)
	return f
}

// kills returns the Pods behind the window that were killed at the end of their grace periods about it.
func kills(v *evidence.Evidence, w *model.Window) (kills []kill) {
	for _, p := range v.Services.Pods(w) {
		deleted := v.Changes.Event(v.Changes.IDOf(p, timeline.PodDeleted, p.Deleted))
		if deleted == nil || deleted.Grace == nil || *deleted.Grace == 0 ||
			!v.Services.WasEndpoint(w, p, w.End.Latest) {
			continue
		}
		k := kill{pod: p, grace: *deleted.Grace, until: lastTaken(v, w, p)}
		due := model.Instant{Earliest: p.Deleted.Earliest + k.grace, Latest: p.Deleted.Latest + k.grace + killLate}
		for _, e := range v.Changes.About[p.UID] {
			if e.Kind == timeline.PodContainer && e.To == "terminated" && e.ExitCode != nil &&
				*e.ExitCode == evidence.Killed && !strings.Contains(e.Detail, "OOMKilled") && e.At.Overlaps(due) {
				k.ended = e
				k.at = model.Instant{Earliest: max(due.Earliest, e.At.Earliest), Latest: min(due.Latest, e.At.Latest)}
			}
		}
		if k.ended != nil && k.at.Overlaps(model.Instant{Earliest: w.Start.Earliest, Latest: w.End.Latest}) {
			kills = append(kills, k)
		}
	}
	slices.SortStableFunc(kills, func(a, b kill) int { return cmp.Compare(a.at.Earliest, b.at.Earliest) })
	return kills
}

// lastTaken returns until when a Pod can have taken requests of a window's target: on kept connections it may do so
// after it stopped listening, unless that is when the container that serves ended.
func lastTaken(v *evidence.Evidence, w *model.Window, p *model.Pod) time.Duration {
	own := v.Addresses.Probe(w, p)
	if own.Stopped == nil || !v.Services.RefusedAtLast(p) || v.Traffic.Target(w).Kind != timeline.New &&
		v.Endings.EndedInParts(&evidence.PodStop{Pod: p, Target: own.Target, At: *own.Stopped}) == nil {
		return model.Never
	}
	return own.Stopped.Latest
}

// count counts the requests that were under way when the Pod was killed.
func (k *kill) count(failures []model.Failure) {
	for i := range failures {
		f := &failures[i]
		if evidence.CutIn(f, k.at) && f.Earliest() < k.at.Latest && f.Sent <= k.until {
			k.cut++
			k.taken = max(k.taken, f.Done-f.Sent)
			k.sent = max(k.sent, f.Sent-k.pod.Deleted.Earliest)
			k.last = max(k.last, f.Sent)
		}
	}
}

// signs returns the Pod's end, in the order in which one thing led to the next.
func (k *kill) signs(v *evidence.Evidence, w *model.Window) []evidence.Sign {
	deleted := fmt.Sprintf("%s was deleted, with a grace period of %s", k.pod.Name, quantity.Span(k.grace))
	killed := fmt.Sprintf("%s was killed when that was over (exit code %d)", k.pod.Name, evidence.Killed)
	signs := []evidence.Sign{
		evidence.Context.Event(v.Changes.IDOf(k.pod, timeline.PodDeleted, k.pod.Deleted), k.pod.Deleted, deleted),
		evidence.Watched.Seen(k.ended, killed),
	}
	if own := v.Addresses.Probe(w, k.pod); own.Stopped != nil && own.Stopped.Overlaps(k.at) {
		signs = append(signs, evidence.Measured.Target(own.Target, own.Stopped,
			k.pod.Name+" stopped answering new clients then"))
	}
	return signs
}

// graceFix says how long a grace period the requests needed that were cut.
func graceFix(v *evidence.Evidence, w *model.Window, kills []kill) string {
	worst := slices.MaxFunc(kills, func(a, b kill) int { return cmp.Compare(a.sent, b.sent) })
	longest := time.Duration(0)
	for _, k := range kills {
		longest = max(longest, k.taken)
	}
	for i := range v.Run.Targets {
		if t := &v.Run.Targets[i]; t.Kind.Judged() && t.Service == v.Traffic.Target(w).Service && t.Latency != nil {
			longest = max(longest, t.Latency.Max)
		}
	}
	hook := ""
	if sleep := preStopSleep(v, worst.pod); sleep > 0 {
		hook = fmt.Sprintf(", its preStop hook took %s of that", quantity.Span(min(sleep, worst.grace)))
	}
	needs := worst.sent + longest + time.Second
	took := "requests take"
	if longest == worst.taken {
		took = "requests were cut that had taken"
	}
	toTheEnd, end := "", worst.at.Latest
	if w.Cut != nil && len(kills) == 1 {
		end = min(end, w.Cut.Latest)
	}
	if worst.last >= end-time.Second/2 {
		toTheEnd = "; it took new ones until it was killed: if it does not stop by itself, SIGTERM may not reach its " +
			"server (a shell as process 1 passes none on), and no grace period is long enough"
	}
	least := int((needs + time.Second - 1) / time.Second)
	give := fmt.Sprintf("terminationGracePeriodSeconds ≥ %d (it is %s%s)", least, quantity.Span(worst.grace), hook)
	if own := ownGrace(v, worst.pod); own > worst.grace {
		give = fmt.Sprintf("delete with the Pod's own grace period of %s, and not with %s (--grace-period)",
			quantity.Span(own), quantity.Span(worst.grace))
		if needs > own {
			give += fmt.Sprintf(", and raise terminationGracePeriodSeconds to ≥ %d", least)
		}
	}
	return fmt.Sprintf("%s: %s still took requests up to %s after its deletion, and %s up to %s%s",
		give, worst.pod.Name, quantity.Span(worst.sent), took, quantity.Span(longest), toTheEnd)
}

// ownGrace returns a Pod's terminationGracePeriodSeconds, 0 if that is not known.
func ownGrace(v *evidence.Evidence, p *model.Pod) time.Duration {
	if t := v.Templates[p.Template]; t != nil {
		return t.Grace
	}
	return 0
}

// preStopSleep returns how long a Pod's hooks sleep, the longest; 0 if that is not known.
func preStopSleep(v *evidence.Evidence, p *model.Pod) (longest time.Duration) {
	if t := v.Templates[p.Template]; t != nil {
		for _, c := range t.Containers {
			if c.PreStop != nil {
				longest = max(longest, c.PreStop.Sleep)
			}
		}
	}
	return longest
}
