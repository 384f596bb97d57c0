package record

import (
	"errors"
	"fmt"
)

// ErrTruncated says that a recording ends inside a block: its writer was killed, its disk was full,
// or it is being written right now. Every fact before that block is intact.
var ErrTruncated = errors.New("the recording ends inside a block")

// ErrCorrupt says that a recording's bytes are not what was written. Every fact before the damaged
// block is intact.
var ErrCorrupt = errors.New("the recording is damaged")

// errNotRecording, errNewer and errOlder say that the bytes do not begin like a recording this package reads.
var (
	errNotRecording = errors.New("not a Lapse recording")
	errNewer        = errors.New("written by a newer Lapse")
	errOlder        = errors.New("written by an older Lapse")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// An impossible error is an [ErrCorrupt] about a block whose checksum is right but which no Lapse wrote: it states what
// no run can have.
type impossible struct{ fact error }

func (e *impossible) Error() string { return fmt.Sprintf("%v: %v", ErrCorrupt, e.fact) }
func (e *impossible) Unwrap() error { return ErrCorrupt }

// A FileError says which file could not be used as a recording, and why.
type FileError struct {
	what string
	err  error
}

func (e *FileError) Error() string { return e.what }

// OtherVersion reports whether the file is a recording of a version of Lapse that this one cannot read.
func (e *FileError) OtherVersion() bool {
	return errors.Is(e.err, errNewer) || errors.Is(e.err, errOlder)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.err }
