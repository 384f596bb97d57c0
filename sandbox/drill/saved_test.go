package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsSavedIsReadAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := Save(dir, "known.json", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "known.json")
	if got, err := Read[[]string](file); err != nil || strings.Join(got, " ") != "a" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[[]string](file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("half a file: %v", err)
	}
}
