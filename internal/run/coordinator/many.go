package coordinator

import (
	"log/slog"

	"lapse/loadgen"
	"lapse/timeline"
)

// Many measures many Services in one process, each by itself: see [Many.MeasureAgain]. One thread paces the requests to
// all of them.
type Many struct{ thread *loadgen.Thread }

// NewMany returns a Many that measures nothing before [Many.Run].
func NewMany(log *slog.Logger) *Many {
	return &Many{loadgen.NewThread(timeline.StartClock(), loadgen.Economical, log)}
}

// Run paces requests until over is closed, which is when the last Service is not measured any more.
func (y *Many) Run(over <-chan struct{}) { y.thread.Run(over) }
