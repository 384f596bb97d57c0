// Package sample makes up the facts of two runs that are worth looking at, and has them judged as those of any run.
// [Run] is a small one: two replicas on two nodes, both nodes drained one after the other, a route that outlives its
// Pod, a moment without any ready endpoint, a Pod that hangs, and a prober that stalls. [Large] is an hour of four
// Services. Nothing of it was measured. It serves the page's tests and its development
// (`go run ./dashboard/internal/shoot dev`).
package sample

import (
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second

	// Length is how long the made-up run takes.
	Length = 72 * s
)

// T0 is when the made-up run began.
var T0 = time.Date(2026, 3, 14, 2, 20, 38, 412_907_113, time.UTC)

// Run returns the made-up run as a live judge would see it at instant now; from [Length] on it has ended.
func Run(now time.Duration) *model.Timeline { return small().judge(now) }

// small makes up the drain of two nodes.
func small() *script {
	const web = "shop/web"
	command := []string{"sh", "-c",
		"kubectl drain node-b --ignore-daemonsets && kubectl drain node-c --ignore-daemonsets"}
	c := newScript(timeline.Meta{
		ID: "20260314-022038-shop-web", Command: command,
		Cluster: timeline.Cluster{Version: "v1.36.3", ProxyMode: "iptables"},
		Services: []timeline.Service{{Namespace: "shop", Name: "web", ClusterIP: "10.96.14.3",
			Ports: []string{"80/TCP → http"}}},
		Options: timeline.Options{Rate: 200, Baseline: 10 * s, Settle: 20 * s, Slow: 200 * ms,
			Gates: []string{"failed > 0", "latency.p99 > 100ms"}},
	}, Length)
	c.pods = []*pod{
		{service: web, name: "web-5c9d8f7b6-x2kzq", node: "node-b", addr: "10.40.1.7", deleted: 10440 * ms,
			stops: 10561 * ms, unrouted: 10640 * ms, gone: 11340 * ms},
		{service: web, name: "web-5c9d8f7b6-9fw4t", node: "node-c", addr: "10.40.2.4", deleted: 42330 * ms,
			stops: 42430 * ms, unrouted: 42490 * ms, gone: 43110 * ms},
		{
			service: web, name: "web-5c9d8f7b6-lm5cd", node: "node-c", addr: "10.40.2.9", created: 10520 * ms,
			listens: 16400 * ms,
			hangs:   span{30 * s, 30280 * ms}, deleted: 42340 * ms, stops: 42436 * ms, unrouted: 42480 * ms,
			gone: 43130 * ms,
		},
		{service: web, name: "web-5c9d8f7b6-qq7hn", node: "node-b", addr: "10.40.1.9", created: 42500 * ms,
			listens: 45470 * ms},
	}
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		c.node(4*ms, name, timeline.NodeReady, "", "true")
		c.node(4*ms, name, timeline.NodeSchedulable, "", "true")
	}
	c.runs(command, 10*s, 52*s)
	c.says(10180*ms, "node/node-b cordoned")
	c.node(10210*ms, "node-b", timeline.NodeSchedulable, "true", "false")
	c.says(10420*ms, "evicting pod "+c.pods[0].String())
	c.says(41900*ms, "node/node-b drained")
	c.says(42150*ms, "node/node-c cordoned")
	c.node(42170*ms, "node-c", timeline.NodeSchedulable, "true", "false")
	c.says(42300*ms, "evicting pod "+c.pods[1].String())
	c.says(42300*ms, "evicting pod "+c.pods[2].String())
	c.says(51950*ms, "node/node-c drained")
	c.stall = span{58 * s, 59250 * ms}
	c.add(timeline.Event{Since: c.stall.from, Seen: c.stall.to, Kind: timeline.ProberStall, Writer: "lapse",
		Detail: "the prober did not run for 1.25 s"})
	c.add(timeline.Event{Since: 61 * s, Seen: 63 * s, Kind: timeline.WatchGap, Writer: "lapse",
		Object: timeline.Object{Kind: "Pod"}, Detail: "watch closed: too old resource version"})

	c.measure(timeline.New, web, 200)
	c.measure(timeline.Reused, web, 200)
	for _, p := range c.pods {
		c.direct(p, 100)
	}
	c.measure(timeline.Control, "", 100)
	return c
}
