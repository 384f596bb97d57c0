package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	tick     = 10 * time.Millisecond
	stallMin = 100 * time.Millisecond // shorter ones do not count
)

// A stall is a time in which a processor did not run a thread that was due.
type stall struct {
	at     time.Time
	length time.Duration
	cpu    int
}

func (s stall) String() string {
	return fmt.Sprintf("%v at %s (processor %d)", s.length.Round(time.Millisecond), s.at.Format("15:04:05.000"), s.cpu)
}

// watchMachine starts a thread on each processor that notes stalls until the process ends.
func watchMachine() machine {
	var mu sync.Mutex
	var all []stall
	for cpu := range runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			pin(cpu)
			for {
				due := time.Now().Add(tick)
				time.Sleep(tick)
				if late := time.Since(due); late >= stallMin {
					mu.Lock()
					all = append(all, stall{due, late, cpu})
					mu.Unlock()
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
