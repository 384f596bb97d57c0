//go:build !linux

package loadgen

// shortenSlices does nothing where the scheduler takes no wish.
func shortenSlices() error { return nil }

// GrantsShortSlices reports false.
func GrantsShortSlices() bool { return false }

// WithUsualSlice runs start.
func WithUsualSlice(start func() error) error { return start() }
