package watcher

import (
	"fmt"

	"lapse/internal/hint"
)

// missingRight returns a forbiddenError with the command that checks the right. namespace is empty for a resource
// outside namespaces.
func missingRight(verb, resource, namespace string, err error) error {
	ask := "kubectl auth can-i " + verb + " " + resource
	if namespace != "" {
		ask += " -n " + namespace
	}
	denied := &forbiddenError{fmt.Errorf("no right to %s %s: %w", verb, resource, err)}
	return hint.Add("Lapse needs get, list and watch; check with `"+ask+"`", denied)
}

// A forbiddenError says that a right is missing.
type forbiddenError struct{ error }

func (e *forbiddenError) Unwrap() error { return e.error }
