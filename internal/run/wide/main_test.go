// Package wide measures the coordinator of a run of many nodes and Services, on a cluster that is made up. See
// BenchmarkCoordinator.
package wide

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lapse/loadgen/faultserver"
)

func TestMain(m *testing.M) {
	faultserver.Prioritize()
	testscript.Main(m, map[string]func(){"wide-cluster": standInForCluster})
}
