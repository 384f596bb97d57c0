package live

import (
	"testing"

	"lapse/deploy"
)

func TestTheMemoryLimitRisesBeforeItCostsCPU(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct{ limit, alive, want int64 }{
		{208 * mib, 100 * mib, 208 * mib},
		{208 * mib, 182 * mib, 208 * mib},
		{208 * mib, 183 * mib, 312 * mib},
		{208 * mib, 300 * mib, deploy.MostMemory}, // at once, as far as it may
		{deploy.MostMemory, 500 * mib, deploy.MostMemory},
		{600 * mib, 500 * mib, 600 * mib}, // a limit that somebody has set higher
	} {
		if got := softLimit(test.limit, test.alive, deploy.MostMemory); got != test.want {
			t.Errorf("limit %d MiB, %d MiB alive: %d MiB, want %d", test.limit/mib, test.alive/mib, got/mib, test.want/mib)
		}
	}
}
