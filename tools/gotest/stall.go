package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	tick     = 10 * time.Millisecond
	stallMin = 100 * time.Millisecond // shorter ones do not count
	lossMin  = 300 * time.Millisecond // of a second: many short ones do
)

// A stall is a time in which a processor did not run a thread that was due, or all threads waited for the disk.
type stall struct {
	at     time.Time
	length time.Duration
	of     string
}

func (s stall) String() string {
	return fmt.Sprintf("%v at %s (%s)", s.length.Round(time.Millisecond), s.at.Format("15:04:05.000"), s.of)
}

// watchMachine starts a thread on each processor that notes stalls until the process ends, and one that notes seconds
// of which the machine lost [lossMin].
func watchMachine() machine {
	var mu sync.Mutex
	var all []stall
	note := func(s stall) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
	}
	go func() {
		before := losses()
		for at := time.Now(); ; at = time.Now() {
			time.Sleep(time.Second)
			now := losses()
			for of, lost := range now {
				if lost -= before[of]; lost >= lossMin {
					note(stall{at, lost, of})
				}
			}
			before = now
		}
	}()
	for cpu := range runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			pin(cpu)
			for {
				due := time.Now().Add(tick)
				time.Sleep(tick)
				if late := time.Since(due); late >= stallMin {
					note(stall{due, late, fmt.Sprint("processor ", cpu)})
				}
			}
		}()
	}
	return func(from, to time.Time) (longest stall) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			if s.length > longest.length && s.at.Before(to) && s.at.Add(s.length).After(from) {
				longest = s
			}
		}
		return longest
	}
}

// losses returns for how long the machine has lost each of its parts since it began: on Linux, a processor that the
// hypervisor gave to others (steal, proc_stat(5)), and the disk, while all that was to run waited for it (full,
// https://docs.kernel.org/accounting/psi.html). What is not known is missing.
func losses() map[string]time.Duration {
	stat, _ := os.ReadFile("/proc/stat")
	pressure, _ := os.ReadFile("/proc/pressure/io")
	return parseLosses(string(stat), string(pressure))
}

func parseLosses(stat, pressure string) map[string]time.Duration {
	lost := map[string]time.Duration{}
	for line := range strings.Lines(stat) {
		var ticks int
		if f := strings.Fields(line); len(f) > 8 && strings.HasPrefix(f[0], "cpu") && f[0] != "cpu" {
			if _, err := fmt.Sscan(f[8], &ticks); err == nil {
				lost["stolen from "+f[0]] = time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
			}
		}
	}
	for line := range strings.Lines(pressure) {
		var µs int
		if _, total, ok := strings.Cut(line, " total="); ok && strings.HasPrefix(line, "full ") {
			if _, err := fmt.Sscan(total, &µs); err == nil {
				lost["waiting for the disk"] = time.Duration(µs) * time.Microsecond
			}
		}
	}
	return lost
}
