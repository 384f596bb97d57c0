package loadgen

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lapse/loadgen/internal/polled"
)

// Whoever is behind schedule, or all but due, must not go to sleep for it.
func TestShortWaitsDoNotLeaveTheCPU(t *testing.T) {
	const times = 1000
	if n := gaveUp(0, times) + gaveUp(time.Microsecond, times); n > times/10 {
		t.Errorf("left the CPU %d times in %d waits", n, 2*times)
	}
	if n := gaveUp(2*polled.ShortestSleep, times); n < times/2 {
		t.Errorf("left the CPU %d times in %d longer waits", n, times)
	}
}

// gaveUp returns how often the thread left the CPU of its own will while it waited so many times for d.
func gaveUp(d time.Duration, times int) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &before)
	for range times {
		sleep(d)
	}
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &after)
	return after.Nvcsw - before.Nvcsw
}
