package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsSavedIsReadAgain(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := Save(filepath.Join(base, name, "run"), "known.json", []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	read := func() error {
		return Saved(filepath.Join(base, "*", "run", "known.json"), func(dir string, known []string) error {
			got = append(got, filepath.Base(filepath.Dir(dir))+known[0])
			return nil
		})
	}
	if err := read(); err != nil || strings.Join(got, " ") != "aa bb" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(base, "a", "run", "known.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), filepath.Join("a", "run", "known.json")) {
		t.Errorf("half a file: %v", err)
	}
}
