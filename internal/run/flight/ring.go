// Package flight is the flight recorder of a process that waits for a disruption: it keeps the facts of the last two
// minutes in memory, so that a run can begin before its first sign. It writes no file.
//
//	facts ──> Ring: what is older becomes the keyframe, the state of the cluster where the rest begins
//	          Ring.Take ──> the facts of an ordinary run that began there
package flight

import (
	"strconv"
	"time"

	"lapse/timeline"
)

// Span is how much time a ring holds. A node that was lost is noticed 50 s late.
const Span = 2 * time.Minute

// A Ring holds the facts of one source since at most Span ago. What the run needs of the time before are its
// definitions, and the keyframe. One goroutine owns it.
type Ring struct {
	definitions []timeline.Fact // sources, backends and peers: a reference to them may come at any time
	targets     []*target       // those that are measured, and those with requests in the ring
	keyframe    keyframe
	recent      []timeline.Fact // events and batches, in the order in which they came
	counted     uint64          // requests, as the batches count them
	cut         time.Duration   // nothing before is wanted
}

// A target is one that is measured, with its rate where the ring begins.
type target struct {
	timeline.Target
	ended bool // where the ring begins
}

// Add takes in the next fact. The run's own description and phases are left out: they depend on where the run begins.
func (r *Ring) Add(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Meta, timeline.Source:
	case timeline.Target:
		r.define(f)
	case timeline.Event:
		if f.Kind != timeline.RunPhase {
			r.recent = append(r.recent, f)
		}
	case timeline.Batch:
		r.recent, r.counted = append(r.recent, f), f.FirstSeq+uint64(len(f.Requests))
	default:
		r.definitions = append(r.definitions, f)
	}
}

// Cut lets go of what is older than an instant, as a run that ended then has it.
func (r *Ring) Cut(at time.Duration) { r.cut = at }

// begins returns where the ring begins at now.
func (r *Ring) begins(now time.Duration) time.Duration { return max(0, now-Span, r.cut) }

// define takes in a target, or the new description of a known one: it is measured again.
func (r *Ring) define(t timeline.Target) {
	for _, known := range r.targets {
		if known.ID == t.ID {
			known.Target = t
			return
		}
	}
	r.targets = append(r.targets, &target{Target: t})
}

// Forget lets go of what is older than Span at now. Of events it keeps what is still so.
func (r *Ring) Forget(now time.Duration) {
	begin, n := r.begins(now), 0
	for n < len(r.recent) && before(r.recent[n], begin) {
		if e, ok := r.recent[n].(timeline.Event); ok {
			r.keep(e)
		}
		n++
	}
	if n == 0 {
		return
	}
	rest := r.recent[:copy(r.recent, r.recent[n:])]
	clear(r.recent[len(rest):]) // or its batches would stay in memory
	r.recent = rest
}

// before reports whether all that a fact states lies before an instant.
func before(f timeline.Fact, at time.Duration) bool {
	switch f := f.(type) {
	case timeline.Event:
		return f.Seen < at
	case timeline.Batch:
		for i := range f.Requests {
			if f.Requests[i].Due >= at {
				return false
			}
		}
		for _, w := range f.Watermarks {
			if w.Due >= at {
				return false
			}
		}
	}
	return true
}

// keep takes an event that the ring lets go of into the keyframe.
func (r *Ring) keep(e timeline.Event) {
	switch e.Kind {
	case timeline.TargetChanged:
		for _, t := range r.named(e) {
			t.ended = e.To == "ended"
		}
	case timeline.RateChanged:
		if rate, err := strconv.ParseFloat(e.To, 64); err == nil {
			for _, t := range r.named(e) {
				t.Rate = rate
			}
		}
	default:
		r.keyframe.add(e)
	}
}

// named returns the target that an event is about.
func (r *Ring) named(e timeline.Event) []*target {
	for i := len(r.targets) - 1; i >= 0; i-- {
		if r.targets[i].Name == e.Object.Name {
			return r.targets[i : i+1]
		}
	}
	return nil
}

// A Shift places the facts of a process on the clock of a run that began after it.
type Shift struct {
	By      time.Duration // the instant of the process's clock at which the run begins
	dropped uint64        // requests that the source had counted by then, and that the run does not have
}

// Take returns the facts of a run that begins where the ring does at now, on the run's clock, and how facts that follow
// are placed on it. The run's own description is to come before them.
func (r *Ring) Take(now time.Duration) ([]timeline.Fact, Shift) {
	r.Forget(now)
	s := Shift{By: r.begins(now).Truncate(time.Microsecond)} // as exact as a recording
	measured := r.measured()
	facts := append([]timeline.Fact(nil), r.definitions...)
	for _, t := range r.targets {
		if !t.ended || measured[t.ID] {
			facts = append(facts, t.Target)
		}
	}
	if s.By > 0 {
		for _, e := range r.keyframe.events() {
			facts = append(facts, e)
		}
		for _, t := range r.targets {
			if !t.ended {
				facts = append(facts, timeline.Event{Kind: timeline.TargetChanged, To: "measuring",
					Object: timeline.Object{Kind: "Target", Name: t.Name}})
			}
		}
	}
	kept := uint64(0)
	for _, f := range r.recent {
		if b, ok := f.(timeline.Batch); ok {
			end := b.FirstSeq + uint64(len(b.Requests))
			b.Requests = since(b.Requests, s.By)
			b.FirstSeq = end - uint64(len(b.Requests))
			s.dropped = b.FirstSeq - kept
			kept += uint64(len(b.Requests))
			f = b
		}
		facts = append(facts, s.Place(f))
	}
	s.dropped = r.counted - kept
	return facts, s
}

// measured returns the targets that the ring has requests of, or that begin again in it.
func (r *Ring) measured() map[timeline.TargetID]bool {
	ids := map[timeline.TargetID]bool{}
	for _, f := range r.recent {
		switch f := f.(type) {
		case timeline.Event:
			if f.Kind == timeline.TargetChanged && f.To == "measuring" {
				for _, t := range r.named(f) {
					ids[t.ID] = true
				}
			}
		case timeline.Batch:
			for i := range f.Requests {
				ids[f.Requests[i].Target] = true
			}
		}
	}
	return ids
}

// since returns the requests that were due at an instant or later.
func since(all []timeline.Request, at time.Duration) []timeline.Request {
	kept := make([]timeline.Request, 0, len(all))
	for _, q := range all {
		if q.Due >= at {
			kept = append(kept, q)
		}
	}
	return kept
}

// Place returns a fact of the process on the run's clock.
func (s Shift) Place(f timeline.Fact) timeline.Fact {
	if s == (Shift{}) {
		return f
	}
	switch f := f.(type) {
	case timeline.Event:
		return f.Earlier(s.By)
	case timeline.Batch:
		f.FirstSeq -= s.dropped
		return f.Earlier(s.By)
	}
	return f
}
