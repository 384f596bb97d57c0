// Package agent is the API between a run's Pod, where the agent measures, and the workstation: the progress of the run,
// its recording from an offset on, a comparison of clocks, events of the command, and the end of the run.
//
// The Pod serves it on its own 127.0.0.1 ([NewServer] over a [Service]). A [Client] reaches it through a [Tunnel], as
// `kubectl port-forward` does, and continues after a broken connection.
//
// A prober, which only measures, serves its recording in the same way to the run's agent ([NewProberServer],
// [NewProberClient]), or serves each guard a recording of its own. Its Pod listens on the Pod's address, so it uses
// mutual TLS with keys made for the run or the guards.
//
// api.go has the messages of both sides. handlers.go serves what agents and probers have in common. server.go,
// outside.go and prober.go add the agent's own part, sources outside the cluster, and probers. None of these calls into
// a file that builds on it.
package agent

// DefaultPort is where the agent listens, on the Pod's own 127.0.0.1 and nowhere else.
const DefaultPort = 8089

// ProberPort is where a prober listens, on its Pod's address.
const ProberPort = 8090
