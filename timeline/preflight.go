package timeline

// A Preflight is what was predicted of a Service before it was measured, from its spec and the placement of its Pods.
type Preflight struct {
	Node        string       `json:"node,omitzero"` // that was to be drained; absent if none was named
	Rules       []AskedRule  `json:"rules"`         // all that were asked
	Predictions []Prediction `json:"predictions"`   // the gravest first
}

// An AskedRule is a rule of preflight that was asked about a Service.
type AskedRule struct {
	ID       string   `json:"id"` // such as LP05
	Name     string   `json:"name"`
	Predicts []string `json:"predicts,omitzero"` // the causes that it is there to predict, as RULE or RULE/REASON
	Unjudged string   `json:"unjudged,omitzero"` // why it could not judge; absent if it could
}

// A Prediction is one finding of a rule of preflight.
type Prediction struct {
	Rule     string      `json:"rule"` // its ID
	Name     string      `json:"name"`
	Severity string      `json:"severity"` // will-lose, may-lose, will-block, blind
	Text     string      `json:"text"`
	Evidence []string    `json:"evidence"` // "Deployment/web: spec.replicas = 1"
	Fix      string      `json:"fix"`
	Causes   []string    `json:"causes,omitzero"`   // an incident with one of them confirms it, as RULE or RULE/REASON; absent if a run names no such cause
	When     Disturbance `json:"when,omitzero"`     // what it is about; absent if a run in which nothing came of it does not refute it
	Node     string      `json:"node,omitzero"`     // where that is; absent if it may be any
	Accepted string      `json:"accepted,omitzero"` // why somebody accepts it; it is a prediction all the same
}

// A Disturbance is what a prediction is about: it says what happens if this does.
type Disturbance string

const (
	PodEnds          Disturbance = "pod-ends"           // a Pod whose endpoint was ready is deleted
	PodStarts        Disturbance = "pod-starts"         // a new Pod becomes a ready endpoint
	LastEndpointGoes Disturbance = "last-endpoint-goes" // no endpoint is ready any more
	NodeDrained      Disturbance = "node-drained"       // Pods with a ready endpoint are evicted from Node
	NodeFails        Disturbance = "node-fails"         // Node, which has a ready endpoint, is not ready any more
	NodeLost         Disturbance = "node-lost"          // one of the last two
	PodsReplaced     Disturbance = "rollout"            // Pods are replaced by those of another template
	LivenessFails    Disturbance = "liveness-fails"     // a container is ended because its liveness probe failed
	NodeWithout      Disturbance = "node-without"       // the prober's node has no ready endpoint
	EvictionAsked    Disturbance = "eviction-asked"     // somebody asks the API to evict a Pod
)

// What a [Predicted] event says.
const (
	PreflightDone    = "judged"
	PreflightNotDone = "not-judged"
)
