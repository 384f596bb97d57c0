package protocol

import (
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

func probe(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) Probe {
	return Probe{Target: loadtest.Target(id, kind, url, rate)}
}
