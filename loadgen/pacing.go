package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pacing chooses between the CPU that pacing takes and how exactly requests leave at their due instants. Both wait in
// the kernel on Linux, with the thread's timer slack turned off, and both follow the same absolute schedule: neither drifts,
// and what is late is stored as late. Elsewhere Go's timers wait, which are exact to about a millisecond.
//
// Measured figures are in docs/measured/pacing.md.
type Pacing string

const (
	// Economical sleeps until a request is due, and sends it when the kernel wakes the thread: tens of microseconds late.
	Economical Pacing = "economical"
	// Precise wakes early, and spins for the rest. It takes up to [spinning] of CPU time more for each due instant, and
	// gains where the processor is free; where others want it too, spinning takes it from them.
	Precise Pacing = "precise"
)

// Pacings are those there are.
var Pacings = []Pacing{Economical, Precise}

// ParsePacing reads the name of a Pacing. Empty is Economical.
func ParsePacing(name string) (Pacing, error) {
	switch p := Pacing(name); {
	case p == "":
		return Economical, nil
	case slices.Contains(Pacings, p):
		return p, nil
	}
	return "", fmt.Errorf("pacing %q is not one of %s", name, pacingNames())
}

func pacingNames() string {
	var names []string
	for _, p := range Pacings {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// spinning is how long before a due instant precise pacing wakes: longer than the kernel is usually late (20 to 30 µs), but
// not longer than it ever is, which would cost more than it gains.
const spinning = 50 * time.Microsecond

// early is how long before a due instant the pacing thread wakes.
func (p Pacing) early() time.Duration {
	if p == Precise {
		return spinning
	}
	return 0
}

// spin waits for d without leaving the CPU.
func spin(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; {
	}
}
