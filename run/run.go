package run

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"lapse/run/exit"
)

// Run measures from the Job or from this machine, as the targets require, and prints the result.
func (o *Options) Run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, exit.StopSignals...)
	signal.Ignore(syscall.SIGPIPE) // the reader of our output may exit: the Job must still be deleted
	defer signal.Stop(signals)
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
