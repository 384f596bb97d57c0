package timeline

import (
	"net/netip"
	"time"
)

// TargetKind says how a target is probed, and so what its failures can prove.
type TargetKind string

const (
	// New opens a fresh connection per request: what a new client of the Service sees.
	New TargetKind = "new"
	// Reused sends on persistent connections: what a client with a connection pool sees.
	Reused TargetKind = "reused"
	// Direct sends to one endpoint's own address, past the Service's routes: evidence whether that
	// Pod itself served.
	Direct TargetKind = "direct"
	// Held keeps connections open for the whole run, with a heartbeat on each at a steady rate: what a client with
	// long-lived connections sees. Its requests are the heartbeats. [HeldChange] says what happened to each connection.
	Held TargetKind = "held"
	// Control sends to an echo server inside the prober: if this fails, the prober was the problem.
	Control TargetKind = "control"
	// Plane asks an API server of the cluster, on a persistent connection. A success is an answer of that server, also
	// one that asks for other credentials. Its failures are no failures of a Service.
	Plane TargetKind = "plane"
)

// Judged reports whether targets of this kind have windows and count towards downtime, failures and coverage. Direct
// and control targets are evidence only; held targets have windows of their own, in which connections are counted, and
// so have targets of kind plane, which are about the control plane.
func (k TargetKind) Judged() bool { return k == New || k == Reused }

// A TargetID names a target within its run, from 1.
type TargetID uint32

// A Target is one thing probed at a steady rate by one source.
type Target struct {
	ID   TargetID   `json:"id"`
	Name string     `json:"name"` // unique in the run, as people read it: "web new", "web direct web-5c9-x2kzq"
	Kind TargetKind `json:"kind"`
	URL  string     `json:"url"` // what is requested, without credentials

	Source   SourceID `json:"source,omitzero"`   // who probes it, and whose clock its instants are on
	Service  string   `json:"service,omitzero"`  // NAMESPACE/NAME; empty for a bare URL
	PortName string   `json:"portName,omitzero"` // the name of that Service's port; empty if it has none

	Route     string `json:"route,omitzero"`     // the way to the Service, if the user named one: nodeport
	RouteNode string `json:"routeNode,omitzero"` // the node whose port requests go to; empty if to no node's port
	Family    int    `json:"family,omitzero"`    // 4 or 6: only this family of the URL's name's addresses; 0: any
	// each connection goes to the next address of the URL's name, as to a headless Service, and tries no other
	Turns bool `json:"turns,omitzero"`

	Addr    netip.AddrPort `json:"addr,omitzero"`    // direct: the endpoint's address
	Pod     string         `json:"pod,omitzero"`     // direct: NAMESPACE/NAME of the Pod behind Addr
	PodUID  string         `json:"podUID,omitzero"`  // direct: its UID
	PodNode string         `json:"podNode,omitzero"` // direct: the node it runs on

	// what a success is: "a reply with status 200 to 399"; empty in recordings of older versions
	Proves string `json:"proves,omitzero"`
	Blind  bool   `json:"blind,omitzero"` // a success shows only that something accepted a connection

	Connections int `json:"connections,omitzero"` // reused, held: how many persistent ones are kept

	Rate    float64       `json:"rate"`             // requests per second asked for
	Timeout time.Duration `json:"timeout,omitzero"` // per-request timeout
}

// Interval returns the time between two due instants; 0 if the rate is not known.
func (t Target) Interval() time.Duration {
	if t.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / t.Rate)
}

// Heartbeat returns the time between two heartbeats on one connection of a held target; 0 if it is not known.
func (t Target) Heartbeat() time.Duration {
	if t.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(t.Connections) / t.Rate * float64(time.Second))
}

// A Request is one request that was due, and how it ended.
type Request struct {
	Target TargetID
	Seq    uint64        // counts the target's due instants from 0; never reused
	Due    time.Duration // the scheduled instant; latency counts from here (no coordinated omission)
	Sent   time.Duration // read just before the request's first system call: connect for new, write for reused
	Done   time.Duration // when the last byte of the body had arrived, or an error occurred; never too early
	Outcome
}

// Late reports whether the request was sent late: more than one interval, and more than 5 ms, after Due. It remains
// valid evidence, and is only counted.
func (r Request) Late(interval time.Duration) bool {
	return r.Sent-r.Due > max(interval, lateAfter)
}

// Latency returns the time from when the request was due to its end.
func (r Request) Latency() time.Duration { return r.Done - r.Due }

// An Outcome says how a request ended.
type Outcome struct {
	Class Class
	// Code is the HTTP status, 100 to 999, or for gRPC with HTTP status 200 the grpc-status, 0 to 99. 0: none was read.
	Code    uint16
	Backend uint16 // the ID of the source's [Backend] that the reply named; 0 is unknown
	Peer    uint16 // where the connection went, or was to go: the ID of a [Peer] of the source; 0 is unknown
	Reused  bool   // sent on a connection that had carried a request before

	// Delayed: the prober may have caused a good part of the time until Done. It was stopped, or read the answer late
	// without knowing when it had come. It is certain that the request was answered, but not how long that took. So the
	// request shows that the Service was up when it was sent, and counts neither for latencies nor for slow windows.
	// Classed as "local", such answers were no evidence at all: 4 of 15 drains covered less than 99 %, and none do now.
	Delayed bool
	Phases
}

// Phases are the parts of a request's time, each from the end of the one before; 0 if a phase did not happen or was not
// reached.
type Phases struct {
	DNS     Micros
	Connect Micros
	TLS     Micros
	// FirstByte ends at the first byte of the reply, or up to 1 ms later if the reply came in several packets.
	FirstByte Micros
}

// Micros is a length of time in whole microseconds, at most 71 minutes.
type Micros uint32

// MicrosOf rounds d down to microseconds, and into the range of Micros.
func MicrosOf(d time.Duration) Micros {
	return Micros(min(max(d.Microseconds(), 0), 1<<32-1))
}

// Duration returns m as a time.Duration.
func (m Micros) Duration() time.Duration { return time.Duration(m) * time.Microsecond }

// A Batch holds requests that ended, in any order, and says up to when they are complete. It is the same in memory, on
// disk and between machines.
type Batch struct {
	Source     SourceID
	FirstSeq   uint64 // counts the source's requests over all targets: a jump is a lost batch
	Requests   []Request
	Watermarks []Watermark
}

// A Watermark says that this and earlier batches hold every request of Target that was due before Due.
type Watermark struct {
	Target TargetID
	Due    time.Duration
}
