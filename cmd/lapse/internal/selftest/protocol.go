package selftest

import (
	"slices"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A Protocol is what is measured, as far as plan and ledger depend on it.
type Protocol struct {
	Name     string
	Classes  []Class // of outages that its server can have
	Statuses bool    // good answers have a status
	fails    map[faultserver.Kind][]timeline.Class
}

// HTTP is that of http:// targets.
var HTTP = Protocol{
	Name: "http", Statuses: true,
	Classes: []Class{Refused, Reset, EOF, Error, Truncated, Stalled, Random, Slow, Goodbye},
	fails: map[faultserver.Kind][]timeline.Class{
		faultserver.Refuse:   {timeline.Refused, timeline.Reset, timeline.EOF},
		faultserver.Reset:    {timeline.Reset},
		faultserver.EOF:      {timeline.EOF},
		faultserver.Error:    {timeline.HTTP5xx},
		faultserver.Truncate: {timeline.Body},
		faultserver.Stall:    {timeline.TimeoutResponse, timeline.NoSlot},
	},
}

// UDP is that of udp:// targets, and DNS that of dns:// ones. Datagrams that a socket had received when it was closed are not answered at all.
var (
	UDP = datagrams("udp", timeline.Body)
	DNS = datagrams("dns", timeline.DNS)
)

func datagrams(name string, wrong timeline.Class) Protocol {
	return Protocol{
		Name:    name,
		Classes: []Class{Refused, WrongReply, Lost, Stalled, Random, Slow},
		fails: map[faultserver.Kind][]timeline.Class{
			faultserver.Refuse: {timeline.Refused, timeline.TimeoutResponse},
			faultserver.Error:  {wrong},
			faultserver.Drop:   {timeline.TimeoutResponse, timeline.NoSlot},
			faultserver.Stall:  {timeline.TimeoutResponse, timeline.NoSlot},
		},
	}
}

// kindsOf are what the server does in an outage of a class. Of several, one is chosen.
func (p Protocol) kindsOf(c Class) (possible []faultserver.Kind) {
	for _, k := range kinds[c] {
		if _, fails := p.fails[k]; fails || !c.failing() {
			possible = append(possible, k)
		}
	}
	return possible
}

// fits reports whether a request can fail so in an outage of a kind. An answer can also come too late on a busy machine: that is
// not the outage's.
func (p Protocol) fits(c timeline.Class, k faultserver.Kind) bool {
	return slices.Contains(p.fails[k], c)
}
