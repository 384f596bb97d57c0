package loadgen

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// childSlice, in the environment, makes the test binary print the slice of its first thread.
const childSlice = "LAPSE_TEST_SLICE"

func init() {
	if os.Getenv(childSlice) == "" {
		return
	}
	attr, err := unix.SchedGetAttr(os.Getpid(), 0)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.FormatUint(attr.Runtime, 10))
	os.Exit(0)
}

// Every thread asks for a short slice: the one that paces, those that were there before, and those that come later.
// Where the kernel knows of no such wish, all goes on as before.
func TestTheThreadsOfAProberAskForAShortSlice(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := New(Config{Clock: timeline.StartClock(), Sink: func(timeline.Fact) {}})
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var ran atomic.Bool
	p.thread.changes.add(func(*pacer, time.Duration) { ran.Store(true) })
	loadtest.WaitFor(t, "the pacing thread to run", ran.Load)
	more := make(chan struct{})
	for range 4 { // each on a thread of its own
		running.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			<-more
		})
	}
	for tid, got := range slicesOfThreads(t) {
		if want := map[bool]time.Duration{true: slice}[GrantsShortSlices()]; got != want {
			t.Errorf("thread %s has a slice of %v, want %v", tid, got, want)
		}
	}
	close(more)
	cancel()
	running.Wait()
}

// slicesOfThreads are those of this process' threads.
func slicesOfThreads(t *testing.T) map[string]time.Duration {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Duration{}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if attr, err := unix.SchedGetAttr(tid, 0); err == nil {
			all[task.Name()] = time.Duration(attr.Runtime)
		}
	}
	return all
}

// What a prober starts is not to be favoured by the scheduler, nor hampered, for the prober's sake.
func TestAProcessThatAProberStartsHasTheUsualSlice(t *testing.T) {
	child := func(start func(*exec.Cmd) error) string {
		var text strings.Builder
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stdout = append(os.Environ(), childSlice+"=1"), &text
		if err := start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := setSlice(0, 0); err != nil {
		t.Fatal(err)
	}
	usual := child((*exec.Cmd).Start)
	if err := shortenSlices(); err != nil {
		t.Fatal(err)
	}
	if inherited := child((*exec.Cmd).Start); GrantsShortSlices() && inherited == usual {
		t.Errorf("the slice is %s, asked for or not: this test proves nothing", usual)
	}
	if got := child(func(c *exec.Cmd) error { return WithUsualSlice(c.Start) }); got != usual {
		t.Errorf("a slice of %s, want %s as without a prober", got, usual)
	}
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || GrantsShortSlices() && time.Duration(attr.Runtime) != slice {
		t.Errorf("afterwards the thread has a slice of %d, %v", attr.Runtime, err)
	}
}
