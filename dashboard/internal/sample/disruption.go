package sample

import (
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Disruption is a small made-up run of a guard: one of two Pods of a Service is replaced.
type Disruption struct {
	ID       string
	At       time.Time
	Service  string        // shop/NAME
	Node     string        // that is drained
	Rollout  bool          // and no drain
	Releases []string      // hashes of templates: of the Pods that are there, and of the new one if it is another
	Drops    time.Duration // for how long the Pod that stopped is routed to
	Stalls   bool          // the prober does not run for half of it
}

// Judged returns the run, judged.
func (d Disruption) Judged() *model.Timeline {
	name := strings.TrimPrefix(d.Service, "shop/")
	c := newScript(timeline.Meta{
		ID: d.ID, Cluster: timeline.Cluster{Version: "v1.36.3", ProxyMode: "iptables"},
		Services: []timeline.Service{{Namespace: "shop", Name: name}},
		Options:  timeline.Options{Rate: 20, Baseline: 10 * s, Settle: 10 * s, Gates: []string{"failed > 0"}},
	}, 40*s)
	c.meta.T0 = d.At
	of := func(release string) string { return "ReplicaSet/" + name + "-" + release }
	before, after := of(d.Releases[0]), of(d.Releases[len(d.Releases)-1])
	c.pods = []*pod{
		{service: d.Service, name: name + "-x2kzq", node: d.Node, addr: "10.40.1.7", owner: before, deleted: 12 * s,
			stops: 12200 * ms, unrouted: 12150*ms + d.Drops, gone: 14 * s},
		{service: d.Service, name: name + "-9fw4t", node: "node-a", addr: "10.40.2.7", owner: before},
		{service: d.Service, name: name + "-qq7hn", node: "node-b", addr: "10.40.3.7", owner: after, created: 11 * s,
			listens: 14 * s},
	}
	c.add(timeline.PhaseChange(10*s, timeline.PhaseBaseline, timeline.PhaseMeasuring, ""))
	c.node(4*ms, d.Node, timeline.NodeSchedulable, "", "true")
	if !d.Rollout {
		c.node(10500*ms, d.Node, timeline.NodeSchedulable, "true", "false")
	}
	if d.Stalls {
		c.stall = span{15 * s, 35 * s}
		c.add(timeline.Event{Since: c.stall.from, Seen: c.stall.to, Kind: timeline.ProberStall, Writer: "lapse"})
	}
	c.add(timeline.PhaseChange(c.length, timeline.PhaseMeasuring, timeline.PhaseEnded, ""))
	c.measure(timeline.New, d.Service, 20)
	return c.judge(c.length)
}
