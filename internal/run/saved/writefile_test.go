package saved

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// After a crash of the machine a file that was written is there: its directory is synced once the file has its name.
// renameio syncs the file before.
func TestAFilesDirectoryIsSyncedOnceTheFileHasItsName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, TimelineFile)
	var synced []string
	SyncFile = func(f *os.File) error {
		_, err := os.Stat(path)
		switch info, _ := f.Stat(); {
		case info.IsDir() && err == nil:
			synced = append(synced, "directory after the rename")
		default:
			synced = append(synced, f.Name())
		}
		return nil
	}
	t.Cleanup(func() { SyncFile = (*os.File).Sync })
	if err := writeFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "facts"[:4]); return err }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"directory after the rename"}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}
