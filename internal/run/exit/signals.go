package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Signals are the signals that end a run in order, or its command. The owner of the process takes them.
type Signals struct {
	C       <-chan os.Signal
	Release func() // restores the usual effect of the signals: from then on one may end the process at once
}

// StoppedBy returns the name of the signal that ended a run.
func StoppedBy(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "stopped by SIGINT (Ctrl-C)"
	case syscall.SIGTERM:
		return "stopped by SIGTERM"
	case syscall.SIGHUP:
		return "stopped by SIGHUP (the terminal went away)"
	}
	return "stopped by " + sig.String()
}

// ToldCommand is what a run says when the first Ctrl-C has gone to its command.
func ToldCommand(settle time.Duration) string {
	return fmt.Sprintf("Ctrl-C went to the command; when it ends, the run goes on for %v (--settle); "+
		"Ctrl-C again ends the run at once", settle)
}

// Interruptible returns a context that the first signal ends, until release is called.
func Interruptible(ctx context.Context, signals <-chan os.Signal) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	released := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case sig := <-signals:
			cancel(errors.New(StoppedBy(sig)))
		case <-released:
		}
	})
	return ctx, sync.OnceFunc(func() { close(released); watching.Wait() })
}
