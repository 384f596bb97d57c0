// Package input reads the files that a user names. Each has a limit: a device or a wrong file must not fill the memory.
// Of those to be written it says early what is wrong with their names.
package input

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lapse/internal/hint"
)

// Limits of what is read whole.
const (
	Certificates = 4 << 20
	Descriptors  = 64 << 20
	Manifests    = 64 << 20
	Timeline     = 512 << 20
)

// File returns what the file at path holds, or an error if that is more than most bytes.
func File(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > most {
		return nil, tooLong(path, most)
	}
	return All(f, path, most)
}

// All returns what r still holds, or an error if that is more than most bytes. name is for the error.
func All(r io.Reader, name string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, tooLong(name, most)
	}
	return data, nil
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("%s has more than %d MiB: is it the right file?", name, most>>20)
}

// CheckWritable returns an error if no file can be made or replaced at path, the value of a flag: it is something else,
// or its directory is not there.
func CheckWritable(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return hint.Errorf("name a file", "%s %s is not a file", flag, path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return hint.Errorf("make it first", "%s %s: there is no directory %s", flag, path, dir)
	}
	return nil
}
