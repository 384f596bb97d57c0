package run

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"time"

	"lapse/run/exit"
)

// Run measures from the Job or from this machine, as the targets require, and prints the result.
func (o *Options) Run(ctx context.Context, signals exit.Signals, stdout, stderr io.Writer) error {
	if o.ID == "" {
		o.ID = NewID()
	}
	o.PrintNotes(stderr)
	if o.InCluster() {
		return o.runInCluster(ctx, signals, stdout, stderr)
	}
	return o.runHere(ctx, signals, stdout, stderr)
}

// NewID returns the name of a new run, of its directory and of its Job. It is short, probably unique, and a valid
// Kubernetes name.
func NewID() string {
	return "lapse-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}
