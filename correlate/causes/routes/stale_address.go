package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// stale-address: a client of a headless Service was given the address of a Pod that had left. Nothing stands between
// client and Pod: what has to follow is the DNS server's answer, and whatever keeps it until its TTL is over.
//
//	endpoint web-1   ready ready terminating absent
//	answer           1 2 3 1 2 3 1 2 3 1 2 3 1 2 3  2 3 2 3
//	dialled          1 2 3 1 2 3 x 2 3 x 2 3 x 2 3  2 3 2 3    1 in 3 fails
//
// Which address each connection went to is known, so nothing is inferred from shares.

var StaleAddress = rule.Rule{
	Name:  "stale-address",
	Doc:   "The name of a headless Service still had the address of a Pod that was no endpoint any more.",
	Needs: []rule.Need{rule.RequestsFailed, rule.EndpointSlices, rule.EndpointsWatched},
	Only:  func(c *rule.Case) bool { return c.Evidence.Traffic.Target(c.Window).Turns },
	Test:  testStaleAddress,
}

// A staleDial is an address that connections went to after its endpoint had left.
type staleDial struct {
	addr     netip.Addr
	left     *model.Event // by which it was no ready endpoint any more
	pod      *model.Pod   // nil if none is known
	stopped  *model.Instant
	target   string // that probes the address itself; "" if none does
	after    int    // failed connections that were surely begun after it had left
	all      int    // those too that may have been begun before
	lastSent time.Duration
}

func testStaleAddress(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	dials, whyNot := staleDials(v, w)
	if len(dials) == 0 {
		return rule.No(whyNot)
	}
	f := rule.Finding{}
	explained, after := 0, 0
	for _, d := range dials {
		explained, after = explained+d.all, after+d.after
		f.For = append(f.For, d.signs(v, w)...)
		f.Measures = append(f.Measures, model.Measure{Name: model.NameLag, Object: d.name(), Length: d.lag(w)})
		f.Oppose(d.doubts(v)...)
	}
	longest := slices.MaxFunc(dials, func(a, b staleDial) int { return int(a.lag(w).Min - b.lag(w).Min) })
	if after > 0 {
		f.For = append(f.For, evidence.Measured.Target(w.Target, &w.Start,
			fmt.Sprintf("%s went to %s after that, and failed", quantity.Count(after, "connection"),
				namesOfDials(dials))))
	} else {
		f.Lack(evidence.Measured.Doubt("whether the endpoint had left when the connection was begun is not known: " +
			"it was about the same time"))
	}
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, nil)...)...)
	name := v.Services.Router(w)
	f.Text = fmt.Sprintf(
		"%s still led to %s for ≥ %s after its endpoint had left, and %d of %d failed requests went there", name,
		longest.name(), quantity.Lowest(longest.lag(w).Min), explained, w.Failed)
	if after == 0 {
		f.Text = fmt.Sprintf("%s still led to %s when it had stopped, and %d of %d failed requests went there", name,
			longest.name(), explained, w.Failed)
	}
	if len(dials) > 1 {
		f.Text = fmt.Sprintf("%s still led to %s after their endpoints had left, to %s for ≥ %s, and %d of %d "+
			"failed requests went there", name, namesOfDials(dials),
			longest.name(), quantity.Lowest(longest.lag(w).Min), explained, w.Failed)
	}
	worst, of := longestDialled(v, w)
	f.Fix = fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down), and "+
		"longer where clients keep what DNS has answered", quantity.Span(worst.needed(v)))
	if lag := worst.lag(of).Min; lag > 0 {
		f.Fix += fmt.Sprintf(": %s still led to %s ≥ %s after its endpoint had left", name, worst.name(),
			quantity.Lowest(lag))
	}
	f.ExplainsAtMost(w, explained)
	return f
}

// staleDials returns the addresses that failed connections of a window went to after their endpoints had left, or why
// there are none.
func staleDials(v *evidence.Evidence, w *model.Window) (dials []staleDial, whyNot string) {
	whyNot = "where the failed connections went is not known"
	dialled := func(class timeline.Class) bool { // each request of kind new is a connection of its own
		return windows.Unconnected(class) || v.Traffic.Target(w).Kind == timeline.New &&
			slices.Contains(evidence.CutClasses, class)
	}
	for _, f := range v.Traffic.Failures(w) {
		peer, err := netip.ParseAddrPort(f.Peer)
		if err != nil || !dialled(f.Class) {
			continue
		}
		left := leftBefore(v, w, peer.Addr(), f.Latest())
		if left == nil {
			whyNot = fmt.Sprintf("%s was a ready endpoint when connections to it failed", peer.Addr())
			continue
		}
		i := slices.IndexFunc(dials, func(d staleDial) bool { return d.left == left })
		if i < 0 {
			d := staleDial{addr: peer.Addr(), left: left}
			d.pod, whyNot = endedBehind(v, w, left)
			if whyNot != "" {
				continue
			}
			if d.pod != nil {
				probe := v.Addresses.Probe(w, d.pod)
				d.target, d.stopped = probe.Target, probe.Stopped
			}
			i, dials = len(dials), append(dials, d)
		}
		d := &dials[i]
		d.all++
		if left.At.Latest <= f.Earliest() {
			d.after++
			d.lastSent = max(d.lastSent, f.Earliest())
		}
	}
	// One that may have been begun before tells something only of a Pod that had surely stopped.
	if dials = slices.DeleteFunc(dials, func(d staleDial) bool {
		return d.after == 0 && d.stopped == nil
	}); len(dials) == 0 && whyNot == "" {
		whyNot = "no connection that failed was surely begun after an endpoint had left"
	}
	return dials, whyNot
}

