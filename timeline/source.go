package timeline

import "time"

// A SourceID identifies a source within its run, from 1. 0 stands for the only source of a run that names none.
type SourceID uint16

// Role says what a source does in its run. The list is closed.
type Role string

const (
	Workstation Role = "workstation" // measures from where it was started
	Coordinator Role = "coordinator" // measures, watches and judges in the cluster
	Prober      Role = "prober"      // only measures, and hands its facts to a coordinator
)

// A Source is a process that records facts, with a clock of its own: every instant of its facts counts from its T0.
type Source struct {
	ID      SourceID  `json:"id"`
	Name    string    `json:"name"` // unique in the run, for people: the Pod's or the machine's
	Role    Role      `json:"role"`
	Node    string    `json:"node,omitzero"`    // the node it runs on; empty outside a cluster
	Zone    string    `json:"zone,omitzero"`    // that node's topology.kubernetes.io/zone; empty if unknown
	Pod     string    `json:"pod,omitzero"`     // NAMESPACE/NAME of the Pod it runs in; empty outside a cluster
	Version string    `json:"version,omitzero"` // of Lapse
	T0      time.Time `json:"t0"`               // what its wall clock said at its instant 0, to the nanosecond
}

// A Sync bounds the difference between the run's clock and a source's: at instant At of the source, run clock − source
// clock was at least Min and at most Max. A source without a Sync has the run's clock.
type Sync struct {
	Source SourceID      `json:"source"`
	At     time.Duration `json:"at"`
	Min    time.Duration `json:"min"`
	Max    time.Duration `json:"max"`
}

// SourceOf returns the source of a fact, or 0 if it has none: that of what the run is.
func SourceOf(f Fact) SourceID {
	switch f := f.(type) {
	case Source:
		return f.ID
	case Sync:
		return f.Source
	case Target:
		return f.Source
	case Backend:
		return f.Source
	case Peer:
		return f.Source
	case Event:
		return f.Source
	case Batch:
		return f.Source
	case HeldBatch:
		return f.Source
	}
	return 0
}

// From returns what a source measured or saw as a fact of the source with another number.
func From(f Fact, id SourceID) Fact {
	switch f := f.(type) {
	case Backend:
		f.Source = id
		return f
	case Peer:
		f.Source = id
		return f
	case Event:
		f.Source = id
		return f
	case Batch:
		f.Source = id
		return f
	case HeldBatch:
		f.Source = id
		return f
	}
	return f
}
