// Package loadgen sends requests at a steady rate, whether or not earlier ones were answered, and turns every one
// into a fact: when it was due, when it was sent, how and when it ended.
//
// A [Prober] paces any number of targets from one thread. Each target has an engine for its kind: one connection per
// request (engine_perrequest.go), or persistent connections (engine_pool.go). What is said on them is a protocol's affair (protocol.go
// has the table): HTTP/1.1, plain or over TLS (http.go), or a text sent and awaited over TCP (tcp.go). HTTP replies are read
// by our own reader (http1.go), because net/http's client silently sends some requests again and reports only the success.
package loadgen
