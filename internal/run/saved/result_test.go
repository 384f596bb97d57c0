package saved

import (
	"os"
	"path/filepath"
	"testing"

	"lapse/correlate"
	"lapse/internal/hint"
	"lapse/internal/run/exit"
)

// A recording of another version is none that the user named by mistake.
func TestARecordingOfAnotherVersionIsNoUsageError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FactsFile)
	for _, version := range []byte{2, 200} {
		if err := os.WriteFile(path, append([]byte("LAPSE\x1a\n"), version), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, correlate.Options{}, nil); exit.CodeOf(err) != exit.Internal || hint.Of(err) == "" {
			t.Errorf("version %d: %v, hint %q, exit code %d", version, err, hint.Of(err), exit.CodeOf(err))
		}
	}
}
