package model

import (
	"time"

	"lapse/timeline"
)

// An Incident is the unit of a report: windows of any targets that overlap, or that the same change set off. Its
// windows are the detail.
type Incident struct {
	ID      int      `json:"id"`      // from 1, by start
	Windows []int    `json:"windows"` // their IDs, by start
	Targets []string `json:"targets"` // their targets, the one that lost most first
	Start   Instant  `json:"start"`   // when the first window began
	End     Instant  `json:"end"`     // when the last one ended
	// when its first and its last failed request were due, or when they had failed if they were due before what set it
	// off; absent if none failed
	FailedFrom *time.Duration `json:"failedFrom,omitzero"`
	FailedTo   *time.Duration `json:"failedTo,omitzero"`
	Sent       int            `json:"sent"` // over its windows, as there
	Failed     int            `json:"failed"`
	NoEvidence int            `json:"noEvidence,omitzero"` // over its windows, as there
	Slow       int            `json:"slow,omitzero"`
	// held connections that were cut, over its windows of kind cut, which have no part in Sent, Failed and Downtime
	Cut      int    `json:"cut,omitzero"`
	Downtime Length `json:"downtime"` // the worst target's: the sum over its windows
	Open     bool   `json:"open,omitzero"`
	Live     bool   `json:"live,omitzero"` // not final: later requests may change it

	Classes map[string]int `json:"classes"` // failures by class
	// what set it off, as far as its causes name Pods or a change of the Service, by time; empty if that is not known
	Triggers []Trigger `json:"triggers"`
	// how its windows recur, of one that no rule explains and no change set off; absent if they do not
	Recurs *Recurrence `json:"recurs,omitzero"`
	// each rule once, first the one that explains most losses: failed requests and cut connections
	Causes []IncidentCause `json:"causes"`
	Said   IncidentSaid    `json:"said"` // the incident in words
}

// A Recurrence is how failures of one sign happened again and again.
type Recurrence struct {
	Times int `json:"times"` // how many windows of one target
	// the shortest and the longest time from the beginning of one to that of the next
	Apart  Length        `json:"apart"`
	Period time.Duration `json:"period,omitzero"` // the time between them, if it is regular
}

// TriggerKind says what sort of change set an incident off. The list is closed.
type TriggerKind string

const (
	// Object is the node: it had been cordoned, or tainted by what removes it, when the Pods that the causes name were
	// deleted
	NodeDrained TriggerKind = "drain"
	// Object is the workload, such as a Deployment: it replaced its Pods by those of another template
	RolledOut   TriggerKind = "rollout"
	ScaledDown  TriggerKind = "scaled-down"  // Object is the workload: fewer replicas were asked for
	PodsDeleted TriggerKind = "pods-deleted" // Object is the Pod, if it is one only
	PodExited   TriggerKind = "pod-exited"   // Object is the Pod: a container ended, and nobody had asked for it

	// Object is the Service: its selector, ports, type or policies were changed
	ServiceChanged TriggerKind = "service-changed"
	ServiceDeleted TriggerKind = "service-deleted" // Object is the Service
)

// A Trigger is the change in the cluster that set an incident off.
type Trigger struct {
	Kind   TriggerKind     `json:"kind"`
	Object timeline.Object `json:"object,omitzero"`
	// the ID of the event that shows it: the cordon or the taint, the change of the replicas, the first Pod's deletion,
	// the exit, the Service's change
	Event uint32   `json:"event"`
	At    Instant  `json:"at"`             // when that happened
	Pods  []string `json:"pods"`           // the names of the Pods it ended, as far as the causes name them
	Actor string   `json:"actor,omitzero"` // the field manager that made the change; absent if it is not known
	Text  string   `json:"text"`           // "drain of node2"
}

// An IncidentCause is a cause of one or several windows of an incident, in the words it has where it was measured best.
type IncidentCause struct {
	Cause
	Windows []int `json:"windows"`      // the IDs of the windows of which it is the most likely cause
	Failed  int   `json:"failed"`       // their failures
	Cut     int   `json:"cut,omitzero"` // of windows of kind cut: the connections that were cut
}
