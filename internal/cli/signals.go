package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lapse/internal/run"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// stopSignals end a run in order.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// takeSignals takes the signals that end a run, until stop is called.
func takeSignals() (taken exit.Signals, stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopSignals...)
	return exit.Signals{C: signals, Release: func() { signal.Reset(stopSignals...) }}, func() { signal.Stop(signals) }
}

// measure measures what the checked options ask for. SIGPIPE is ignored: the reader of the output may exit, and the
// Job must still be deleted.
func measure(cmd *cobra.Command, o *spec.Options) error {
	signals, stop := takeSignals()
	defer stop()
	signal.Ignore(syscall.SIGPIPE)
	return sayWhoseImage(run.Run(cmd.Context(), o, signals, cmd.OutOrStdout(), cmd.ErrOrStderr()), o)
}
