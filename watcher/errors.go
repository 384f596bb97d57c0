package watcher

import "fmt"

// An Error says why a Service cannot be measured or watched, and what to do about it.
type Error struct {
	what string
	hint string
	err  error
}

func (e *Error) Error() string {
	if e.err != nil {
		return e.what + ": " + e.err.Error()
	}
	return e.what
}

func (e *Error) Unwrap() error { return e.err }

// Hint says what to do, in one line.
func (e *Error) Hint() string { return e.hint }

func refuse(hint, format string, args ...any) error {
	return &Error{what: fmt.Sprintf(format, args...), hint: hint}
}

// A forbiddenError says which right is missing.
type forbiddenError struct {
	verb      string
	resource  string
	namespace string // empty for what is not in one
	err       error
}

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("no right to %s %s: %v", e.verb, e.resource, e.err)
}

func (e *forbiddenError) Unwrap() error { return e.err }

// Hint is the command that asks the cluster the same.
func (e *forbiddenError) Hint() string {
	ask := "kubectl auth can-i " + e.verb + " " + e.resource
	if e.namespace != "" {
		ask += " -n " + e.namespace
	}
	return "get, list and watch are needed; ask with `" + ask + "`"
}
