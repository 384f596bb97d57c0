package workstation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lapse/deploy"
	"lapse/internal/run/exit"
)

// What the cluster does not take as it was asked for is the user's to change: exit code 2.
func TestAJobThatTheClusterRefusesIsAUsageError(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for _, test := range []struct {
		err  error
		want int
	}{
		{notBegun(apierrors.NewForbidden(jobs, "a", errors.New("exceeded quota"))), 2},
		{notBegun(fmt.Errorf("create: %w", apierrors.NewNotFound(jobs, "a"))), 2},
		{notBegun(apierrors.NewInternalError(errors.New("etcd"))), 1},
		{notBegun(&deploy.StartError{Reason: "Error"}), 1},
	} {
		if got := exit.CodeOf(test.err); got != test.want {
			t.Errorf("%T %v: exit code %d, want %d", test.err, test.err, got, test.want)
		}
	}
}

// A run may be armed for days: that is said once.
func TestWhatARunWaitsForIsSaidUntilItIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		notify, over := SayWaiting(func(line string) { said = append(said, line) }, "waiting for the run to answer")
		defer over()
		notify("waiting for Pod lapse-1 to be scheduled")
		time.Sleep(6 * time.Second)
		notify(deploy.Armed)
		time.Sleep(time.Hour)
		want := "waiting for Pod lapse-1 to be scheduled (5 s so far)\n" + deploy.Armed
		if got := strings.Join(said, "\n"); got != want {
			t.Errorf("said:\n%s\nwant:\n%s", got, want)
		}
	})
}
