package saved_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/correlate"
	"lapse/internal/run/exit"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
)

// A block that was copied into a recording once more must not make a gate fail, and must not go unnoticed.
func TestARepeatedBlockIsDamageAndCountsOnce(t *testing.T) {
	r := runtest.NewHeldRun(t)
	begin := r.Rec.Size()
	r.Requests(0, 300)
	r.Requests(300, 600)
	end := r.Rec.Size()
	r.End(600)
	path := filepath.Join(r.Dir, saved.FactsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"two blocks twice":       slices.Concat(data[:end], data[begin:]),
		"the file behind itself": slices.Concat(data, data),
	} {
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		tl, err := saved.Load(r.Dir, correlate.Options{}, []string{"failed>250"})
		if err != nil {
			t.Fatal(err)
		}
		if v := tl.Verdict; v.Failed != 200 || v.ExitCode != 6 {
			t.Errorf("%s: %d failed, exit code %d, want 200 and %d", name, v.Failed, v.ExitCode, 6)
		}
		if !strings.Contains(tl.Run.Aborted, "bytes from byte") || !strings.Contains(tl.Run.Aborted, "are left out") {
			t.Errorf("%s: %q does not say what is left out", name, tl.Run.Aborted)
		}
	}
}

// A run that was killed in its first second has a recording without facts: that is no internal error.
func TestARecordingWithoutFactsIsOfARunThatWasKilledAtOnce(t *testing.T) {
	for name, run := range map[string]*runtest.HeldRun{"before the first block": runtest.NewHeldRun(t), "within it": runtest.NewHeldRun(t)} {
		path := filepath.Join(run.Dir, saved.FactsFile)
		size := int64(8) // the header
		if name == "within it" {
			size = run.Rec.Size() - 1
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		_, err := saved.Load(run.Dir, correlate.Options{}, nil)
		if exit.CodeOf(err) != 6 || !strings.Contains(err.Error(), "killed before it had written the first") {
			t.Errorf("%s: exit code %d, %v", name, exit.CodeOf(err), err)
		}
	}
}
