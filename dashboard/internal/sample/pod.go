package sample

import (
	"fmt"
	"net/netip"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A pod is the life of a made-up Pod.
type pod struct {
	service, name, node, addr string
	owner                     string // KIND/NAME

	created, listens time.Duration // 0: before the run
	hangs            span          // answers nothing

	deleted, stops, unrouted, gone time.Duration // 0: not in this run
}

func (p *pod) String() string { return "shop/" + p.name }

func (p *pod) object() timeline.Object {
	return timeline.Object{Kind: "Pod", Namespace: "shop", Name: p.name, UID: "uid-" + p.name, Node: p.node}
}

func (p *pod) started() time.Duration { return p.created + 1020*ms }
func (p *pod) ready() time.Duration   { return p.listens + 40*ms }

// routed is while its Service's address leads to it.
func (p *pod) routed() span {
	r := span{0, model.Never}
	if p.created > 0 {
		r.from = p.ready() + 30*ms
	}
	if p.deleted > 0 {
		r.to = p.unrouted
	}
	return r
}

// serves reports whether it answers connections.
func (p *pod) serves(at time.Duration) bool {
	return at >= p.listens && (p.deleted == 0 || at < p.stops)
}

// life are the events of the Pod and of its endpoint.
func (p *pod) life() []timeline.Event {
	var all []timeline.Event
	addr := netip.MustParseAddr(p.addr)
	add := func(seen time.Duration, kind timeline.EventKind, from, to, detail string) *timeline.Event {
		all = append(all, timeline.Event{Seen: seen, Kind: kind, Writer: "apiserver", From: from, To: to,
			Object: p.object(), Addr: addr, Owner: p.owner, Detail: detail})
		return &all[len(all)-1]
	}
	endpoint := func(seen time.Duration, from, to string) {
		e := add(seen, timeline.EndpointChanged, from, to, "")
		e.Service, e.Port = p.service, 8080
	}
	kube := func(seen time.Duration, reason, message string) {
		add(seen, timeline.KubeEvent, "", reason, message).Writer = "kubelet/" + p.node
	}
	if p.created == 0 {
		add(6*ms, timeline.PodSeen, "", "Running", "listed")
		add(6*ms, timeline.PodReady, "", "true", "")
		endpoint(8*ms, timeline.EndpointAbsent, timeline.EndpointReady)
	} else {
		add(p.created, timeline.PodSeen, "", "Pending", "watched")
		add(p.created+5*ms, timeline.PodScheduled, "", p.node, "")
		kube(p.started()-10*ms, "Started", "Started container web")
		add(p.started(), timeline.PodContainer, "waiting", "running", "web")
		endpoint(p.started()+20*ms, timeline.EndpointAbsent, timeline.EndpointNotReady)
		kube(p.started()+900*ms, "Unhealthy",
			fmt.Sprintf("Readiness probe failed: Get \"http://%[1]s:8080/ready\": dial tcp %[1]s:8080: connect: "+
				"connection refused", p.addr))
		add(p.ready(), timeline.PodReady, "false", "true", "")
		endpoint(p.ready()+15*ms, timeline.EndpointNotReady, timeline.EndpointReady)
	}
	if p.deleted > 0 {
		add(p.deleted, timeline.PodDeleted, "", "", "").Grace = new(30 * s)
		endpoint(p.deleted+12*ms, timeline.EndpointReady, timeline.EndpointTerminatingServing)
		kube(p.deleted+40*ms, "Killing", "Stopping container web")
		endpoint(p.stops+10*ms, timeline.EndpointTerminatingServing, timeline.EndpointTerminating)
		add(p.stops+20*ms, timeline.PodContainer, "running", "terminated", "web Completed").ExitCode = new(0)
		add(p.stops+25*ms, timeline.PodReady, "true", "false", "")
		endpoint(p.gone-90*ms, timeline.EndpointTerminating, timeline.EndpointAbsent)
		add(p.gone, timeline.PodGone, "", "", "")
	}
	return all
}
