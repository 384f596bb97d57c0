package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"lapse/cmd/lapse/internal/selftest"
	"lapse/correlate/verdict"
)

// Other protocols over TCP are held against known outages as HTTP/1.1 is: where the run was observed, no promise is broken.
func TestSelftestOfOtherProtocolsKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2c", "grpc", "sse"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			code := lapse(t.Context(), []string{"lapse", "selftest", "--protocol=" + protocol, "--rate=100", "--duration=16s", "--seed=3", "-o=json"}, &stdout, t.Output())
			var r selftest.Report
			if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
				t.Fatalf("exit code %d: %v", code, err)
			}
			if r.Protocol != protocol || len(r.Promises) != 8 || code != verdict.ExitPassed && code != verdict.ExitInconclusive {
				t.Errorf("exit code %d, protocol %s, %d promises", code, r.Protocol, len(r.Promises))
			}
			var table bytes.Buffer
			if err := r.WriteTable(&table); err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + table.String())
		})
	}
}
