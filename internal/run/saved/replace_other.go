//go:build !unix

package saved

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ReplaceFile makes or replaces a file, whole or not at all: renameio is for Unix only.
func ReplaceFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path))
	if err != nil {
		return err
	}
	err = write(f)
	if err = errors.Join(err, SyncFile(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// syncDir does nothing: a directory cannot be synced here.
func syncDir(string) error { return nil }
