package runtest

import (
	"os"
	"path/filepath"
	"testing"

	"lapse/correlate/model"
	"lapse/internal/report"
	"lapse/internal/run/saved"
	"lapse/loadgen/faultserver"
)

// StartServer starts a server with faults.
func StartServer(t *testing.T, faults ...faultserver.Fault) *faultserver.Server {
	t.Helper()
	server, err := faultserver.Start(faultserver.Config{Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Timeline reads the timeline.json in a run's directory.
func Timeline(t testing.TB, dir string) *model.Timeline {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, saved.TimelineFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tl, err := report.ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}
