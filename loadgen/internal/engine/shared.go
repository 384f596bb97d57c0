package engine

import (
	"log/slog"

	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

// A Shared is what the requesters of a prober have in common.
type Shared struct {
	Clock   timeline.Clock
	Log     *slog.Logger
	Stalls  *stall.Detector
	Polling *Polling // nil for none
	Failed  func()   // called for each request that was not answered well; it must not block. nil: nobody wants to know
	*Notes
}
