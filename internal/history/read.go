package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An Unread is a line that could not be read.
type Unread struct {
	Number int // from 1
	Err    error
	// it is the last one and ends without a line break: its writer was killed, or has not finished it
	CutOff bool
}

func (u *Unread) Error() string {
	if u.CutOff {
		return fmt.Sprintf("line %d, the last, is cut off", u.Number)
	}
	return fmt.Sprintf("line %d: %v", u.Number, u.Err)
}

func (u *Unread) Unwrap() error { return u.Err }

// A VersionError says that a line has another format.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	if e.Version > Version {
		return fmt.Sprintf("format %d was written by a newer Lapse: this one reads format %d", e.Version, Version)
	}
	return fmt.Sprintf("format %d is unknown: this Lapse reads format %d", e.Version, Version)
}

// Read returns the lines of r, and those that it could not read. An error is of r itself.
func Read(r io.Reader) (lines []Line, unread []*Unread, err error) {
	text := bufio.NewReaderSize(r, MaxBytes)
	for number := 1; ; number++ {
		raw, whole, err := nextLine(text)
		if err != nil && !errors.Is(err, io.EOF) {
			return lines, unread, err
		}
		last := err != nil
		if len(bytes.TrimSpace(raw)) > 0 {
			var l Line
			bad := errTooLong
			if whole {
				l, bad = parse(raw)
			}
			if bad == nil {
				lines = append(lines, l)
			} else {
				unread = append(unread, &Unread{Number: number, Err: bad, CutOff: last && isCutOff(bad)})
			}
		}
		if last {
			return lines, unread, nil
		}
	}
}

var errTooLong = fmt.Errorf("it has more than %d bytes", MaxBytes)

// nextLine returns the next line, valid until the next call; whole is false if it is too long, and the rest is skipped.
// The error is io.EOF if no line break ends it.
func nextLine(r *bufio.Reader) (line []byte, whole bool, err error) {
	line, err = r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, true, err
	}
	line = []byte{'.'} // not blank
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return line, false, err
}

// isCutOff reports whether JSON ends before it should.
func isCutOff(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

// parse reads one line.
func parse(text []byte) (l Line, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&l); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			return l, errors.New("more follows its JSON")
		}
	}
	if l.History != Version {
		var format struct {
			History *int `json:"history"`
		}
		if json.Unmarshal(text, &format) == nil && format.History != nil {
			return l, &VersionError{*format.History}
		}
		if err == nil {
			err = errors.New(`it does not begin as {"history":1,…}: it is no line of history`)
		}
	}
	if err != nil {
		return l, err
	}
	return l, l.check()
}