// longestDialled returns the address that connections to the window's Service went to for longest after its endpoint
// had left, in any window of the run, and that window.
func longestDialled(v *evidence.Evidence, w *model.Window) (worst staleDial, of *model.Window) {
	for i := range v.Run.Windows {
		other := &v.Run.Windows[i]
		if t := v.Traffic.Target(other); !t.Turns || t.Service != v.Traffic.Target(w).Service ||
			other.Kind == model.Slow {
			continue
		}
		dials, _ := staleDials(v, other)
		for _, d := range dials {
			if of == nil || d.lag(other).Min > worst.lag(of).Min {
				worst, of = d, other
			}
		}
	}
	return worst, of
}

// leftBefore returns the event by which an address was no ready endpoint of the window's Service at an instant; nil if
// it was one, or was never seen to be.
func leftBefore(v *evidence.Evidence, w *model.Window, addr netip.Addr, at time.Duration) (left *model.Event) {
	for _, e := range v.Services.Service(w).Endpoints {
		if e.Addr != addr || e.At.Earliest > at {
			continue
		}
		switch was, is := cluster.IsReady(e.From), cluster.IsReady(e.To); {
		case is:
			left = nil
		case was:
			left = e
		}
	}
	return left
}

// endedBehind returns the Pod whose endpoint left because the Pod was to end. Of an endpoint without a Pod nothing is
// known; one that left for another reason has another cause.
func endedBehind(v *evidence.Evidence, w *model.Window, left *model.Event) (pod *model.Pod, whyNot string) {
	if left.Object.Kind != "Pod" {
		return nil, ""
	}
	for _, p := range v.Services.Pods(w) {
		if p.UID != left.Object.UID {
			continue
		}
		if !p.TerminatingBy(left.At.Latest) {
			return nil, p.Name + " left the ready endpoints, and was not ending"
		}
		return p, ""
	}
	return nil, ""
}

func (d *staleDial) name() string {
	if d.left.Object.Kind == "Pod" {
		return d.left.Object.Name
	}
	return d.addr.String()
}

// lag returns how long connections went to the address after its endpoint had left.
func (d *staleDial) lag(w *model.Window) model.Length {
	least := max(0, d.lastSent-d.left.At.Latest)
	return model.Length{Min: least, Max: max(least, w.End.Latest-d.left.At.Earliest)}
}

// needed returns how long after its end had begun the Pod would have had to serve: so long connections went to it
// at least.
func (d *staleDial) needed(v *evidence.Evidence) time.Duration {
	since := max(0, d.lastSent-d.left.At.Earliest)
	return quantity.RoundUp(since + v.Run.Run.SleepMargin(since))
}

func (d *staleDial) signs(v *evidence.Evidence, w *model.Window) (signs []evidence.Sign) {
	if p := d.pod; p != nil && p.Deleted != nil {
		signs = []evidence.Sign{
			evidence.Context.Event(v.Changes.IDOf(p, timeline.PodDeleted, p.Deleted), p.Deleted, p.Name+" was deleted"),
		}
	}
	signs = append(signs, evidence.Watched.Seen(d.left, fmt.Sprintf("%s (%s) left the ready endpoints", d.name(),
		d.addr)))
	if d.stopped != nil {
		signs = append(signs, evidence.Measured.Target(d.target, d.stopped, d.name()+" stopped answering new clients"))
	}
	return signs
}

// doubts returns a doubt if the address still answered its own probe.
func (d *staleDial) doubts(v *evidence.Evidence) []evidence.Sign {
	if d.target == "" || d.stopped != nil {
		return nil
	}
	return []evidence.Sign{evidence.Watched.Doubt(fmt.Sprintf("%s went on answering at its own address", d.name()))}
}

func namesOfDials(dials []staleDial) string {
	var names []string
	for _, d := range dials {
		if !slices.Contains(names, d.name()) {
			names = append(names, d.name())
		}
	}
	return quantity.Names(names)
}
