package main

import (
	"fmt"
)

// Exit codes of every verb; the verdict's are [correlate.Judge]'s.
const (
	exitInternal = 1
	exitUsage    = 2
)

// exitCode is an error that says all it has to say by the code the process ends with.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitWith returns code as an error, or nil for 0.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
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
