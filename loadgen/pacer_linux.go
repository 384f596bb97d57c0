package loadgen

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"lapse/loadgen/internal/polled"
)

// preciseSleep prepares the calling thread, which must stay locked, for sleeping to the microsecond.
//
// The kernel may delay a wake-up by the thread's timer slack, 50 µs by default, in order to wake
// several threads at once; 1 ns turns that off (prctl(2), PR_SET_TIMERSLACK).
func preciseSleep() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// sleep blocks the calling thread in the kernel for d, or less if a signal comes.
//
// Go's own timers round waits up to whole milliseconds. RawSyscall keeps the scheduler's processor
// (P) while it sleeps, where Syscall would hand it on and fetch it back every time, at twice the CPU. See
// [pacer.run] for what that asks of the rest of the program.
func sleep(d time.Duration) {
	if d < polled.ShortestSleep {
		spin(d)
		return
	}
	ts, call := unix.NsecToTimespec(int64(d)), unix.RawSyscall
	if d >= polled.Rest {
		call = unix.Syscall
	}
	_, _, _ = call(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// holdsProcessor tells that sleep keeps one of the scheduler's processors to itself.
const holdsProcessor = true
