package timeline

import (
	"net/netip"
	"time"
)

// A Lookup is how a DNS server answers for a name.
type Lookup struct {
	Name     string         `json:"name"`                 // with a dot at its end
	Addrs    []netip.Addr   `json:"addrs,omitzero"`       // what it has from then on, lowest first; none where the server says that it has none
	Asked    int            `json:"asked"`                // queries so far, without those whose answer is awaited
	Answered int            `json:"answered"`             // of them
	Shortest *time.Duration `json:"shortestTTL,omitzero"` // the shortest TTL of all answers so far that had addresses; nil if none had
	Longest  *time.Duration `json:"longestTTL,omitzero"`  // the longest: a client may keep an answer for so long
}
