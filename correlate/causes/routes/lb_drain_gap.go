package routes

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

// lb-drain-gap: a node could not take connections for a Service any more, and a load balancer outside of the cluster
// went on sending them there, until its own health checks had failed or it was told to leave the node out.
//
//	lb address     ok ok t  ok t  ok ok t  ok ok ok ok ok     the node's share
//	node's check   ok ok -  -  -  -  -  -  -  -  -  -  -      asked by Lapse, once per second
//	svc            ok ok ok ok ok ok ok ok ok ok ok ok ok     if the Service is measured too

var LBDrainGap = rule.Rule{
	Name:  "lb-drain-gap",
	Doc:   "A load balancer kept sending connections to a node that could no longer take them.",
	Needs: []rule.Need{rule.RequestsFailed},
	Only:  func(c *rule.Case) bool { return c.Services.Outside(c.Window) != "" },
	Test:  testLBDrainGap,
}

// A nodeGap is a time in which a node's health check did not say that connections can be sent there.
type nodeGap struct {
	node    string
	service string        // whose health-check node port was asked; empty: kube-proxy's own
	said    *model.Event  // how it began
	back    *model.Event  // how it ended; nil if it went on
	from    model.Instant // when it began
	until   time.Duration // it went on at least until then
}

func testLBDrainGap(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	n := evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable,
		timeline.Refused, timeline.Reset, timeline.EOF, timeline.NoSlot) + v.Traffic.AnsweredByNobody(w)
	if n == 0 {
		return rule.No("each failed request was answered by a Pod")
	}
	if empty, _ := c.Addresses.EmptyIn(c.Window); empty != nil {
		return rule.No("the Service had no endpoint to send requests to")
	}
	if node := nodeAt(v, v.Services.Outside(w)); node != "" {
		return rule.No("requests go to the address of " + node + " itself")
	}
	asked := checkedNodes(v, w)
	if len(asked) == 0 {
		return rule.No("no node's health check was asked")
	}
	all := gapsBy(v, w)
	gaps := gapsAt(v, w, all)
	if len(gaps) == 0 {
		return rule.No(fmt.Sprintf("the health checks of %s went on as before when requests began to fail",
			quantity.Count(len(asked), "node")))
	}
	f := lbGap(v, w, gaps, all)
	nodesShare(v, w, len(nodesOf(gaps)), len(asked), &f)
	besideTheBalancer(v, w, &f)
	f.ExplainsAtMost(w, n)
	return f
}

// checkedNodes returns the nodes whose health checks were once good, by name.
func checkedNodes(v *evidence.Evidence, w *model.Window) (nodes []string) {
	for _, e := range v.Changes.Checks {
		if e.To == timeline.CheckHealthy && checkConcerns(v, w, e) && e.Seen <= w.End.Latest &&
			!slices.Contains(nodes, e.Object.Name) {
			nodes = append(nodes, e.Object.Name)
		}
	}
	return nodes
}

// nodeAt returns the node that is asked at an address, "" if none is.
func nodeAt(v *evidence.Evidence, host string) string {
	for _, e := range v.Changes.Checks {
		if !e.Object.IsZero() && e.Addr.String() == host {
			return e.Object.Name
		}
	}
	return ""
}

// checkConcerns reports whether a load balancer before the window's Service can have asked this check. What stands
// behind a bare URL can be any Service of the run.
func checkConcerns(v *evidence.Evidence, w *model.Window, e *model.Event) bool {
	service := v.Traffic.Target(w).Service
	return !e.Object.IsZero() && (e.Service == "" || service == "" || e.Service == service)
}

// checkEvery is how far apart Lapse's checks of one node are, and for how long it awaits an answer at most.
const checkEvery = time.Second + 800*time.Millisecond

