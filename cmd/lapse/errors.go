package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"lapse/deploy"
)

// Exit codes of every verb; the verdict's are [correlate.Judge]'s. Which of the two it is says the type of the error, never
// whether it has a hint.
const (
	exitInternal = 1 // of any error but a usageError
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

// stoppedBy says which signal ended a run.
func stoppedBy(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "stopped by SIGINT (Ctrl-C)"
	case syscall.SIGTERM:
		return "stopped by SIGTERM"
	case syscall.SIGHUP:
		return "stopped by SIGHUP (the terminal went away)"
	}
	return "stopped by " + sig.String()
}

// A usageError stops a verb before anything has started: the arguments, the Service, the rights or the cluster's rules do not
// allow it. It says what is wrong, and what to try.
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

// A hintedError is any other error about which something can be done.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }

// withHint returns an error with a hint that is no usageError.
func withHint(hint, format string, args ...any) error {
	return hintedError{fmt.Errorf(format, args...), hint}
}

// asUsage says of err that it stopped a verb before anything had started. It keeps its hint.
func asUsage(err error) error {
	if _, already := errors.AsType[usageError](err); err == nil || already {
		return err
	}
	return usageError{err, hintOf(err)}
}

// notBegun is what to return where a run in the cluster did not begin: a usageError if the cluster does not take it as it was
// asked for.
func notBegun(err error) error {
	if deploy.Refused(err) {
		return asUsage(err)
	}
	return err
}

// hintOf is the hint of err, or "".
func hintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}
