package timeline

import (
	"net/netip"
	"time"
)

// A Lookup says how a DNS server answers for a name.
type Lookup struct {
	Name     string         `json:"name"`                 // with a dot at its end
	Addrs    []netip.Addr   `json:"addrs,omitzero"`       // from then on, lowest first; empty if the name has none
	Asked    int            `json:"asked"`                // queries so far, except those without an answer yet
	Answered int            `json:"answered"`             // of them
	Shortest *time.Duration `json:"shortestTTL,omitzero"` // shortest TTL of the answers with addresses so far
	Longest  *time.Duration `json:"longestTTL,omitzero"`  // longest TTL: how long a client may cache an answer
}
