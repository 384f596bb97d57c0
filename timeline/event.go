package timeline

import (
	"net/netip"
	"time"
)

// An Event is a change in the cluster, in the wrapped command or in a prober, as one source
// learned of it.
type Event struct {
	ID     uint32        `json:"id"`              // unique in the run, from 1, in the order recorded
	Source SourceID      `json:"source,omitzero"` // who learned of it, and whose clock Seen and Since are on
	Seen   time.Duration `json:"seen"`            // when we learned of it: it happened no later
	Since  time.Duration `json:"since,omitzero"`  // it happened no earlier; 0 if nothing bounds it from below

	Stamp  time.Time `json:"stamp,omitzero"`  // when it happened by the clock of Writer
	Writer string    `json:"writer,omitzero"` // whose clock Stamp is: "apiserver", "kubelet/node1", "lapse"

	Kind   EventKind  `json:"kind"`
	From   string     `json:"from,omitzero"` // the state before, in the words of the kind
	To     string     `json:"to,omitzero"`   // the state after
	Object Object     `json:"object,omitzero"`
	Addr   netip.Addr `json:"addr,omitzero"` // the Pod's or endpoint's address
	Detail string     `json:"detail,omitzero"`

	// An endpoint's.
	Service  string `json:"service,omitzero"`  // NAMESPACE/NAME of its Service
	PortName string `json:"portName,omitzero"` // the name of that Service's port; empty if it has none
	Port     uint16 `json:"port,omitzero"`     // the number of its own port

	// A watch's.
	Services []string `json:"services,omitzero"` // NAMESPACE/NAME of each Service that it is about; empty: every one of the run

	// What some kinds carry besides. A pointer is nil where nothing is known: 0 is a value.
	ExitCode *int           `json:"exitCode,omitzero"` // of a container or command that ended
	Grace    *time.Duration `json:"grace,omitzero"`    // the grace period of a Pod's deletion
	Count    int            `json:"count,omitzero"`    // how often it happened so far: a container's restarts, connections that passed an address over
	Status   uint16         `json:"status,omitzero"`   // the HTTP status of a failed request, or its grpc-status if below 100; 0 if none was read
	Owner    string         `json:"owner,omitzero"`    // KIND/NAME of a Pod's controller
	Template string         `json:"template,omitzero"` // the ID of a Pod's [PodTemplate]
	Actor    string         `json:"actor,omitzero"`    // the field manager that made this change of an object's spec, as its managedFields name it; empty if they do not tell
	Snapshot *Snapshot      `json:"snapshot,omitzero"` // what an object is from then on

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

// EventKind says what changed. The list is closed.
type EventKind string

// Pods. Object is the Pod, Addr its address once it has one.
const (
	PodSeen       EventKind = "pod-seen"       // To: its phase when first seen; Stamp: creationTimestamp; Detail: "watched" if it was created while we watched, "listed" if it was there before; Owner; Template
	PodScheduled  EventKind = "pod-scheduled"  // To: the node; Stamp: the condition's
	PodContainer  EventKind = "pod-container"  // a container's state: waiting, running, terminated. Detail: its name and reason; ExitCode when terminated; Count: its restarts when running; Stamp: startedAt, finishedAt
	PodReady      EventKind = "pod-ready"      // the Ready condition: "true", "false"; Stamp: lastTransitionTime
	PodDeleted    EventKind = "pod-deleted"    // deletion was requested; Grace; Stamp: deletionTimestamp − grace period
	PodDisrupted  EventKind = "pod-disrupted"  // the condition DisruptionTarget, by which whoever ends a Pod says so. To: its reason, as EvictionByEvictionAPI; Detail: its message; Stamp: lastTransitionTime
	PodPhase      EventKind = "pod-phase"      // Pending, Running, Succeeded, Failed; Detail: reason
	DeletionAsked EventKind = "deletion-asked" // Lapse itself asked the API server to delete the Pod, between Since and Seen
	PodGone       EventKind = "pod-gone"       // the object was deleted; Detail: "relist" if a relist found it missing, or "no longer selected"
)

// NoLongerSelected is the Detail of a PodGone of a Pod that no Service of the run selects any more. It may live on,
// and be selected again: then there is another PodSeen with its UID.
const NoLongerSelected = "no longer selected"

// Endpoints of a Service: one for each address and measured port. Object is the Pod behind the address (or the
// EndpointSlice where none is named), Addr and Port where it listens, PortName the name of the Service's port.
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
	NodeTaint       EventKind = "node-taint"       // From, To: "absent", "present"; Detail: the taint, KEY=VALUE:EFFECT. Not that of a cordon
	NodeGone        EventKind = "node-gone"
	ServiceChanged  EventKind = "service"    // Detail: what changed
	KubeEvent       EventKind = "kube-event" // To: its reason; Detail: its message; Stamp: with nanoseconds where its name carries them
)

