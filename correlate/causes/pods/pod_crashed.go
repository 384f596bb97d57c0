package pods

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// pod-crashed: a container ended unasked. The Pod's endpoint is ready until its kubelet has
// noticed and the EndpointSlice was changed, and requests go on being sent there.
//
//	Pod      running   terminated (exit code 1)      running
//	direct   ok ok ok  x x x x x x x x x x x x x x   ok ok
//	svc      ok ok ok  x ok x ok  ok ok ok ok ok     1/N, until the endpoint has left

var PodCrashed = rule.Rule{
	Name:  "pod-crashed",
	Doc:   "A Pod's container ended without having been asked to, and requests were still routed to the Pod.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Test:  testPodCrashed,

	Reasons: []string{evidence.ProbeKilled, outOfMemory},
}

// outOfMemory is the reason of a crash: the container had used up its memory limit.
const outOfMemory = "out-of-memory"

func testPodCrashed(c *rule.Case) rule.Finding {
	crashes, whyNot := routedCrashes(c, func(cr crash) bool {
		return cr.ended == nil && cr.anew == nil
	}, "no container ended by itself while its Pod was routed to")
	if whyNot != "" {
		return rule.No(whyNot)
	}
	f := rule.Finding{Text: crashText(crashes), Reason: crashReason(crashes[0])}
	crashed(c, crashes, &f)
	asked := "nobody had asked for it"
	if code := crashes[0].event.ExitCode; f.Reason == "" && c.Watches.LaneOff("event", c.Window) && code != nil &&
		slices.Contains([]int{0, 143, evidence.Killed}, *code) { // as SIGTERM ends a process, or SIGKILL
		f.Lack(evidence.Measured.Doubt("Events could not be watched: its kubelet may have ended it, as after a " +
			"failed probe, or for a resize in place"))
		asked = "nobody is known to have asked for it"
	}
	f.Fix = crashFix(crashes, asked)
	if gap := c.Watches.Silence(c.Window); gap != nil {
		f.For = append(f.For, evidence.Context.Seen(gap, "meanwhile "+gap.Detail))
		f.Fix += fmt.Sprintf("; it was routed to for so long (%s) while the API server gave no sign of life, and so "+
			"no EndpointSlice could be changed", quantity.Length(c.Window.Length, c.Window.Open != model.Open{}))
	}
	return f
}

func crashText(crashes []crash) string {
	var names []string
	for _, cr := range crashes {
		if !slices.Contains(names, cr.pod.Name) {
			names = append(names, cr.pod.Name)
		}
	}
	first := crashes[0]
	if len(names) == 1 {
		return fmt.Sprintf("%s's container %s, and requests were still routed to the Pod", first.pod.Name, first.how())
	}
	return fmt.Sprintf("containers of %s ended, and requests were still routed to these Pods (%s: %s)",
		quantity.Names(names), first.pod.Name, first.how())
}

// crashReason returns why a container ended, as far as its kubelet says.
func crashReason(cr crash) string {
	switch {
	case cr.kill != nil:
		return evidence.ProbeKilled
	case strings.Contains(cr.event.Detail, "OOMKilled"):
		return outOfMemory
	}
	return ""
}

// crashFix says what to do. asked says who had asked for it, as far as is known.
func crashFix(crashes []crash, asked string) string {
	cr := crashes[0]
	what := quantity.Count(len(crashes), "container")
	switch crashReason(cr) {
	case evidence.ProbeKilled:
		return fmt.Sprintf("let such a probe ask only whether the process must be restarted, and give it more time: "+
			"it ended %s", what)
	case outOfMemory:
		return fmt.Sprintf("raise the memory limit, or use less: %s ran out of memory", what)
	}
	return fmt.Sprintf("find out why with kubectl logs --previous %s: %s ended, and %s", cr.pod.Name, what, asked)
}
