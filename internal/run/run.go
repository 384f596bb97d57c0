package run

import (
	"context"
	"io"

	"lapse/internal/run/coordinator"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/internal/run/workstation"
)

// Run measures from the Job or from this machine, as the targets require, and prints the result.
func Run(ctx context.Context, o *spec.Options, signals exit.Signals, stdout, stderr io.Writer) error {
	if o.ID == "" {
		o.ID = spec.NewID()
	}
	o.PrintNotes(stderr)
	if o.InCluster() {
		return workstation.Run(ctx, o, signals, stdout, stderr)
	}
	return coordinator.Run(ctx, o, signals, stdout, stderr)
}
