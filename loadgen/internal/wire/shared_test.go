package wire

import (
	"testing"
	"time"
)

// waitFor waits until cond holds, for as long as the test may take.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still no %s", what)
		}
	}
}
