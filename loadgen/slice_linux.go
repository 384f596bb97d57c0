package loadgen

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a thread of the prober wants to run at a time. Linux' scheduler (EEVDF, from 6.12 on) takes that
// wish from anybody: it gives no more of the CPU, but sooner, for the deadline of who asks for little comes first.
// 100 µs is the least it grants (sched_setattr(2), sched_runtime of SCHED_OTHER). An older kernel ignores it.
//
// Beside 2 and 4 busy processes on two cores it sent fewer requests late in 11 of 12 pairs of runs, fewer than half as
// many in 8. Against it: the p99 latency was higher in 9 of the 12, because servers on the same machine are let in
// later, and one trial of `make bench BENCH="--only beside"` on a machine with other work covered less with it. Repeat
// that on a quiet machine, and remove the slice if it comes out the same. A wrapped command is started with the
// system's slice; SCHED_FLAG_RESET_ON_FORK would reset the runtime's new threads too.
const slice = 100 * time.Microsecond

// wantsSlice is "no" in a build that benchmarks compare with (-ldflags '-X lapse/loadgen.wantsSlice=no').
var wantsSlice = "yes"

// slicing is held while slices are changed, so that none is between WithUsualSlice's change and its fork.
var slicing sync.Mutex

// shortenSlices asks for a short slice for every thread of this process. Threads that come later have it from those
// that make them. It is a wish: an error means that nothing changed.
func shortenSlices() error {
	if wantsSlice != "yes" {
		return nil
	}
	slicing.Lock()
	defer slicing.Unlock()
	for asked := map[int]bool{}; ; {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		more := false
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil || asked[tid] {
				continue
			}
			asked[tid], more = true, true
			if err := setSlice(tid, slice); err != nil && err != unix.ESRCH { // it may have ended meanwhile
				return fmt.Errorf("ask for a short slice: %w", err)
			}
		}
		if !more { // nor has a thread that had not been asked for made another
			return nil
		}
	}
}

// setSlice asks for a slice for thread tid, 0 for the calling one, and leaves all else as it is. A slice of 0 is the
// system's.
func setSlice(tid int, slice time.Duration) error {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return err
	}
	if attr.Policy != unix.SCHED_NORMAL {
		return nil // a real-time thread has no slice of this kind
	}
	attr.Runtime = uint64(slice)
	return unix.SchedSetAttr(tid, attr, 0)
}

// GrantsShortSlices reports whether this kernel takes the prober's wish for short time slices: one that does has a
// slice for each thread.
func GrantsShortSlices() bool {
	attr, err := unix.SchedGetAttr(0, 0)
	return err == nil && attr.Runtime != 0
}

// WithUsualSlice runs start on a thread that has the slice which the system gives to anybody. What start starts
// inherits that, and not the prober's.
func WithUsualSlice(start func() error) error {
	slicing.Lock()
	defer slicing.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if got, err := unix.SchedGetAttr(0, 0); err != nil || got.Runtime != uint64(slice) || setSlice(0, 0) != nil {
		return start() // it was not asked for, or is not to be had
	}
	defer func() { _ = setSlice(0, slice) }() // it was granted before
	return start()
}
