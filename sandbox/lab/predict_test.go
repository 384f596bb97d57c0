package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Preflight of a Service without Pods of its own exits 4, and says all the same what it found.
func TestPreflightIsHeardWhereItKnowsNothingOfPods(t *testing.T) {
	for _, tt := range []struct {
		code  int
		out   string
		rules int
		fails bool
	}{
		{0, `{"services": [{"findings": []}]}`, 0, false},
		{4, `{"services": [{"findings": [{"rule": "LP13"}]}]}`, 1, false},
		{3, `{"services": [{"findings": [{"rule": "LP05"}, {"rule": "LP01"}, {"rule": "LP05"}]}]}`, 2, false},
		{2, ``, 0, true}, // wrong arguments
		{1, `{"services": [{"findings": []}]}`, 0, true},
	} {
		lapse := filepath.Join(t.TempDir(), "lapse")
		if err := os.WriteFile(lapse, fmt.Appendf(nil, "#!/bin/sh\ncat > /dev/null\necho -n '%s'\nexit %d\n", tt.out,
			tt.code), 0o755); err != nil {
			t.Fatal(err)
		}
		all, err := predict(t.Context(), lapse, "kind: Service")
		if (err != nil) != tt.fails || len(all) != tt.rules {
			t.Errorf("exit code %d, %q: %v, %v", tt.code, tt.out, all, err)
		}
	}
}
