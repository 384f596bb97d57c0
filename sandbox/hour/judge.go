package main

import (
	"fmt"
	"slices"
	"time"

	"lapse/sandbox/drill"
)

// covers reports whether a run measured the beginning of a disruption.
func (r run) covers(d disruption) bool {
	return r.Service == d.Service && !d.Began.Before(r.T0) && !d.Began.After(r.T0.Add(r.Duration))
}

// of returns the guard's runs of a disruption.
func (g guard) of(d disruption) []run {
	return slices.DeleteFunc(slices.Clone(g.Runs), func(r run) bool { return !r.covers(d) })
}

// wrong says which runs are not as they should be.
func (g guard) wrong(disruptions []disruption) (all []error) {
	say := func(format string, args ...any) { all = append(all, fmt.Errorf(g.Pod+": "+format, args...)) }
	for i, d := range disruptions {
		switch of := g.of(d); {
		case len(of) != 1:
			say("disruption %d, %s of %s, has %d runs", i+1, d.What, d.Service, len(of))
		case !of[0].right(d):
			r := of[0]
			say("disruption %d, %s of %s: %s, %d of %d failed (run %s)",
				i+1, d.What, d.Service, r.Verdict, r.Failed, r.Sent, r.Run)
		}
	}
	failed := 0
	for _, r := range g.Runs {
		failed += r.Failed
		covered := 0
		for _, d := range disruptions {
			if r.covers(d) {
				covered++
			}
		}
		if covered != 1 {
			say("run %s of %s is of %d disruptions", r.Run, r.Service, covered)
		}
	}
	if failed != g.Failed {
		say("%d requests failed, %d of them in runs", g.Failed, failed)
	}
	return all
}

// right reports whether a run says of a disruption what must be so. A machine that stands still may leave it open, or
// lose requests itself.
func (r run) right(d disruption) bool {
	switch {
	case r.Verdict == "inconclusive":
		return true
	case d.Drops:
		return r.Verdict == "fail"
	}
	return r.Verdict == "pass" || r.Verdict == "fail" && r.Lost == 0
}

// inconclusive counts the runs that leave it open.
func (g guard) inconclusive() (n int) {
	for _, r := range g.Runs {
		if r.Verdict == "inconclusive" {
			n++
		}
	}
	return n
}

// grows is by how much more memory a guard may take in the last quarter of its time than in the second.
const grows = 8 << 20

// flat compares the memory of the second quarter of the samples with that of the last. It needs 20 minutes.
func (g guard) flat() (second, last int, known bool) {
	n := len(g.Samples)
	if n < 8 || g.Samples[n-1].At.Sub(g.Samples[0].At) < 20*time.Minute {
		return 0, 0, false
	}
	median := func(of []sample) int {
		var all []float64
		for _, s := range of {
			all = append(all, float64(s.Memory))
		}
		return int(drill.Median(all))
	}
	return median(g.Samples[n/4 : n/2]), median(g.Samples[3*n/4:]), true
}

// millicores returns how much of a core the process took in a phase, in thousandths.
func (g guard) millicores(phase string) float64 {
	var used, took time.Duration
	for i, s := range g.Samples {
		if s.Phase == phase && i > 0 {
			used += s.CPU - g.Samples[i-1].CPU
			took += s.At.Sub(g.Samples[i-1].At)
		}
	}
	return 1000 * used.Seconds() / max(took.Seconds(), 1e-9)
}

// answered returns how many requests the guards say were answered, and how many failed.
func (h hour) answered() (least, most, failed int) {
	for _, g := range h.Guards {
		least, most, failed = least+g.Answered.Min, most+g.Answered.Max, failed+g.Failed
	}
	return least, most, failed
}

// uncounted is how many requests of each guard to each Service no metric counts: those with which it finds out how to
// ask, and those that were under way as a server ended.
const uncounted = 5

// wrong says what does not hold.
func (h hour) wrong() (all []error) {
	for _, g := range h.Guards {
		all = append(all, g.wrong(h.Disruptions)...)
		if second, last, known := g.flat(); known && last-second > grows {
			all = append(all, fmt.Errorf("%s: its memory grows from %d to %d MiB", g.Pod, second>>20, last>>20))
		}
	}
	least, most, failed := h.answered()
	more := uncounted*len(services)*len(h.Guards) + failed
	if h.Answered < least-uncounted*len(h.Disruptions) || h.Answered > most+more {
		all = append(all, fmt.Errorf("the servers have answered %d requests, the guards say %d to %d",
			h.Answered, least, most))
	}
	return all
}
