package live

import (
	"math"
	"runtime/debug"
	"testing"

	"lapse/deploy"
	"lapse/internal/run/runtest"
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

// Stacks count as the heap does.
func TestTheMemoryLimitIsRaisedForStacks(t *testing.T) {
	const mib = 1 << 20
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	over := make(chan struct{})
	defer close(over)
	var deep func(n int) byte
	deep = func(n int) byte {
		var frame [1024]byte
		if n == 0 {
			<-over
			return frame[0]
		}
		return deep(n-1) + frame[n]
	}
	for range 500 {
		go deep(40)
	}
	runtest.WaitFor(t, "a higher limit", func() bool {
		debug.SetMemoryLimit(16 * mib)
		RaiseMemoryLimit(deploy.MostMemory)
		return debug.SetMemoryLimit(-1) > 16*mib
	})
	debug.SetMemoryLimit(math.MaxInt64)
	RaiseMemoryLimit(deploy.MostMemory)
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Error("there is a limit now")
	}
}
