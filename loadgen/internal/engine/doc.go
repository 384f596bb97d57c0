// Package engine sends the requests of one target when they are due, and books how they end. Each kind of target has an
// engine: a connection for each request (perrequest.go), a pool of persistent connections (pool.go), connections that
// carry several requests at once (streams.go), or connections that are held open (held.go). What they have in common is
// the [Requester]. Its [Inflight] keeps the target's requests and gives its watermark; [Notes] keep what requests
// showed beyond their outcomes.
package engine