// gapsBy returns the gaps that went on beyond the window's start, and that no single lost check can have made.
func gapsBy(v *evidence.Evidence, w *model.Window) (gaps []nodeGap) {
	for i, e := range v.Changes.Checks {
		if e.From != timeline.CheckHealthy || e.To == timeline.CheckRefused || !checkConcerns(v, w, e) {
			continue
		}
		g := nodeGap{node: e.Object.Name, service: e.Service, said: e, from: e.At, until: v.Traffic.End()}
		for _, later := range v.Changes.Checks[i+1:] {
			if later.Object.Name == g.node && later.Service == e.Service && later.To != e.To {
				g.back, g.until = later, later.At.Earliest
				break
			}
		}
		if g.until-g.from.Latest >= checkEvery/2 && g.until >= w.Start.Latest {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// gapsAt returns the gaps that began as the window's requests began to fail: one for each node, its Service's own port
// first.
func gapsAt(v *evidence.Evidence, w *model.Window, all []nodeGap) []nodeGap {
	gaps := slices.DeleteFunc(slices.Clone(all), func(g nodeGap) bool { return !beganWith(v, w, g) })
	slices.SortStableFunc(gaps, func(a, b nodeGap) int { return cmp.Compare(len(b.service), len(a.service)) })
	seen := map[string]bool{}
	return slices.DeleteFunc(gaps, func(g nodeGap) bool {
		was := seen[g.node]
		seen[g.node] = true
		return was
	})
}

// beganWith reports whether requests began to fail as the gap began; or later, when the Pod stopped that the node had
// been left with: with externalTrafficPolicy: Local the node says no as soon as its last endpoint is to end, and that
// may serve on for a while.
func beganWith(v *evidence.Evidence, w *model.Window, g nodeGap) bool {
	switch {
	case w.Start.Latest < g.from.Earliest || w.Start.Earliest > g.until:
		return false
	case w.Start.Earliest <= g.from.Latest:
		return true
	}
	return g.service != "" && slices.ContainsFunc(v.Endings.Stopped(w), func(s *evidence.PodStop) bool {
		return s.Pod.Node == g.node
	})
}

func nodesOf(gaps []nodeGap) (names []string) {
	for _, g := range gaps {
		names = append(names, g.node)
	}
	slices.Sort(names)
	return names
}

// followedLate returns for how long connections were still sent to these nodes after the gap of the first. Once another
// node's gap may have begun, failures may be of that one: unless it began before, and requests did not fail then.
func followedLate(v *evidence.Evidence, w *model.Window, nodes []string, g nodeGap, all []nodeGap) model.Length {
	until := model.Instant{Earliest: w.End.Earliest, Latest: w.End.Latest}
	since := min(g.from.Latest, w.Start.Earliest)
	for _, other := range all {
		if !slices.Contains(nodes, other.node) && (other.from.Latest >= since || beganWith(v, w, other)) {
			until.Earliest = min(until.Earliest, other.from.Earliest)
		}
	}
	return evidence.Length(g.from, until)
}

// lbGap returns the finding without what other ways say.
func lbGap(v *evidence.Evidence, w *model.Window, gaps, all []nodeGap) rule.Finding {
	g, nodes := gaps[0], nodesOf(gaps)
	names, lag := quantity.Names(nodes), followedLate(v, w, nodes, g, all)
	took := quantity.Length(lag, w.Open.End)
	f := rule.Finding{Measures: []model.Measure{{Name: "lb-lag", Object: g.node, Node: g.node,
		Length: followedLate(v, w, []string{g.node}, g, all)}}}
	f.For = []evidence.Sign{
		evidence.Measured.Seen(g.said, g.says()),
		evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes)),
	}
	what := "did not answer its health check any more"
	fix := "have the load balancer ask more often, or give up after fewer checks"
	if g.said.To == timeline.CheckUnhealthy {
		what = "said at its health check that it takes no connections"
		fix = fmt.Sprintf("take a node out of the load balancer ≥ %s before it goes",
			quantity.Span(quantity.RoundUp(lag.Max)))
	}
	if left := leftNode(v, w, g); g.service != "" && left != nil {
		what = fmt.Sprintf("had no ready endpoint of its own any more (externalTrafficPolicy: Local; %s left last), "+
			"and said so at its health-check node port", left.Object.Name)
		fix = fmt.Sprintf("keep serving ≥ %s after SIGTERM, for a load balancer needs that long to notice",
			quantity.Span(quantity.RoundUp(lag.Max+evidence.RouteMargin)))
		f.For = append(f.For, evidence.Context.Seen(left, left.Object.Name+", the last ready endpoint on "+g.node+
			", left"))
	}
	f.Text = fmt.Sprintf("%s still sent connections to %s for %s after it %s", v.Services.Router(w), names, took, what)
	f.Fix = fmt.Sprintf("%s: connections to %s failed for %s; its interval, its threshold and its deregistration "+
		"delay say how long that takes", fix, names, took)
	switch {
	case w.Open.End:
	case g.back != nil && g.back.To == timeline.CheckHealthy && g.back.At.Overlaps(w.End):
		f.Text += "; it ended when the node was back"
		f.For = append(f.For, evidence.Context.Seen(g.back, g.node+" was healthy again"))
	case g.until > w.End.Latest:
		f.For = append(f.For, evidence.Watched.Target(w.Target, &w.End,
			"requests failed no more, while the node's check still did: the load balancer had left it out"))
	}
	return f
}

// says returns what a node's health check said as the gap began.
func (g *nodeGap) says() string {
	port := "its health check (kube-proxy's)"
	if g.service != "" {
		port = "its health-check node port of " + evidence.NameOf(g.service)
	}
	if g.said.To == timeline.CheckUnanswered {
		return fmt.Sprintf("%s did not answer at %s: %s", g.node, port, cmp.Or(g.said.Detail, "no answer"))
	}
	return fmt.Sprintf("%s said no at %s: %s", g.node, port, shortened(g.said.Detail))
}

// shortened returns the first line of a text.
func shortened(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// leftNode returns how the last ready endpoint on a node left, as the gap began; nil if that was not seen.
func leftNode(v *evidence.Evidence, w *model.Window, g nodeGap) (last *model.Event) {
	for _, e := range v.Services.Service(w).Endpoints {
		if e.Object.Node == g.node && e.From == timeline.EndpointReady && e.Seen <= g.from.Latest {
			last = e
		}
	}
	return last
}

// nodesShare compares the share of failed requests with the share of the nodes that are gone.
func nodesShare(v *evidence.Evidence, w *model.Window, gone, all int, f *rule.Finding) {
	if v.Traffic.Target(w).Kind != timeline.New || w.Kind == model.Slow {
		return
	}
	share := min(1, float64(gone)/float64(all))
	f.For = append(f.For,
		evidence.Context.Target(w.Target, nil, fmt.Sprintf("%d of %d requests failed (%s); %s of %s is %s", w.Failed,
			w.Sent, quantity.Percent(w.Share), rule.Number(gone), quantity.Count(all, "node"),
			quantity.Percent(share))))
	switch {
	case evidence.Exceeds(w.Failed, w.Sent, share):
		f.Oppose(evidence.Close.Doubt("more failed than the share of " + quantity.Count(gone, "node")))
	case w.Share < share/4:
		f.Oppose(evidence.Close.Doubt("far fewer failed than the share of " + quantity.Count(gone, "node")))
	}
}

// besideTheBalancer looks at targets of the same run whose requests go to the same Service, and not by way of the
// load balancer.
func besideTheBalancer(v *evidence.Evidence, w *model.Window, f *rule.Finding) {
	own := v.Traffic.Target(w)
	var well, ill []string
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Service == "" || own.Service != "" && t.Service != own.Service || t.Kind != timeline.New ||
			t.Name == own.Name || v.Services.Outside(&model.Window{Target: t.Name}) != "" {
			continue
		}
		if answered, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest); v.Traffic.OutageNear(t.Name,
			w.Span()) == nil && sent > 0 && answered == sent {
			well = append(well, t.Name)
		} else if sent > 0 {
			ill = append(ill, t.Name)
		}
	}
	f.Beside(well, ill, "requests to the Service by another way were answered meanwhile",
		"requests that do not go by the load balancer failed as well (%s)",
		"the Service was not measured by another way: whether its routes and Pods were well is not known")
}
