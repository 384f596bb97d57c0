package timeline

// A Preflight holds the predictions about a Service before it was measured, from its spec and the placement of its
// Pods.
type Preflight struct {
	Node        string       `json:"node,omitzero"` // the node to be drained; absent if none was named
	Rules       []AskedRule  `json:"rules"`         // all that were asked
	Predictions []Prediction `json:"predictions"`   // the gravest first
}

// An AskedRule is a rule of preflight that was asked about a Service.
type AskedRule struct {
	ID       string   `json:"id"` // such as LP05
	Name     string   `json:"name"`
	Predicts []string `json:"predicts,omitzero"` // the causes that it can predict, as RULE or RULE/REASON
	Unjudged string   `json:"unjudged,omitzero"` // why it could not judge; absent if it could
}

// A Prediction is one finding of a rule of preflight.
type Prediction struct {
	Rule     string   `json:"rule"` // its ID
	Name     string   `json:"name"`
	Severity string   `json:"severity"` // will-lose, may-lose, will-block, blind
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"` // "Deployment/web: spec.replicas = 1"
	Fix      string   `json:"fix"`

	// causes as RULE or RULE/REASON: an incident with one of them confirms the prediction; absent if there is no cause
	// for it
	Causes []string `json:"causes,omitzero"`
	// the disturbance whose effect is predicted; absent if a run without that effect does not refute the prediction
	When     Disturbance `json:"when,omitzero"`
	Node     string      `json:"node,omitzero"`     // the node of the disturbance; absent if it may be any
	Accepted string      `json:"accepted,omitzero"` // why somebody accepts the risk; it remains a prediction
}

// A Disturbance is an event whose effect a prediction states.
type Disturbance string

const (
	PodEnds          Disturbance = "pod-ends"           // a Pod whose endpoint was ready is deleted
	PodStarts        Disturbance = "pod-starts"         // a new Pod becomes a ready endpoint
	LastEndpointGoes Disturbance = "last-endpoint-goes" // no endpoint is ready any longer
	NodeDrained      Disturbance = "node-drained"       // Pods with a ready endpoint are evicted from Node
	NodeFails        Disturbance = "node-fails"         // Node, which has a ready endpoint, is no longer ready
	NodeLost         Disturbance = "node-lost"          // one of the last two
	PodsReplaced     Disturbance = "rollout"            // Pods are replaced by those of another template
	LivenessFails    Disturbance = "liveness-fails"     // a container is ended because its liveness probe failed
	NodeWithout      Disturbance = "node-without"       // the prober's node has no ready endpoint
	EvictionAsked    Disturbance = "eviction-asked"     // somebody asks the API to evict a Pod
)

// Values of To in a [Predicted] event.
const (
	PreflightDone    = "judged"
	PreflightNotDone = "not-judged"
)
