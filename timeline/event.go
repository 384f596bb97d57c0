package timeline

import (
	"net/netip"
	"time"
)

// An Event is a change in the cluster, in the wrapped command or in a prober, as one source saw it.
type Event struct {
	ID     uint32        `json:"id"`              // unique in the run, from 1, in the order recorded
	Source SourceID      `json:"source,omitzero"` // the source that saw it; Seen and Since are on its clock
	Seen   time.Duration `json:"seen"`            // when the source saw it: it happened no later
	Since  time.Duration `json:"since,omitzero"`  // it happened no earlier; 0 if there is no lower bound

	Stamp  time.Time `json:"stamp,omitzero"`  // when it happened by the clock of Writer
	Writer string    `json:"writer,omitzero"` // whose clock Stamp is: "apiserver", "kubelet/node1", "lapse"

	Kind   EventKind  `json:"kind"`
	From   string     `json:"from,omitzero"` // the state before, in the words of the kind
	To     string     `json:"to,omitzero"`   // the state after
	Object Object     `json:"object,omitzero"`
	Addr   netip.Addr `json:"addr,omitzero"` // the Pod's or endpoint's address
	Detail string     `json:"detail,omitzero"`

	Service  string `json:"service,omitzero"`  // of an endpoint: NAMESPACE/NAME of its Service
	PortName string `json:"portName,omitzero"` // of an endpoint: the name of that Service's port; empty if it has none
	Port     uint16 `json:"port,omitzero"`     // of an endpoint: the number of its own port

	// of a watch: NAMESPACE/NAME of the Services it concerns; empty: all
	Services []string `json:"services,omitzero"`

	Container string `json:"container,omitzero"` // of a Kubernetes Event: the container that it is about, if any

	// What some kinds have in addition. A pointer is nil if nothing is known: 0 is a value.

	ExitCode *int           `json:"exitCode,omitzero"` // of a container or command that ended
	Grace    *time.Duration `json:"grace,omitzero"`    // the grace period of a Pod's deletion
	Count    int            `json:"count,omitzero"`    // so far: container restarts, connections to another address
	Status   uint16         `json:"status,omitzero"`   // of a failed request: HTTP, or gRPC if below 100; 0 if unread
	Owner    string         `json:"owner,omitzero"`    // KIND/NAME of a Pod's controller
	Template string         `json:"template,omitzero"` // the ID of a Pod's [PodTemplate]
	Actor    string         `json:"actor,omitzero"`    // who did it: a field manager, or a requester; may be empty
	Snapshot *Snapshot      `json:"snapshot,omitzero"` // the object's state from then on

	Preflight *Preflight `json:"preflight,omitzero"` // what was predicted of a Service
	Lookup    *Lookup    `json:"lookup,omitzero"`    // how a DNS server answers
}

// An Object names a thing in the cluster.
type Object struct {
	Kind      string `json:"kind,omitzero"`
	Namespace string `json:"namespace,omitzero"`
	Name      string `json:"name,omitzero"`
	UID       string `json:"uid,omitzero"`
	Node      string `json:"node,omitzero"` // the node it runs on
}

// IsZero reports whether o names nothing, as in an event that is about no object.
func (o Object) IsZero() bool { return o == Object{} }

// EventKind says what changed. The list is closed.
type EventKind string

// Pods. Object is the Pod, Addr its address once it has one.
const (
	// To: its phase when first seen; Stamp: creationTimestamp; Detail: "watched" if it was created during the watch,
	// "listed" if it existed before; Owner; Template
	PodSeen      EventKind = "pod-seen"
	PodScheduled EventKind = "pod-scheduled" // To: the node; Stamp: the condition's
	// a container's state: waiting, running, terminated. Detail: its name and reason; ExitCode when terminated; Count:
	// its restarts when running; Stamp: startedAt, finishedAt
	PodContainer EventKind = "pod-container"
	PodReady     EventKind = "pod-ready"   // the Ready condition: "true", "false"; Stamp: lastTransitionTime
	PodDeleted   EventKind = "pod-deleted" // deletion was requested; Grace; Stamp: deletionTimestamp − grace period
	// the condition DisruptionTarget, which announces that the Pod is about to be ended. To: its reason, such as
	// EvictionByEvictionAPI; Detail: its message; Stamp: lastTransitionTime
	PodDisrupted EventKind = "pod-disrupted"
	// an EvictionRequest asks for the Pod's eviction. From, To: a state below; Detail: its name; Actor: the requester;
	// Stamp: creationTimestamp. There may be several for one Pod
	EvictionRequested EventKind = "eviction-request"
	PodPhase          EventKind = "pod-phase" // Pending, Running, Succeeded, Failed; Detail: reason
	// Lapse itself asked the API server to delete the Pod, between Since and Seen
	DeletionAsked EventKind = "deletion-asked"
	// the object was deleted; Detail: "relist" if a new list did not have it, or "no longer selected"
	PodGone EventKind = "pod-gone"
)

// States of an EvictionRequest: there is none, or its intent.
const (
	EvictionNotRequested = "absent"
	EvictionWanted       = "Eviction"
	EvictionWithdrawn    = "Withdrawn"
)

// NoLongerSelected is the Detail of PodGone if no Service of the run selects the Pod any more. The Pod may live on and
// be selected again: then there is another PodSeen with its UID.
const NoLongerSelected = "no longer selected"

