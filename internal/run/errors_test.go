package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lapse/correlate"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/internal/run/remote"
	"lapse/internal/run/saved"
)

// A hint is advice: only what stopped a verb before anything had started ends it with 2, with or without one.
func TestTheExitCodeDoesNotDependOnAHint(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for _, test := range []struct {
		err  error
		want int
	}{
		{exit.Usagef("try this", "no"), 2},
		{exit.Usagef("", "no"), 2},
		{exit.AsUsage(errors.New("no")), 2},
		{exit.AsUsage(hint.Errorf("try this", "no")), 2},
		{fmt.Errorf("begin: %w", exit.Usagef("", "no")), 2},
		{hint.Errorf("try this", "broken"), 1},
		{errors.New("broken"), 1},
		{&agent.ChecksumError{}, 1},
		{&agent.GoneError{Pod: "lapse-a"}, 1},
		{notBegun(apierrors.NewForbidden(jobs, "a", errors.New("exceeded quota"))), 2},
		{notBegun(fmt.Errorf("create: %w", apierrors.NewNotFound(jobs, "a"))), 2},
		{notBegun(apierrors.NewInternalError(errors.New("etcd"))), 1},
		{notBegun(&deploy.StartError{Reason: "Error"}), 1},
		{exit.Code{Code: 3, Trouble: errors.New("and more")}, 3},
	} {
		if got := exit.CodeOf(test.err); got != test.want {
			t.Errorf("%T %v: exit code %d, want %d", test.err, test.err, got, test.want)
		}
	}
}

func TestAVerdictAloneStillSaysTheExitCode(t *testing.T) {
	for verdict, want := range map[string]int{`{"result":"pass","exitCode":0}`: 0, `{"exitCode":3}`: 3, `{}`: 1, `"x"`: 1, ``: 1} {
		if got := remote.VerdictCode(json.RawMessage(verdict)); got != want {
			t.Errorf("%s: %d, want %d", verdict, got, want)
		}
	}
}

// A recording of another version is none that the user named by mistake.
func TestARecordingOfAnotherVersionIsNoUsageError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, saved.FactsFile)
	for _, version := range []byte{2, 200} {
		if err := os.WriteFile(path, append([]byte("LAPSE\x1a\n"), version), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := saved.Load(dir, correlate.Options{}, nil); exit.CodeOf(err) != exit.Internal || hint.Of(err) == "" {
			t.Errorf("version %d: %v, hint %q, exit code %d", version, err, hint.Of(err), exit.CodeOf(err))
		}
	}
}

// What ends a run is named as people know it.
func TestASignalIsCalledByItsName(t *testing.T) {
	for sig, want := range map[os.Signal]string{
		syscall.SIGTERM: "stopped by SIGTERM", syscall.SIGINT: "stopped by SIGINT (Ctrl-C)", syscall.SIGHUP: "stopped by SIGHUP (the terminal went away)",
	} {
		if got := exit.StoppedBy(sig); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
