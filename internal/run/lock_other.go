//go:build !unix || aix || solaris

package run

// lockDir locks nothing: this system has no flock.
func lockDir(string) (release func(), err error) { return func() {}, nil }
