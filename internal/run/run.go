package run

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"time"

	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// Run measures from the Job or from this machine, as the targets require, and prints the result.
func Run(ctx context.Context, o *spec.Options, signals exit.Signals, stdout, stderr io.Writer) error {
	if o.ID == "" {
		o.ID = NewID()
	}
	o.PrintNotes(stderr)
	if o.InCluster() {
		return runInCluster(ctx, o, signals, stdout, stderr)
	}
	return runHere(ctx, o, signals, stdout, stderr)
}

// NewID returns the name of a new run, of its directory and of its Job. It is short, probably unique, and a valid
// Kubernetes name.
func NewID() string {
	return "lapse-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}
