package run

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
)

// stopSignals end a run in order, or its command.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// stoppedBy says which signal ended a run.
func stoppedBy(sig os.Signal) string {
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

// Interruptible returns a context that the first signal ends, until release is called.
func Interruptible(ctx context.Context, signals <-chan os.Signal) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	released := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case sig := <-signals:
			cancel(errors.New(stoppedBy(sig)))
		case <-released:
		}
	})
	return ctx, sync.OnceFunc(func() { close(released); watching.Wait() })
}
