package watcher

import (
	"fmt"

	"lapse/internal/hint"
)

// missingRight says which right is missing. namespace is empty for what is not in one.
func missingRight(verb, resource, namespace string, err error) error {
	ask := "kubectl auth can-i " + verb + " " + resource
	if namespace != "" {
		ask += " -n " + namespace
	}
	return hint.Errorf("get, list and watch are needed; ask with `"+ask+"`", "%w", &forbiddenError{fmt.Errorf("no right to %s %s: %w", verb, resource, err)})
}

// A forbiddenError says that a right is missing.
type forbiddenError struct{ error }

func (e *forbiddenError) Unwrap() error { return e.error }
