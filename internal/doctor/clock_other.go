//go:build !linux

package doctor

import "errors"

// clockSynchronised returns an error: other systems do not say it.
func clockSynchronised() error {
	return errors.New("whether it is synchronised cannot be checked on this system")
}
