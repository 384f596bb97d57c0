package spec

import (
	"testing"

	"lapse/internal/hint"
)

// Windows follows runs in the cluster and measures nothing itself.
func TestWindowsDoesNotMeasure(t *testing.T) {
	err := checkSystem("windows")
	if err == nil || hint.Of(err) != "measure a Service, as svc/NAME: a Job in the cluster sends the requests" {
		t.Errorf("windows: %v, hint %q", err, hint.Of(err))
	}
	for _, goos := range []string{"linux", "darwin"} {
		if err := checkSystem(goos); err != nil {
			t.Errorf("%s: %v", goos, err)
		}
	}
}
