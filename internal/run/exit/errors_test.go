package exit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"lapse/deploy/agent"
	"lapse/internal/hint"
)

// A hint is advice: only what stopped a verb before anything had started ends it with 2, with or without one.
func TestTheExitCodeDoesNotDependOnAHint(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{Usagef("try this", "no"), 2},
		{Usagef("", "no"), 2},
		{AsUsage(errors.New("no")), 2},
		{AsUsage(hint.Errorf("try this", "no")), 2},
		{fmt.Errorf("begin: %w", Usagef("", "no")), 2},
		{hint.Errorf("try this", "broken"), 1},
		{errors.New("broken"), 1},
		{&agent.ChecksumError{}, 1},
		{&agent.GoneError{Pod: "lapse-a"}, 1},
		{Code{Code: 3, Trouble: errors.New("and more")}, 3},
	} {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("%T %v: exit code %d, want %d", test.err, test.err, got, test.want)
		}
	}
}

// What ends a run is named as people know it.
func TestASignalIsCalledByItsName(t *testing.T) {
	for sig, want := range map[os.Signal]string{
		syscall.SIGTERM: "stopped by SIGTERM", syscall.SIGINT: "stopped by SIGINT (Ctrl-C)", syscall.SIGHUP: "stopped by SIGHUP (the terminal went away)",
	} {
		if got := StoppedBy(sig); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
