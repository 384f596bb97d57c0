package model

import (
	"time"

	"lapse/timeline"
)

// A ControlPlane is how the cluster's API servers answered beside the run. It is no part of the verdict: a Service can
// answer while they do not. What was read by watch meanwhile has wider brackets, see the events of kind watch-gap.
type ControlPlane struct {
	NotAsked string      `json:"notAsked,omitzero"` // why no API server was asked, or not each; absent if each was
	Servers  []APIServer `json:"servers"`           // by address, then by what was asked, then by source
	WatchLag *WatchLag   `json:"watchLag,omitzero"` // absent if no change of an endpoint has a known lower bound
}

// ByAddress returns the servers of each address.
func (p *ControlPlane) ByAddress() (split [][]APIServer) {
	for i := range p.Servers {
		if i == 0 || p.Servers[i].Addr != p.Servers[i-1].Addr {
			split = append(split, nil)
		}
		split[len(split)-1] = append(split[len(split)-1], p.Servers[i])
	}
	return split
}

// LongestOut returns the one that failed for the longest time; nil if none did.
func LongestOut(servers []APIServer) (worst *APIServer) {
	longest := time.Duration(0)
	for i := range servers {
		out := time.Duration(0)
		for _, o := range servers[i].Outages {
			out += o.Length.Max
		}
		if out > longest {
			longest, worst = out, &servers[i]
		}
	}
	return worst
}

// An APIServer is one address of the API, as one source asked it for one thing.
type APIServer struct {
	Addr   string `json:"addr"`            // HOST:PORT
	Path   string `json:"path"`            // what was asked: /livez, /readyz, or a list of one object
	Target string `json:"target"`          // the name of the target
	Node   string `json:"node,omitzero"`   // from which it was asked
	Source string `json:"source,omitzero"` // who asked

	Measured Instant `json:"measured"` // from when (Earliest) to when (Latest) it was asked
	// why nothing is known: no request was answered, so it may never have been in reach from there
	NotMeasured string `json:"notMeasured,omitzero"`
	// answers that say that the server is up, and that it refuses this request: 401, 403; absent if there were none
	Refused map[uint16]int `json:"refused,omitzero"`
	// when it did not answer, or with an error, by time; empty with NotMeasured
	Outages []APIOutage `json:"outages"`
}

// An APIOutage is a time in which requests to an API server failed, with the brackets of a [Window].
type APIOutage struct {
	Kind    WindowKind     `json:"kind"` // outage, partial
	Basis   Basis          `json:"basis"`
	Start   Instant        `json:"start"`
	End     Instant        `json:"end"`
	Length  Length         `json:"length"`
	Sent    int            `json:"sent"`
	Failed  int            `json:"failed"`
	Classes map[string]int `json:"classes"` // failures by class
	Open    Open           `json:"open"`
}

// Answered reports whether the server answered all the time, with errors.
func (o *APIOutage) Answered() bool {
	return o.Classes[timeline.HTTP5xx.String()]+o.Classes[timeline.HTTP4xx.String()] == o.Failed
}

// A WatchLag is how long changes of endpoints took at most until the watch brought them. The watcher reads
// EndpointSlices as well: a change came after the last read that does not have it.
type WatchLag struct {
	Changes int           `json:"changes"` // of endpoints, which such a read bounds
	Longest time.Duration `json:"longest"` // the highest of these bounds
}
