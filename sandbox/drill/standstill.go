package drill

import (
	"slices"
	"strings"
	"time"
)

const (
	// ShortestStandstill is the shortest standstill of the machine that is blamed: a tenth of the usual timeout, and a
	// few more milliseconds. Every busy machine has shorter ones.
	ShortestStandstill = 100 * time.Millisecond
	// aftermath is how long the machine may be busy after a standstill with all that had to wait.
	aftermath = time.Second
)

// Standstills returns when the machine stood still, and with it nodes, servers and probers, as a virtual machine does
// whose host has no time for it. If several probers measured, only what two of them noticed at the same time counts: a
// single one was stopped by itself.
func (t Timeline) Standstills() (stops []Instant) {
	sources := map[string]bool{}
	for _, target := range t.Targets {
		sources[target.Source] = true
	}
	alone := len(sources) == 1
	var known []Event
	for _, e := range t.Events {
		if e.Kind != proberStall || !e.At.long() {
			continue
		}
		if alone {
			stops = append(stops, e.At)
		}
		for _, other := range known {
			both := Instant{max(e.At.Earliest, other.At.Earliest), min(e.At.Latest, other.At.Latest)}
			if !alone && other.Source != e.Source && both.long() {
				stops = append(stops, both)
			}
		}
		known = append(known, e)
	}
	return stops
}

// long reports whether a stop may be one of the machine.
func (i Instant) long() bool { return i.Latest-i.Earliest >= ShortestStandstill }

const proberStall = "prober-stall"

func (i Instant) overlaps(other Instant) bool {
	return i.Earliest <= other.Latest && other.Earliest <= i.Latest
}

// LostBy counts the failures of a target that are not of a standstill: all but those that waited in vain while the
// machine stood still, or right after it. What was refused or broken off counts, whenever it was.
func (t Timeline) LostBy(target Target) int {
	lost := target.Failed
	for _, f := range t.Failures {
		if f.Target == target.Name && t.waitedInVain(f) {
			lost--
		}
	}
	return lost
}

// Lost is LostBy of all judged targets together.
func (t Timeline) Lost() (lost int) {
	for _, target := range t.Targets {
		if target.Kind == "new" || target.Kind == "reused" {
			lost += t.LostBy(target)
		}
	}
	return lost
}

func (t Timeline) waitedInVain(f Failure) bool {
	return (strings.HasPrefix(f.Class, "timeout_") || f.Class == "dns") && t.besideStandstill(Instant{f.Sent, f.Done})
}

func (t Timeline) besideStandstill(span Instant) bool {
	return slices.ContainsFunc(t.Standstills(), func(stop Instant) bool {
		stop.Latest += aftermath
		return stop.overlaps(span)
	})
}

// Excused reports whether a standstill explains a window: each of its failures is a timeout during one or right after
// it or, if nothing failed, answers were slow then.
func (t Timeline) Excused(w Window) bool {
	failed := 0
	for _, f := range t.Failures {
		if f.Target == w.Target && w.Start.Earliest <= f.Sent && f.Sent <= w.End.Latest {
			if !t.waitedInVain(f) {
				return false
			}
			failed++
		}
	}
	return failed == w.Failed && t.besideStandstill(Instant{w.Start.Earliest, w.End.Latest})
}

// WithoutStandstills returns how much of the time between two instants is in no standstill.
func (t Timeline) WithoutStandstills(from, to time.Duration) time.Duration {
	stops := t.Standstills()
	slices.SortFunc(stops, func(a, b Instant) int { return int(a.Earliest - b.Earliest) })
	left, known := to-from, from
	for _, stop := range stops { // those of several probers overlap
		begin, end := max(stop.Earliest, known), min(stop.Latest, to)
		if begin < end {
			left -= end - begin
			known = end
		}
	}
	return left
}
