package selftest

import "maps"

// HTTP2 is that of h2c:// targets, GRPC that of grpc:// ones, and Events that of sse:// ones. Their failures are HTTP's: a grpc-status
// UNAVAILABLE has the class of a 503, and a reset stream that of a reset connection.
var (
	HTTP2  = overTCP("h2c", true)
	GRPC   = overTCP("grpc", false)
	Events = overTCP("sse", true)
)

func overTCP(name string, statuses bool) Protocol {
	return Protocol{Name: name, Statuses: statuses, Classes: HTTP.Classes, fails: maps.Clone(HTTP.fails)}
}
