package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"lapse/cmd/lapse/internal/selftest"
	"lapse/correlate"
)

// The whole of it, over real sockets. On a machine that is too busy to measure it has to say so; but no promise may be
// broken while the run was observed, and a prober that was stopped has to say so on any machine.
func TestSelftestKeepsItsPromises(t *testing.T) {
	t.Parallel() // it demands nothing of how long something takes
	dir := filepath.Join(t.TempDir(), "proof")
	var stdout bytes.Buffer
	code := lapse(t.Context(), []string{"lapse", "selftest", "--duration=16s", "--seed=3", "--out=" + dir, "-o=json"}, &stdout, t.Output())
	var r selftest.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if code != r.ExitCode || code != correlate.ExitPassed && code != correlate.ExitInconclusive {
		t.Errorf("exit code %d, in the report %d", code, r.ExitCode)
	}
	if code == correlate.ExitPassed && r.Coverage < selftest.MinCoverage {
		t.Errorf("passed with a coverage of %v", r.Coverage)
	}
	if n := len(r.Promises); n != 8 || r.Promises[5].Outcome != selftest.Kept || r.Promises[7].Outcome != selftest.Kept {
		t.Errorf("%d promises; judged again, and stopped: both must be kept on any machine", n)
	}
	for _, name := range []string{factsFile, timelineFile, "selftest.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}
