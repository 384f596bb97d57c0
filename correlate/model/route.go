package model

// RouteChange says what a node's routes had to follow. The list is closed.
type RouteChange string

const (
	Removal  RouteChange = "removal"  // an endpoint was ready, and is no more
	Addition RouteChange = "addition" // an endpoint turned ready
)

// A Route is how one node followed the change of an endpoint: from when on requests from it were routed there, or no longer.
//
// It is known by who answered. While a route to a Pod is one of N, requests in a row that other Pods answer prove, with 99.9 % confidence, that
// there is none.
type Route struct {
	Change  RouteChange `json:"change"`
	Service string      `json:"service"` // NAMESPACE/NAME
	Pod     string      `json:"pod"`     // its name
	PodUID  string      `json:"podUID"`
	Node    string      `json:"node"`   // from which requests were sent
	Target  string      `json:"target"` // which sent them
	Event   uint32      `json:"event"`  // the ID of the event that is the change of the endpoint

	Asked   *Instant `json:"asked,omitzero"` // when the Pod's deletion was asked for; absent unless Lapse itself did
	API     Instant  `json:"api"`            // when the EndpointSlice changed
	Changed Instant  `json:"changed"`        // when the node's routes did; with Open, Latest is the end of what is known
	Open    bool     `json:"open,omitzero"`  // they were not seen to change: too few requests followed
	Lag     Length   `json:"lag"`            // from API to Changed
}
