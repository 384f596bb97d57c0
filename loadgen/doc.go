// Package loadgen sends requests at a steady rate, whether or not earlier ones were answered, and turns each
// into a fact: when it was due, when it was sent, how and when it ended.
//
// A [Prober] paces any number of targets from one thread. Each target has an engine for its kind: a connection for
// each request (engine_perrequest.go), a pool of persistent connections (engine_pool.go), or such connections that
// carry several requests at once (engine_streams.go). A connection is of TCP, of TLS over it, or a UDP socket
// (datagram.go). The bytes on a connection are the protocol's (protocol.go has the table). HTTP replies are read by a
// reader of our own (http1.go), because net/http's client silently sends some requests again and reports only the
// success.
//
// Calls go one way through the files: prober, pacer, target, schedule, engine_*, requester, dial, failover, ports,
// conn; then what all of these use: inflight, backends, errors, stall, lateness; and probe, protocol, one file for
// each protocol, classify.
package loadgen
