package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/internal/record"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// recordFacts makes the recording of a run with one good request and then what else there is.
func recordFacts(t *testing.T, more ...timeline.Fact) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), saved.FactsFile)
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range append([]timeline.Fact{
		timeline.Meta{ID: "test"},
		timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 100, Timeout: time.Second},
		timeline.Batch{Requests: []timeline.Request{{Target: 1, Due: time.Millisecond, Sent: time.Millisecond, Done: 2 * time.Millisecond, Outcome: timeline.Outcome{Code: 200}}}},
		timeline.Event{ID: 1, Seen: time.Millisecond, Kind: timeline.RunPhase, To: string(timeline.PhaseMeasuring)},
	}, more...) {
		if err := w.Append(fact); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// What has come of a run that was not fetched whole is shown like any run that breaks off.
func TestARunOfWhichOnlyAPartCameIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Rename(recordFacts(t), filepath.Join(dir, saved.PartialFile)); err != nil {
		t.Fatal(err)
	}
	tl, err := saved.Load(dir, correlate.Options{}, nil)
	if err != nil || !tl.Run.Truncated || tl.Targets[0].Sent != 1 {
		t.Fatalf("%+v, %v", tl, err)
	}
}

// A writer that is killed has mostly just flushed: the recording breaks off between two blocks, and looks whole.
func TestExportOfARecordingThatBreaksOffSaysSo(t *testing.T) {
	unfinished := recordFacts(t)
	whole := recordFacts(t, timeline.Event{ID: 2, Seen: time.Second, Kind: timeline.RunPhase, To: string(timeline.PhaseEnded)})
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	headerOnly, inside := filepath.Join(t.TempDir(), "header"), filepath.Join(t.TempDir(), "inside")
	for path, size := range map[string]int{headerOnly: 8, inside: len(data) - 1} {
		if err := os.WriteFile(path, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const early = "lapse: exported only what lies before: %s: the recording ends before the run did\n"
	for _, c := range []struct {
		path   string
		code   int
		stderr string
	}{
		{whole, 0, ""},
		{unfinished, 6, fmt.Sprintf(early, unfinished)},
		{headerOnly, 6, fmt.Sprintf(early, headerOnly)},
		{inside, 6, fmt.Sprintf("lapse: exported only what lies before: %s, byte 8: the recording ends inside a block\n", inside)},
	} {
		for _, e := range []string{"csv", "events", "held", "hlog"} {
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), []string{"lapse", "export", c.path, "-o", e}, &stdout, &stderr)
			if code != c.code || !strings.HasPrefix(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 || stdout.Len() == 0 {
				t.Errorf("-o %s: code %d, want %d; stderr %q, want %q; %d bytes on stdout", e, code, c.code, stderr.String(), c.stderr, stdout.Len())
			}
		}
	}
}
