package selftest

import (
	"slices"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A Protocol has what plan and ledger need to know of a protocol.
type Protocol struct {
	Name     string
	Classes  []Class // of outages that its server can have
	Statuses bool    // good answers have a status
	fails    map[faultserver.Kind][]timeline.Class
}

// HTTP is the protocol of http:// targets.
var HTTP = Protocol{
	Name: "http", Statuses: true,
	Classes: []Class{Refused, Reset, EOF, Error, Truncated, Stalled, Random, Slow, Goodbye},
	fails:   overTCP(timeline.HTTP5xx, timeline.Body),
}

// HTTP2 is the protocol of h2c:// targets, GRPC of grpc:// and Events of sse://. They fail as HTTP does: a grpc-status
// UNAVAILABLE has the class of a 503, and a reset stream the class of a reset connection.
var (
	HTTP2  = Protocol{Name: "h2c", Statuses: true, Classes: HTTP.Classes, fails: HTTP.fails}
	GRPC   = Protocol{Name: "grpc", Classes: HTTP.Classes, fails: HTTP.fails}
	Events = Protocol{Name: "sse", Statuses: true, Classes: HTTP.Classes, fails: HTTP.fails}
)

// WebSocket is the protocol of ws:// targets. Where no whole pong comes, the end of the connection is seen, with or
// without a close frame.
var WebSocket = Protocol{
	Name:    "ws",
	Classes: []Class{Refused, Reset, EOF, WrongReply, Truncated, Stalled, Random, Slow, Goodbye},
	fails:   overTCP(timeline.EOF, timeline.EOF),
}

// TCP is the protocol of tcp:// targets.
var TCP = Protocol{
	Name:    "tcp",
	Classes: []Class{Refused, Reset, EOF, WrongReply, Truncated, Stalled, Random, Slow},
	fails:   overTCP(timeline.Body, timeline.Body),
}

// overTCP returns how requests over connections can fail. wrong and truncated are the classes of an error and of a
// truncated reply.
func overTCP(wrong, truncated timeline.Class) map[faultserver.Kind][]timeline.Class {
	return map[faultserver.Kind][]timeline.Class{
		faultserver.Refuse:   {timeline.Refused, timeline.Reset, timeline.EOF},
		faultserver.Reset:    {timeline.Reset},
		faultserver.EOF:      {timeline.EOF},
		faultserver.Error:    {wrong},
		faultserver.Truncate: {truncated},
		faultserver.Stall:    {timeline.TimeoutResponse, timeline.NoSlot},
	}
}

// OverTLS returns p over TLS, under the name that it has there. It fails as p does.
func (p Protocol) OverTLS(name string) Protocol {
	p.Name = name
	return p
}

// UDP is the protocol of udp:// targets, and DNS of dns://. Datagrams that a socket had received when it was closed
// are not answered at all.
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

// kindsOf returns what the server can do in an outage of a class. The plan chooses one.
func (p Protocol) kindsOf(c Class) (possible []faultserver.Kind) {
	for _, k := range kinds[c] {
		if _, fails := p.fails[k]; fails || !c.failing() {
			possible = append(possible, k)
		}
	}
	return possible
}

// fits reports whether a request can fail with class c in an outage of a kind. On a busy machine an answer can also
// come too late: that is not the outage's doing.
func (p Protocol) fits(c timeline.Class, k faultserver.Kind) bool {
	return slices.Contains(p.fails[k], c)
}
