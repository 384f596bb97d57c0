package timeline

import "time"

// A Snapshot is the part of an object's spec and status that causes need. One of its fields is set.
type Snapshot struct {
	Template *PodTemplate `json:"template,omitzero"`
	Workload *Workload    `json:"workload,omitzero"`
	Budget   *Budget      `json:"budget,omitzero"`
	Service  *ServiceSpec `json:"service,omitzero"`
}

// Values of To in a [SnapshotTaken] event.
const (
	SnapshotFound   = "found"   // the object was there before
	SnapshotCreated = "created" // the object is new
	SnapshotChanged = "changed" // somebody changed its spec; Detail says what
	SnapshotStatus  = "status"  // only its status changed
	SnapshotDeleted = "deleted" // the object was deleted: the snapshot is its last state
)

// SnapshotFollowed is the Detail of a workload that was there before a run: its last change was watched shortly before,
// and what followed is known.
const SnapshotFollowed = "its last change was watched"

// A PodTemplate is what Pods of one controller have in common. It never changes: Pods with another spec have another
// template.
type PodTemplate struct {
	ID string `json:"id"` // pod-seen events of its Pods have it
	// the label controller-revision-hash; absent if each template has a controller of its own, as in a Deployment
	Revision      string        `json:"revision,omitzero"`
	Grace         time.Duration `json:"grace"`                  // terminationGracePeriodSeconds
	RestartPolicy string        `json:"restartPolicy,omitzero"` // Always, OnFailure, Never
	HostNetwork   bool          `json:"hostNetwork,omitzero"`
	Containers    []Container   `json:"containers"`
}

// A Container is a container of a Pod, but not an init container that ends before the others begin.
type Container struct {
	Name string `json:"name"`
	// an init container with restartPolicy Always: it starts before the others and ends after them
	Sidecar   bool   `json:"sidecar,omitzero"`
	PreStop   *Hook  `json:"preStop,omitzero"` // absent if it has none
	Readiness *Probe `json:"readiness,omitzero"`
	Liveness  *Probe `json:"liveness,omitzero"`
	Startup   *Probe `json:"startup,omitzero"`
}

// A Hook is a preStop hook: it runs before the container gets SIGTERM.
type Hook struct {
	Kind    string        `json:"kind"`             // sleep, exec, httpGet, tcpSocket
	Sleep   time.Duration `json:"sleep,omitzero"`   // of a sleep, or of an exec that does nothing else to the server
	Command string        `json:"command,omitzero"` // of another exec: what it runs, with credentials masked
}

// A Probe is a probe by which the kubelet checks a container.
type Probe struct {
	Kind      string        `json:"kind"` // exec, httpGet, tcpSocket, grpc
	Path      string        `json:"path,omitzero"`
	Port      string        `json:"port,omitzero"`  // its number, or its name
	Delay     time.Duration `json:"delay,omitzero"` // initialDelaySeconds
	Period    time.Duration `json:"period"`
	Timeout   time.Duration `json:"timeout"`
	Threshold int           `json:"threshold"` // failureThreshold
}

// A Workload is a Deployment, a ReplicaSet, a StatefulSet or a DaemonSet.
type Workload struct {
	Generation     int64         `json:"generation"`        // rises with each change of the spec
	Owner          string        `json:"owner,omitzero"`    // KIND/NAME of its controller: a ReplicaSet's Deployment
	Replicas       int           `json:"replicas"`          // asked for; of a DaemonSet: its nodes
	Strategy       string        `json:"strategy,omitzero"` // Recreate, RollingUpdate, OnDelete; no ReplicaSet has one
	MaxSurge       string        `json:"maxSurge,omitzero"`
	MaxUnavailable string        `json:"maxUnavailable,omitzero"`
	MinReady       time.Duration `json:"minReady,omitzero"`   // minReadySeconds
	Partition      int           `json:"partition,omitzero"`  // a StatefulSet's first Pods, which keep their template
	Paused         bool          `json:"paused,omitzero"`     // a Deployment's new template is not rolled out
	Autoscaled     bool          `json:"autoscaled,omitzero"` // an autoscaler has set Replicas; false is unknown
	Status         Replicas      `json:"status"`
}

// ToUpdate returns how many of its Pods are to be of the newest template.
func (w *Workload) ToUpdate() int { return max(0, w.Replicas-w.Partition) }

// Observed reports whether its status is that of its spec, as far as is known.
func (w *Workload) Observed() bool {
	return w.Status.Generation == 0 || w.Status.Generation >= w.Generation
}

// RolledOut reports whether its Pods are as its spec asks for, much as `kubectl rollout status` does:
// https://github.com/kubernetes/kubectl/blob/v0.36.3/pkg/polymorphichelpers/rollout_status.go
func (w *Workload) RolledOut() bool {
	return w.Observed() && w.Status.Updated >= w.ToUpdate() && w.Status.Available >= w.Replicas &&
		w.Status.Existing <= w.Replicas
}

// Replicas are how many Pods of a workload there are.
type Replicas struct {
	Generation  int64 `json:"generation,omitzero"` // that of the spec that they are counted for; 0: unknown
	Existing    int   `json:"existing"`            // not terminating ones
	Updated     int   `json:"updated,omitzero"`    // of the newest template
	Ready       int   `json:"ready"`
	Available   int   `json:"available"`
	Terminating *int  `json:"terminating,omitzero"` // absent if the cluster does not say
}

// A Budget is a PodDisruptionBudget.
type Budget struct {
	MinAvailable   string `json:"minAvailable,omitzero"`
	MaxUnavailable string `json:"maxUnavailable,omitzero"`
	EvictUnhealthy string `json:"evictUnhealthy,omitzero"` // unhealthyPodEvictionPolicy: IfHealthyBudget, AlwaysAllow
	Healthy        int    `json:"healthy"`                 // Pods that are healthy
	Desired        int    `json:"desired"`                 // Pods that must be healthy
	Expected       int    `json:"expected"`                // Pods that it selects
	Allowed        int    `json:"allowed"`                 // Pods that may be evicted now
}

// A ServiceSpec is how a Service chooses where its requests go.
type ServiceSpec struct {
	Selector        string `json:"selector,omitzero"`
	Type            string `json:"type"`
	Affinity        string `json:"affinity,omitzero"`        // ClientIP; absent if there is none
	Internal        string `json:"internal,omitzero"`        // internalTrafficPolicy: Cluster, Local
	External        string `json:"external,omitzero"`        // externalTrafficPolicy: Cluster, Local
	Distribution    string `json:"distribution,omitzero"`    // trafficDistribution: PreferClose, PreferSameZone, …
	PublishNotReady bool   `json:"publishNotReady,omitzero"` // publishNotReadyAddresses
}

// Prefers reports whether requests from one place may go to some of the ready Pods only, by session affinity or traffic
// distribution, and not to each with the same probability.
func (s *ServiceSpec) Prefers() bool { return s.Affinity != "" || s.Distribution != "" }
