package model

// RouteChange says what a node's routes had to follow. The list is closed.
type RouteChange string

const (
	Removal  RouteChange = "removal"  // an endpoint was ready, and is no more
	Addition RouteChange = "addition" // an endpoint turned ready
)

// A Route is how one node followed the change of an endpoint: from when on requests from it were routed there, or no
// longer.
//
// It is known by who answered. While a route to a Pod is one of N, requests in a row that other Pods answer prove,
// with 99.9 % confidence, that there is none.
type Route struct {
	Change  RouteChange `json:"change"`
	Service string      `json:"service"` // NAMESPACE/NAME
	Pod     string      `json:"pod"`     // its name
	PodUID  string      `json:"podUID"`
	Node    string      `json:"node"`   // from which requests were sent
	Target  string      `json:"target"` // which sent them
	Event   uint32      `json:"event"`  // the ID of the event that is the change of the endpoint

	Asked *Instant `json:"asked,omitzero"` // when the Pod's deletion was asked for; absent unless Lapse itself did
	API   Instant  `json:"api"`            // when the EndpointSlice changed
	// when the node's routes did; with Open, Latest is the end of what is known
	Changed Instant `json:"changed"`
	Open    bool    `json:"open,omitzero"` // they were not seen to change: too few requests followed
	Lag     Length  `json:"lag"`           // from API to Changed

	// of a removal; absent where the Pod's stop is not known, or was later than the change
	Lost *LostTime `json:"lost,omitzero"`
	// of an addition of a Pod that had not been ready before; absent where it is not known when its first container
	// started
	Waited *WaitedTime `json:"waited,omitzero"`
}

// LostTime is for how long a node still routed to a Pod after it had stopped, by what it waited for. The parts sum to
// the whole. Of a [Route] that is open, the proxy's part is a lower bound.
type LostTime struct {
	Length
	AppEarly   Length   `json:"appEarly"`        // until the Pod's deletion was asked for: it had stopped by itself
	Controller Length   `json:"controller"`      // from then until the EndpointSlice changed
	Proxy      Length   `json:"proxy"`           // from then until the node's routes changed
	Mostly     LostPart `json:"mostly,omitzero"` // the longest part; absent if the bars do not tell
}

// WaitedTime is how long after a new Pod's first container had started a node routed to it, by what it waited for.
// The parts sum to the whole. Of a [Route] that is open, the proxy's part is a lower bound. When the node's routes
// came is known by the first answer: the proxy's part has the time until a request happened to be routed there.
type WaitedTime struct {
	Length
	StartUp    Length   `json:"startUp"`         // until the Pod was ready
	Controller Length   `json:"controller"`      // from then until the EndpointSlice changed
	Proxy      Length   `json:"proxy"`           // from then until the node's routes changed
	Mostly     LostPart `json:"mostly,omitzero"` // the longest part; absent if the bars do not tell
}

// LostPart names a part of a [LostTime] or a [WaitedTime]. The list is closed.
type LostPart string

const (
	LostAppEarly   LostPart = "app-early"
	LostController LostPart = "controller"
	LostProxy      LostPart = "proxy"
	LostStartUp    LostPart = "start-up"
)

// LateRoutes says that a node, a zone or a whole change stands out among the [Route]s of a run: the routes followed
// late there.
type LateRoutes struct {
	Of LateOf `json:"of"`
	// the node's or the zone's; of a change, the Pod's whose endpoint came or went
	Name    string `json:"name"`
	Changes int    `json:"changes"` // how many changes it is true of
	Known   int    `json:"known"`   // changes whose lag is known
	// the latest of them: behind the first node that followed; of a change, after the EndpointSlice had it
	Behind Length `json:"behind"`
	Open   bool   `json:"open,omitzero"` // that may be longer: the routes were not seen to follow
	Text   string `json:"text"`          // one sentence with names and figures
}

// LateOf says what routes that follow late have in common. The list is closed.
type LateOf string

const (
	// one node, where others were in time: its proxy or network, or its way to the API server
	LateNode   LateOf = "node"
	LateZone   LateOf = "zone"   // all nodes of a zone, where other zones were in time
	LateChange LateOf = "change" // all nodes: what they share
)
