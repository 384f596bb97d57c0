package history

import (
	"errors"
	"io"
	"os"
)

// Append appends lines to a file, all or none, and makes the file if it is not there. A last line that was cut off is
// ended first.
func Append(path string, lines ...Line) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := endLine(f); err != nil {
		return err
	}
	whole, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := Write(f, lines...); err != nil { // the disk is full, perhaps in the middle of a line
		return errors.Join(err, f.Truncate(whole))
	}
	return f.Sync()
}

// endLine ends the last line of a file that was cut off in its middle.
func endLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}
