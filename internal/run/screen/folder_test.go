package screen

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lapse/correlate/model"
)

// save writes a run's timeline.json.
func save(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "timeline.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderOfRunsIsListedFromWhatWasJudged(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "before"), `{"t0": "2026-11-25T13:03:26Z", "verdict": {"result": "fail", "failed": 174, "sent": 10453},
		"said": {"headline": "174 of 10453 requests failed"}, "incidents": [
			{"downtime": {"min": 1, "max": 2}, "causes": [{"rule": "node-lost"}]},
			{"downtime": {"min": 5, "max": 9}, "causes": [{"rule": "route-outlives-pod"}]}]}`)
	save(t, filepath.Join(dir, "broken"), `{"verdict": {"result": "pass"}, "said": {"word": "COMMAND FAILED"}}`)
	save(t, filepath.Join(dir, "damaged"), `{`)
	if err := os.Mkdir(filepath.Join(dir, "no-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	load := func(string) (*model.Timeline, error) { return nil, errors.New("it holds no facts") }
	folder, ok, err := Several([]string{dir}, load)
	if !ok || err != nil {
		t.Fatal(err)
	}
	runs := folder.Runs().Listed
	if len(runs) != 3 {
		t.Fatalf("%d runs, want 3", len(runs))
	}
	before, broken, damaged := runs[0], runs[1], runs[2]
	if before.Name != "before" || before.Word != "FAIL" || before.Failed != 174 || before.Sent != 10453 ||
		before.Cause != "route-outlives-pod" {
		t.Errorf("it is listed as %+v", before)
	}
	if broken.Word != "COMMAND FAILED" {
		t.Errorf("a run whose command failed is listed as %+v", broken)
	}
	if damaged.Word != "not judged" {
		t.Errorf("a run whose timeline.json is damaged is listed as %+v", damaged)
	}
	if _, _, err := folder.Open("damaged"); err == nil {
		t.Error("a run that cannot be judged is opened")
	}
	for _, name := range []string{"before", "no-run"} {
		if _, ok, _ := Several([]string{filepath.Join(dir, name)}, load); ok {
			t.Errorf("%s is taken for a folder of runs", name)
		}
	}
}

func TestComparedRunsHaveDifferentNames(t *testing.T) {
	load := func(string) (*model.Timeline, error) { return &model.Timeline{}, nil }
	for _, tt := range []struct{ a, b, first, second string }{
		{"runs/before", "runs/after/", "before", "after"},
		{"a/run", "b/run", "1-run", "2-run"},
		{"x,y", "z", "x_y", "z"},
	} {
		folder, ok, err := Several([]string{tt.a, tt.b}, load)
		if !ok || err != nil || folder.Compared[0] != tt.first || folder.Compared[1] != tt.second {
			t.Errorf("%s and %s are %q (%v), want %s and %s", tt.a, tt.b, folder.Compared, err, tt.first, tt.second)
		}
	}
}
