package main

import (
	"fmt"
)

// Exit codes of every verb; the verdict's are [correlate.Judge]'s.
const (
	exitInternal = 1
	exitUsage    = 2
)

// An exitCode is the code the process ends with, and goes before that of the trouble there was in saying it.
type exitCode struct {
	code    int
	trouble error // or nil: the code says all there is to say
}

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitWith returns code as an error, with what trouble there was besides. For 0 that is all there is.
func exitWith(code int, trouble error) error {
	if code == 0 {
		return trouble
	}
	return exitCode{code, trouble}
}

// A stoppedError says that the user ended a verb before it had anything to report.
type stoppedError struct{ error }

func (e stoppedError) Unwrap() error { return e.error }

// A usageError stops a verb before anything has started. It says what is wrong, and what to try.
type usageError struct {
	err  error
	hint string
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }
func (e usageError) Hint() string  { return e.hint }

// refuse returns a usageError.
func refuse(hint, format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...), hint: hint}
}
