package agent

import (
	"encoding/json"
	"time"

	"lapse/timeline"
)

// Status is the progress of the agent's run.
type Status struct {
	ID      string         `json:"id"`      // the run's ID
	Version string         `json:"version"` // of the agent's Lapse
	Phase   timeline.Phase `json:"phase"`
	Now     time.Duration  `json:"now"`             // on the run's clock
	Size    int64          `json:"size"`            // bytes of the recording that can be fetched
	SHA256  string         `json:"sha256,omitzero"` // of the whole recording, once the phase is [timeline.PhaseEnded]
	Detail  string         `json:"detail,omitzero"` // why, if the run ended other than planned

	// Only a prober sets these. Process identifies the process: another one in the same Pod has another clock and
	// another recording.
	Process string    `json:"process,omitzero"`
	T0      time.Time `json:"t0,omitzero"` // the time of its wall clock at its instant 0
}

// An Assignment is the task of a prober.
type Assignment struct {
	Source  timeline.SourceID `json:"source"`  // the source of the prober's facts
	Spec    json.RawMessage   `json:"spec"`    // how to make its requests, with the secrets
	Targets []Assigned        `json:"targets"` // a control target among them has no URL: the prober has its own
}

// An Assigned is a target as the run numbers and names it.
type Assigned struct {
	timeline.Target
	Host string `json:"host,omitzero"` // the Host header and TLS server name, where they differ from the URL's host
}

// A Rate is how often a target is to be asked from now on, in requests per second.
type Rate struct {
	Source timeline.SourceID `json:"source,omitzero"` // of the target; 0: the only one
	Target timeline.TargetID `json:"target"`          // as numbered within its source
	Rate   float64           `json:"rate"`
}

// Headers of POST /v1/events. A client numbers its events from 0, and the agent takes each number
// once, so that a post whose answer got lost can be repeated.
const (
	headerClient = "Lapse-Client"
	headerFirst  = "Lapse-First"
)

// headerRunsCommand is on each request of the workstation that runs the wrapped command.
const headerRunsCommand = "Lapse-Runs-Command"

// headerProcess is on requests that only one process may answer. Each session of a prober has a name of its own there.
const headerProcess = "Lapse-Process"

// headerCoordinator is on each request to a prober with several sessions. It says whose session it is about.
const headerCoordinator = "Lapse-Coordinator"

const maxBody = 8 << 20

type (
	clockReply struct {
		Now time.Duration `json:"now"`
	}
	reasonBody struct {
		Reason string `json:"reason"`
	}
	endBody struct {
		Reason string            `json:"reason"`
		Source timeline.SourceID `json:"source,omitzero"`
	}
	errorReply struct {
		Error string `json:"error"`
	}
)
