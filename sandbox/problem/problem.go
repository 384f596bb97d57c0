// Package problem is about errors that the user of the sandbox can put right.
package problem

import "fmt"

// An Error is one line that says what is wrong and what to do about it.
type Error struct{ text string }

func (e Error) Error() string { return e.text }

// Errorf returns an [Error].
func Errorf(format string, args ...any) error { return Error{fmt.Sprintf(format, args...)} }
