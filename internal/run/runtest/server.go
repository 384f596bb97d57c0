package runtest

import (
	"testing"

	"lapse/loadgen/faultserver"
)

// StartServer starts a server with faults.
func StartServer(t *testing.T, faults ...faultserver.Fault) *faultserver.Server {
	t.Helper()
	server, err := faultserver.Start(faultserver.Config{Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	return server
}
