package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/correlate"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
)

// A block that was copied into a recording once more must not make a gate fail, and must not go unnoticed.
func TestARepeatedBlockIsDamageAndCountsOnce(t *testing.T) {
	r := newHeldRun(t)
	begin := r.rec.Size()
	r.requests(0, 300)
	r.requests(300, 600)
	end := r.rec.Size()
	r.end(600)
	path := filepath.Join(r.dir, saved.FactsFile)
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
		tl, err := saved.Load(r.dir, correlate.Options{}, []string{"failed>250"})
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
	for name, run := range map[string]*heldRun{"before the first block": newHeldRun(t), "within it": newHeldRun(t)} {
		path := filepath.Join(run.dir, saved.FactsFile)
		size := int64(8) // the header
		if name == "within it" {
			size = run.rec.Size() - 1
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		_, err := saved.Load(run.dir, correlate.Options{}, nil)
		if exit.CodeOf(err) != 6 || !strings.Contains(err.Error(), "killed before it had written the first") {
			t.Errorf("%s: exit code %d, %v", name, exit.CodeOf(err), err)
		}
	}
}
