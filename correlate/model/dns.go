package model

// DNS is how the DNS servers of a cluster followed the changes of a Service's endpoints, by the addresses that they
// gave for the name of a headless Service with the same Pods.
type DNS struct {
	Name     string      `json:"name,omitzero"`     // that was asked for
	NotAsked string      `json:"notAsked,omitzero"` // why no server was asked, or which were not; absent if all were
	Servers  []DNSServer `json:"servers"`           // those that were asked, by Pod and address
}

// A DNSServer is one address of a DNS server, asked by the run's coordinator without a resolver or a Service in
// between.
type DNSServer struct {
	Addr     string `json:"addr"`
	Pod      string `json:"pod,omitzero"`  // NAMESPACE/NAME
	Node     string `json:"node,omitzero"` // the Pod's
	Asked    int    `json:"asked"`         // queries, without those whose answer was still awaited at the end
	Answered int    `json:"answered"`      // of them
	// the shortest and the longest TTL of its answers with addresses: a client may keep one for so long; absent if
	// there was none
	TTL     *Length     `json:"ttl,omitzero"`
	Why     string      `json:"why,omitzero"` // why the last query that was not answered was not
	Changes []DNSChange `json:"changes"`      // in their order
}

// A DNSChange is how one server followed the change of an endpoint: from when on its answers had the Pod's address,
// or no longer. Where that was not observed, Changed and Lag are absent: it gave no answer with the state before, or
// none after.
type DNSChange struct {
	Change RouteChange `json:"change"`
	Pod    string      `json:"pod"` // its name
	PodUID string      `json:"podUID"`
	Event  uint32      `json:"event"` // the ID of the event that is the change of the endpoint

	Asked *Instant `json:"asked,omitzero"` // when the Pod's deletion was asked for; absent unless Lapse itself did
	API   Instant  `json:"api"`            // when the EndpointSlice changed
	// when the answers did; with Open, Earliest is when the last was asked for that had not, and Latest the end of what
	// is known
	Changed *Instant `json:"changed,omitzero"`
	Open    bool     `json:"open,omitzero"` // they were not seen to change
	// from Asked to Changed, or from API where Asked is absent. Answers that clients keep are not part of it
	Lag *Length `json:"lag,omitzero"`
}
