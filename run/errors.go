package run

import (
	"errors"
	"fmt"

	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/hint"
)

// Exit codes of every verb; the verdict's are [verdict.Judge]'s.
const (
	exitInternal = 1 // of any error but a usageError
	ExitUsage    = 2
)

// An ExitCode is the code the process ends with, and goes before that of the trouble there was in saying it.
type ExitCode struct {
	Code    int
	Trouble error // or nil: the code says all there is to say
}

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitWith returns code as an error, with what trouble there was besides. For 0 that is all there is.
func ExitWith(code int, trouble error) error {
	if code == 0 {
		return trouble
	}
	return ExitCode{code, trouble}
}

// A StoppedError says that the user ended a verb before it had anything to report.
type StoppedError struct{ error }

func (e StoppedError) Unwrap() error { return e.error }

// Stopped returns a StoppedError.
func Stopped(format string, args ...any) error { return StoppedError{fmt.Errorf(format, args...)} }

// A usageError stops a verb before anything has started: the arguments, the Service, the rights or the cluster's
// rules do not allow it.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns a usageError with a hint.
func Usagef(advice, format string, args ...any) error {
	return usageError{hint.Errorf(advice, format, args...)}
}

// AsUsage says of err that it stopped a verb before anything had started.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// notBegun is what to return where a run in the cluster did not begin: a usageError if the cluster does not take it
// as it was asked for.
func notBegun(err error) error {
	if deploy.Refused(err) {
		return AsUsage(err)
	}
	return err
}

// ExitCodeOf is the exit code of a verb that ended with err.
func ExitCodeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[ExitCode](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[StoppedError](err); ok {
		return verdict.ExitAborted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	return exitInternal
}
