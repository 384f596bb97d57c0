// Package input reads the files that a user names. Each has a limit: a device or a wrong file must not fill the memory.
package input

import (
	"fmt"
	"io"
	"os"
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
