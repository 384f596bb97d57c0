//go:build !unix || aix || solaris

package saved

// lockDir locks nothing: this system has no flock.
func lockDir(string) (release func(), err error) { return func() {}, nil }