// Endpoints of a Service: one for each address and measured port. Object is the Pod behind the address (or the
// EndpointSlice if none is named), Addr and Port where it listens, PortName the name of the Service's port.
// States: "absent", "not-ready", "ready", "terminating+serving", "terminating".
const EndpointChanged EventKind = "endpoint"

// States of an endpoint, from the conditions of its EndpointSlice.
// https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions
const (
	EndpointAbsent             = "absent"
	EndpointNotReady           = "not-ready"
	EndpointReady              = "ready"
	EndpointTerminatingServing = "terminating+serving"
	EndpointTerminating        = "terminating"
)

// Nodes, the Service itself, and Kubernetes' Events.
const (
	NodeReady       EventKind = "node-ready"       // the Ready condition: "true", "false", "unknown"
	NodeSchedulable EventKind = "node-schedulable" // "true", "false" (cordoned)
	// From, To: "absent", "present"; Detail: the taint, KEY=VALUE:EFFECT. Not the taint of a cordon
	NodeTaint EventKind = "node-taint"
	// From, To: "absent", "present"; Detail: what announces that the node is drained, rebooted or removed: "condition
	// TYPE", "label KEY" or "annotation KEY"
	NodeMarked     EventKind = "node-mark"
	NodeGone       EventKind = "node-gone"
	ServiceChanged EventKind = "service" // Detail: what changed
	// To: its reason; Detail: its message; Stamp: with nanoseconds if its name has them
	KubeEvent EventKind = "kube-event"
)

// SnapshotTaken gives an object's state, when it was first seen and at each change. Object is the object; for a Pod
// template, it is the controller of its Pods, or the Pod without one. To: "found", "created", "changed", "status",
// "deleted"; Detail: the state, or what changed; Snapshot.
const SnapshotTaken EventKind = "snapshot"

// Predicted holds the predictions about a Service before the run. Object is the Service; To: "judged", or "not-judged",
// and Detail says why; Preflight.
const Predicted EventKind = "preflight"

// NameAnswered says that a DNS server's answers for a name changed. From, To: a state below; Since: when the last
// query was sent that it answered as before; Lookup. For a name of the run's own, Object is the server's Pod, Addr its
// address, Service the Service whose endpoints the name has. For a target that looks up a name, Object.Name is the
// target, To is always "answered", and Detail is what the name has instead of addresses.
const NameAnswered EventKind = "name-answered"

// States of a DNS server that is asked for a name.
const (
	LookupAnswered   = "answered"   // with Lookup.Addrs; From is "" when it answers for the first time
	LookupUnanswered = "unanswered" // for a second; Detail: why
	LookupEnded      = "ended"      // it is asked no more; Detail: why its last query failed, if one did
	LookupNotAsked   = "not-asked"  // Detail: why; no Object if no server is asked
)

// NodeChecked says that a node's answer to the health check of load balancers changed. From, To: a state below; Since:
// when the last check was sent that was answered as before. Object is the node, Addr and Port where it is asked;
// Service the Service whose health-check node port that is, empty for kube-proxy's own; Detail: the answer. If no node
// is asked, there is no Object, and Detail says why.
const NodeChecked EventKind = "node-check"

// States of a node's health check.
const (
	CheckHealthy    = "healthy"    // status 200
	CheckUnhealthy  = "unhealthy"  // another status: no endpoint on the node, or the node is to be removed
	CheckRefused    = "refused"    // the node answers, but nothing listens on the port
	CheckUnanswered = "unanswered" // within 800 ms
	CheckNotAsked   = "not-asked"
)

// PlaneNotAsked says that the API servers, or some of them, are not asked (see [Plane]). Detail: why.
const PlaneNotAsked EventKind = "plane-not-asked"

// The run itself.
const (
	// From/To: a [Phase], "baseline", "measuring", "settling", "ended"; Detail: why, if the end was not planned
	RunPhase EventKind = "run"
	// the wrapped command: To "running", "exited"; ExitCode; Detail: the command line
	Command       EventKind = "command"
	CommandOutput EventKind = "command-output" // Detail: one line
	// Object is the node it is on; To: "measuring"; "missing", when the run began without it, or a guard's had two
	// minutes to start; "lost", when nothing more came from it; Detail: its Pod, or why
	ProberChanged EventKind = "prober"
	TargetChanged EventKind = "target" // Object.Name: the target; To: "measuring", "ended"
	// Object.Name: the target, which is asked at another rate from Seen on; From, To: requests per second. The changes
	// of a direct target's rate are not recorded
	RateChanged EventKind = "rate"
	// changes between Since and Seen may have been missed; Object.Kind: the watched kind, empty if all are concerned;
	// Services; Detail: why
	WatchGap EventKind = "watch-gap"
	// Object.Kind: the watched kind; To: "on", "off"; Services; Detail: why
	WatchLane EventKind = "watch-lane"
	// the prober was stopped between Since and Seen: its pacing thread, which wakes every millisecond, did not run for
	// longer than a request may be late (SIGSTOP, a frozen machine, no CPU)
	ProberStall EventKind = "prober-stall"
	// the first request of a target to fail for this reason, sent at Since and over at Seen. Object.Name: the target;
	// To: its class; Status; Detail: the reason
	RequestError EventKind = "request-error"
	// between Since and Seen, a target's connections went to another address of its name because Addr had failed.
	// Object.Name: the target; To: the class; Count: how many connections so far; Detail: how the first one failed
	AddressFailed EventKind = "address-failed"
	// background load: To "running" with hey's flags as Detail, then "ended" with its summary as JSON, or why it failed
	Hammer EventKind = "hammer"
)
