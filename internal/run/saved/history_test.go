package saved

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/internal/history"
	"lapse/internal/run/exit"
)

// folder makes a folder with files, of which those named FILE=COPY are copies of FILE.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		data := []byte(text)
		if name, of, ok := strings.Cut(name, "="); ok {
			var err error
			if data, err = os.ReadFile(of); err != nil {
				t.Fatal(err)
			}
			files[name] = string(data)
		}
		name, _, _ = strings.Cut(name, "=")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const recording = "../../record/testdata/format5.lapse"

func TestAFolderOfRunsIsAHistory(t *testing.T) {
	facts, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{
		"a/facts.lapse=" + recording: "", "b/facts.partial.lapse=" + recording: "",
		"broken/facts.lapse": "LAPSE", "no-run/notes.txt": "", "notes.txt": "",
	})
	h, err := ReadHistory(dir)
	if err != nil || len(h.Lines) != 2 || len(h.Unread) != 1 || len(h.CutOff) != 0 || !strings.Contains(h.Unread[0].Error(), "broken") {
		t.Fatalf("%+v, %v", h, err)
	}
	sum := sha256.Sum256(facts)
	for _, l := range h.Lines {
		if l.Recording != hex.EncodeToString(sum[:]) || l.Sent == 0 || l.Service == "" {
			t.Errorf("%+v", l)
		}
	}
	one, err := ReadHistory(filepath.Join(dir, "a"))
	if err != nil || len(one.Lines) != 1 {
		t.Errorf("of one run: %+v, %v", one, err)
	}
}

func TestAHistoryIsReadWithTheRunsBesideIt(t *testing.T) {
	dir := folder(t, map[string]string{"a/facts.lapse=" + recording: ""})
	h, err := ReadHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	old := h.Lines[0]
	old.Run = "older"
	if err := history.Write(&file, old, h.Lines[0]); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, HistoryFile)
	if err := os.WriteFile(path, []byte(file.String()+"{}\n"+file.String()[:100]), 0o644); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string][]string{dir: {"older", h.Lines[0].Run, h.Lines[0].Run}, path: {"older", h.Lines[0].Run}} {
		h, err := ReadHistory(at)
		var runs []string
		for _, l := range h.Lines {
			runs = append(runs, l.Run)
		}
		if err != nil || !slices.Equal(runs, want) || len(h.Unread) != 1 || len(h.CutOff) != 1 || !strings.HasPrefix(h.CutOff[0].Error(), path+": line 4, the last,") {
			t.Errorf("%s: %q, %v, %v, %v", at, runs, h.Unread, h.CutOff, err)
		}
	}
}

func TestWhatIsNoHistoryIsAUsageError(t *testing.T) {
	dir := folder(t, map[string]string{"notes.txt": ""})
	for _, path := range []string{dir, filepath.Join(dir, "missing"), filepath.Join(dir, "notes.txt")} {
		if _, err := ReadHistory(path); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAFolderThatIsARunHoldsNone(t *testing.T) {
	dir := folder(t, map[string]string{"facts.lapse": "", "a/timeline.json": "", "b/notes.txt": ""})
	if got := Runs(dir); got != nil {
		t.Errorf("%q", got)
	}
	if err := os.Remove(filepath.Join(dir, "facts.lapse")); err != nil {
		t.Fatal(err)
	}
	if got := Runs(dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q", got)
	}
}
