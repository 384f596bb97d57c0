package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pacing chooses between less CPU and less jitter. On Linux, both sleep in the kernel with the thread's timer slack
// turned off, and both follow the same absolute schedule: neither drifts, and what is late is stored as late. On
// other systems Go's timers are used, which are exact to about a millisecond.
//
// Measured figures are in docs/measured/cost.md.
type Pacing string

const (
	// Economical sleeps until a request is due, and sends it when the kernel wakes the thread: tens of microseconds
	// late.
	Economical Pacing = "economical"
	// Precise wakes early, and spins for the rest. It takes up to [spinning] of CPU time more for each due instant. It
	// helps on a free processor; on a busy one, spinning takes CPU from others.
	Precise Pacing = "precise"
)

// pacings lists them.
var pacings = []Pacing{Economical, Precise}

// ParsePacing reads the name of a Pacing. Empty is Economical.
func ParsePacing(name string) (Pacing, error) {
	switch p := Pacing(name); {
	case p == "":
		return Economical, nil
	case slices.Contains(pacings, p):
		return p, nil
	}
	return "", fmt.Errorf("pacing %q is not one of %s", name, pacingNames())
}

func pacingNames() string {
	var names []string
	for _, p := range pacings {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// spinning is how long before a due instant precise pacing wakes: longer than the kernel is usually late (20 to 30
// µs), and not as long as its worst case, which would cost more than it gains.
const spinning = 50 * time.Microsecond

// early returns how long before a due instant the pacing thread wakes.
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
