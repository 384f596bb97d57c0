// Package hint adds to an error what its reader can do about it: a sentence, or some lines, for people. Whoever
// prints errors prints [Of] after them. What a program does about an error does not depend on its hint.
package hint

import (
	"errors"
	"fmt"
)

// hinted is an error with a hint.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Errorf is [fmt.Errorf] with a hint.
func Errorf(hint, format string, args ...any) error { return Add(hint, fmt.Errorf(format, args...)) }

// Add returns err with a hint. Of nil, and with no hint, that is err.
func Add(hint string, err error) error {
	if err == nil || hint == "" {
		return err
	}
	return &hinted{err, hint}
}

// Of is the hint of err, of several the outermost, or "".
func Of(err error) string {
	if h, ok := errors.AsType[*hinted](err); ok {
		return h.hint
	}
	return ""
}