// SnapshotTaken says what an object is, once when it was first seen and at each change. Object is the object, of a
// Pod template the controller of its Pods, or the Pod that has none; To: "found", "created", "changed", "status",
// "deleted"; Detail: the state, or what changed; Snapshot.
const SnapshotTaken EventKind = "snapshot"

// Predicted says what was predicted of a Service before the run. Object is the Service; To: "judged", or "not-judged"
// with why as Detail; Preflight.
const Predicted EventKind = "preflight"

// NameAnswered says that a DNS server's answers for a name changed. From, To: a state below; Since: when the last
// query was sent that it answered as before; Lookup. Of a name of the run's own Object is the server's Pod, Addr its
// address, Service the Service whose endpoints the name has. Of a target that looks a name up Object.Name is the
// target, To is always "answered", and Detail what the name has where that is no address.
const NameAnswered EventKind = "name-answered"

// States of a DNS server that is asked for a name.
const (
	LookupAnswered   = "answered"   // with Lookup.Addrs; From is "" when it answers for the first time
	LookupUnanswered = "unanswered" // for a second; Detail: why
	LookupEnded      = "ended"      // it is asked no more; Detail: why the last query that was not answered was not, if there is one
	LookupNotAsked   = "not-asked"  // Detail: why, in words; no Object if that is so of all servers
)

// NodeChecked says that what a node answers to the health check of load balancers changed. From, To: a state below;
// Since: when the last check was sent that was answered as before. Object is the node, Addr and Port where it is
// asked; Service the one whose health-check node port that is, empty for kube-proxy's own; Detail: what it answered.
// If no node is asked there is no Object, and Detail says why.
const NodeChecked EventKind = "node-check"

// States of a node's health check.
const (
	CheckHealthy    = "healthy"    // status 200
	CheckUnhealthy  = "unhealthy"  // another status: no endpoint on the node, or the node is to be removed
	CheckRefused    = "refused"    // the node is there, and nothing listens
	CheckUnanswered = "unanswered" // in 800 ms
	CheckNotAsked   = "not-asked"
)

// The run itself.
const (
	RunPhase      EventKind = "run"            // From/To: a [Phase], "baseline", "measuring", "settling", "ended"; Detail: why, where the end was not the planned one
	Command       EventKind = "command"        // the wrapped command: To "running", "exited"; ExitCode; Detail: the command line
	CommandOutput EventKind = "command-output" // Detail: one line
	ProberChanged EventKind = "prober"         // Object is the node it is on; To: "measuring"; "missing", when the run began without it; "lost", when nothing more came from it; Detail: its Pod, or why
	TargetChanged EventKind = "target"         // Object.Name: the target; To: "measuring", "ended"
	WatchGap      EventKind = "watch-gap"      // changes between Since and Seen may have been missed; Object.Kind: what is watched, empty if it is all that is; Services; Detail: why
	WatchLane     EventKind = "watch-lane"     // Object.Kind: what is watched; To: "on", "off"; Services; Detail: why
	ProberStall   EventKind = "prober-stall"   // the prober was stopped between Since and Seen: its pacing thread, which wakes every millisecond, did not run for longer than a request may be late (SIGSTOP, a frozen machine, no CPU)
	RequestError  EventKind = "request-error"  // the first request of a target to fail for this reason, sent at Since and over at Seen. Object.Name: the target; To: its class; Status; Detail: the reason
	AddressFailed EventKind = "address-failed" // between Since and Seen, a target's connections went to another address of its name because Addr had failed. Object.Name: the target; To: the class; Count: how many connections so far; Detail: what the first one met
	Hammer        EventKind = "hammer"         // background load: To "running" with hey's flags as Detail, then "ended" with its summary as JSON, or why it failed
)
