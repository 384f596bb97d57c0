// Package exit has the exit codes of every verb, and the errors that carry them.
package exit

import (
	"context"
	"errors"
	"fmt"

	"lapse/correlate/verdict"
	"lapse/internal/hint"
)

// Exit codes of every verb; the verdict's are [verdict.Judge]'s.
const (
	Internal = 1 // of any error but a [UsageError]
	Usage    = 2
)

// A Code is the exit code of the process. It takes precedence over the code of trouble in reporting it.
type Code struct {
	Code    int
	Trouble error // or nil
}

func (e Code) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// With returns code as an error, with the trouble that there was in addition. For code 0 it returns only the trouble.
func With(code int, trouble error) error {
	if code == 0 {
		return trouble
	}
	return Code{code, trouble}
}

// A stoppedError says that the user ended a verb before it had anything to report.
type stoppedError struct{ error }

func (e stoppedError) Unwrap() error { return e.error }

// Stopped returns a stoppedError.
func Stopped(format string, args ...any) error { return stoppedError{fmt.Errorf(format, args...)} }

// A UsageError stops a verb before anything has started: the arguments, the Service, the rights or the cluster's
// rules do not allow it.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns a UsageError with a hint.
func Usagef(advice, format string, args ...any) error {
	return UsageError{hint.Errorf(advice, format, args...)}
}

// AsUsage returns err as a UsageError, or nil if it is nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}

// CodeOf returns the exit code of a verb that ended with err.
func CodeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[Code](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[stoppedError](err); ok {
		return verdict.ExitAborted
	}
	if _, ok := errors.AsType[UsageError](err); ok {
		return Usage
	}
	return Internal
}

// StoppedOr returns err, or a stoppedError if ctx has ended.
func StoppedOr(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return stoppedError{context.Cause(ctx)}
}
