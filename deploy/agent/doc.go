// Package agent is the API between a run's Pod, where the agent measures, and the workstation: how far the run has
// come, its recording from an offset on, a comparison of clocks, what the command does, and the end of the run.
//
// The Pod serves it on its own 127.0.0.1 ([NewServer] over a [Service]). A [Client] reaches it through a [Tunnel], as
// `kubectl port-forward` does, and goes on where a connection broke.
//
// A prober, which only measures, serves the same of its recording to the run's agent ([NewProberServer],
// [NewProberClient]), over mutual TLS with keys that were made for the run: its Pod listens on its own address, and
// nobody else may ask it.
//
// api.go has what both sides send. handlers.go serves what agents and probers have in common. server.go, outside.go
// and prober.go add the agent's own part, sources outside of the cluster, and probers. None of these calls into a
// file that builds on it.
package agent

// DefaultPort is where the agent listens, on the Pod's own 127.0.0.1 and nowhere else.
const DefaultPort = 8089

// ProberPort is where a prober listens, on its Pod's address.
const ProberPort = 8090
