package timeline

import (
	"cmp"
	"encoding/json"
	"iter"
	"net/netip"
	"time"
)

// A Fact is one entry of a run's append-only log: a [Meta], [Source], [Sync], [Target], [Backend], [Peer], [Batch],
// [HeldBatch] or [Event].
type Fact interface{ fact() }

func (Meta) fact()      {}
func (Source) fact()    {}
func (Sync) fact()      {}
func (Target) fact()    {}
func (Backend) fact()   {}
func (Peer) fact()      {}
func (Batch) fact()     {}
func (HeldBatch) fact() {}
func (Event) fact()     {}

// Meta is a run's first fact: what was asked for, and when it began.
type Meta struct {
	ID      string    `json:"id"`
	Tool    string    `json:"tool"` // version of Lapse that measured
	T0      time.Time `json:"t0"`   // wall-clock time of the run clock's instant 0, to the nanosecond
	Options Options   `json:"options"`

	// Spec is everything that was asked for, without secrets, as the package that measures writes it. Recordings of
	// older versions have none.
	Spec json.RawMessage `json:"spec,omitempty"`

	Services []Service  `json:"services,omitzero"`
	SetAside []SetAside `json:"setAside,omitzero"` // Services that were to be measured and could not be
	URLs     []string   `json:"urls,omitzero"`
	Cluster  Cluster    `json:"cluster,omitzero"`
	Command  []string   `json:"command,omitzero"` // the wrapped command's arguments
}

// Options are the run's settings that a later judgement needs.
type Options struct {
	Rate     float64       `json:"rate"`
	Timeout  time.Duration `json:"timeout"`
	Duration time.Duration `json:"duration,omitzero"` // 0: as long as the command runs
	Baseline time.Duration `json:"baseline,omitzero"`
	Settle   time.Duration `json:"settle,omitzero"`
	Join     time.Duration `json:"join"`
	Slow     time.Duration `json:"slow"` // 0: measured against what the target takes at the start

	// the longest gap between two sends that counts as observed; 0: 50 ms or 10 intervals of the target, whichever is
	// longer
	Resolution  time.Duration `json:"resolution,omitzero"`
	MinCoverage float64       `json:"minCoverage,omitzero"` // the share of the time a pass must have observed; 0: 0.99
	// the share of the time that each node of --from must have observed; nil: MinCoverage
	MinNodeCoverage *float64 `json:"minNodeCoverage,omitzero"`

	Gates []string `json:"gates,omitzero"` // --fail-if expressions, as given
}

// A Service is a Kubernetes Service as it was when the run began.
type Service struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid,omitzero"` // Kubernetes': no other Service has it, of any cluster
	ClusterIP string   `json:"clusterIP,omitzero"`
	Ports     []string `json:"ports,omitzero"`    // "80/TCP → http"
	Measured  []string `json:"measured,omitzero"` // the ports that are measured, by name or number

	Type         string   `json:"type,omitzero"`         // ClusterIP, NodePort, LoadBalancer, ExternalName
	ExternalName string   `json:"externalName,omitzero"` // the name that a Service of type ExternalName leads to
	NotCovered   []string `json:"notCovered,omitzero"`   // what a pass of the run does not cover, a sentence each
}

// A SetAside is one of the Services to measure that could not be measured.
type SetAside struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Why       string `json:"why"` // in words
}

// Cluster describes where the run took place, as far as the user may see it.
type Cluster struct {
	Version   string `json:"version,omitzero"`
	ProxyMode string `json:"proxyMode,omitzero"`

	MinSyncPeriod time.Duration `json:"minSyncPeriod,omitzero"` // of kube-proxy; absent: not known
}

// SyncPeriod returns the shortest time between two writes of kube-proxy's rules: where it is not known, its default.
// https://kubernetes.io/docs/reference/networking/virtual-ips/#minsyncperiod
func (c Cluster) SyncPeriod() time.Duration { return cmp.Or(c.MinSyncPeriod, time.Second) }

// A Backend gives the name that replies had to a number in a source's [Outcome] values.
type Backend struct {
	Source SourceID `json:"source,omitzero"`
	ID     uint16   `json:"id"` // from 1, counted by each source
	Name   string   `json:"name"`
}

// A Peer gives an address to a number in a source's [Outcome] values.
type Peer struct {
	Source SourceID       `json:"source,omitzero"`
	ID     uint16         `json:"id"` // from 1, counted by each source
	Addr   netip.AddrPort `json:"addr"`
}

// A Run is the facts of one run, whole or as far as they are known.
type Run struct {
	Meta     Meta
	Sources  []Source
	Syncs    []Sync
	Targets  []Target
	Backends []Backend
	Peers    []Peer
	Events   []Event
	Held     []HeldBatch
	// Batches yields all batches in the order they were recorded. It can be called any number of times, and need not
	// hold them in memory. Of a damaged record it yields the intact beginning, or ends with an error.
	Batches iter.Seq2[Batch, error]
}
