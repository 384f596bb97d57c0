package run

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// After a crash of the machine a file that has its name must also have its content: the file is synced before it is
// renamed, and then the directory.
func TestAFileIsSyncedBeforeItGetsItsNameAndItsDirectoryAfter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, TimelineFile)
	var synced []string
	syncFile = func(f *os.File) error {
		_, err := os.Stat(path)
		switch info, _ := f.Stat(); {
		case info.IsDir() && err == nil:
			synced = append(synced, "directory after the rename")
		case !info.IsDir() && err != nil && info.Size() == 4:
			synced = append(synced, "file before the rename")
		default:
			synced = append(synced, f.Name())
		}
		return nil
	}
	t.Cleanup(func() { syncFile = (*os.File).Sync })
	if err := WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "facts"[:4]); return err }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"file before the rename", "directory after the rename"}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}
