// Package flight is the flight recorder of a process that waits for a disruption: it keeps the facts of the last two
// minutes in memory, so that a run can begin before its first sign. It writes no file.
//
//	facts ──> Ring: what is older becomes the keyframe, the state of the cluster where the rest begins
//	          Ring.Take ──> the facts of an ordinary run that began there
package flight

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"lapse/correlate/align"
	"lapse/timeline"
)

// Span is how much time a ring holds. A node that was lost is noticed 50 s late.
const Span = 2 * time.Minute

// A Ring holds the facts of a process since at most Span ago, and those of others that measure for it. What the run
// needs of the time before are its definitions, and the keyframe. One goroutine owns it.
type Ring struct {
	Here   timeline.SourceID // the process whose clock instants are on
	Clocks Clocks            // of the others
	// ForgetUnused is after how long without a request that refers to it a backend or peer is forgotten, because its
	// source has forgotten it, too. 0: none is.
	ForgetUnused time.Duration
	Again        bool // one run follows another

	others      []other      // that measure for it, in the order in which they joined
	definitions []definition // backends and peers
	targets     []*target    // those that are measured, and those with requests in the ring
	keyframe    keyframe
	recent      []timeline.Fact              // events, comparisons of clocks and batches, as they came
	counted     map[timeline.SourceID]uint64 // requests, as the batches count them
	cut         Instant                      // nothing before is wanted
	forgot      time.Duration                // when the ring last let go of facts
	thinned     time.Duration                // when watermarks were last left out
	dropped     time.Duration                // when unused definitions were last forgotten
}

// Clocks are how the clocks of other processes compare with that of the process that keeps a ring: of each source the
// last comparison. A source without one has the latter clock.
type Clocks map[timeline.SourceID]timeline.Sync

// Add takes in a comparison, unless the one before says more, with what the clocks may have drifted apart since.
func (c Clocks) Add(s timeline.Sync) {
	was, known := c[s.Source]
	slack := time.Duration(align.Drift*float64((s.At-was.At).Abs())) + 1
	if !known || s.Max-s.Min <= was.Max-was.Min+2*slack {
		c[s.Source] = s
	}
}

// ahead returns how far the process's clock is ahead of a source's, within the error of the comparison.
func (c Clocks) ahead(of timeline.SourceID) time.Duration { return (c[of].Min + c[of].Max) / 2 }

// Here returns a batch on the process's clock, within the error of the last comparison.
func (c Clocks) Here(b timeline.Batch) timeline.Batch {
	if ahead := c.ahead(b.Source); ahead != 0 {
		return b.Earlier(-ahead)
	}
	return b
}

// An Instant is the same instant on the clock of each source, within the error of the comparisons that were known when
// it was noted. A source that has joined since is not in it.
type Instant map[timeline.SourceID]time.Duration

// At notes an instant of the process's clock, as exactly as a recording has it.
func (r *Ring) At(at time.Duration) Instant {
	i := Instant{r.Here: at.Truncate(time.Microsecond)}
	for _, o := range r.others {
		i[o.ID] = r.on(o.ID, at)
	}
	return i
}

// on returns an instant of the process's clock on that of another source.
func (r *Ring) on(other timeline.SourceID, at time.Duration) time.Duration {
	return max(0, at-r.Clocks.ahead(other)).Truncate(time.Microsecond)
}

// An other is a process that measures for the one that keeps the ring.
type other struct {
	timeline.Source
	last timeline.Sync // the last comparison of clocks that the ring has let go of
}

// A definition is a backend or a peer, and when the ring last had a request that referred to it.
type definition struct {
	fact timeline.Fact
	used time.Duration
}

// A target is one that is measured, with its rate where the ring begins.
type target struct {
	timeline.Target
	began, ended bool // before the ring
}

// Add takes in the next fact. The run's own description and phases are left out: they depend on where the run begins.
func (r *Ring) Add(f timeline.Fact) {
	switch is := f.(type) {
	case timeline.Meta:
	case timeline.Source:
		if is.ID != r.Here {
			r.others = append(r.others, other{Source: is})
		}
	case timeline.Sync:
		r.recent = append(r.recent, f)
	case timeline.Target:
		r.define(is)
	case timeline.Event:
		if is.Kind != timeline.RunPhase {
			r.recent = append(r.recent, f)
		}
	case timeline.Batch:
		r.recent = append(r.recent, f)
		put(&r.counted, is.Source, is.FirstSeq+uint64(len(is.Requests)))
	default:
		r.definitions = append(r.definitions, definition{f, r.forgot})
	}
}

// Cut lets go of what is older than an instant, as a run that ended then has it.
func (r *Ring) Cut(at Instant) {
	r.cut = at
	r.keyframe.cut(at[r.Here])
}

// MeasuredSince reports whether the ring has a request that was due at an instant or later.
func (r *Ring) MeasuredSince(at Instant) bool {
	return slices.ContainsFunc(r.recent, func(f timeline.Fact) bool {
		b, _ := f.(timeline.Batch)
		return slices.ContainsFunc(b.Requests, func(q timeline.Request) bool { return q.Due >= at[b.Source] })
	})
}

// begins returns where the ring begins at now.
func (r *Ring) begins(now time.Duration) time.Duration { return max(0, now-Span, r.cut[r.Here]) }

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

// Forget lets go of what is older than Span at now, once a second. Of events it keeps what is still so, of a prober
// that was lost nothing.
func (r *Ring) Forget(now time.Duration) {
	if now-r.forgot >= time.Second {
		r.forget(now)
	}
}

func (r *Ring) forget(now time.Duration) {
	r.forgot = now
	if now-r.thinned >= thinEvery {
		r.thinned = now
		r.thin()
	}
	if r.ForgetUnused > 0 && now-r.dropped >= Span {
		r.dropped = now
		r.dropUnused(now)
	}
	begin, n := r.begins(now), 0
	for n < len(r.recent) && r.before(r.recent[n], begin) {
		switch f := r.recent[n].(type) {
		case timeline.Event:
			r.keep(f)
		case timeline.Sync:
			r.compared(f)
		}
		n++
	}
	if n == 0 {
		return
	}
	rest := r.recent[:copy(r.recent, r.recent[n:])]
	clear(r.recent[len(rest):]) // or its batches would stay in memory
	r.recent = rest
	r.dropEnded()
}

// thinEvery is the time after which batches without requests are left out that came since.
const thinEvery = 30 * time.Second

// thin leaves out the batches without requests whose watermarks later ones move on. At an idle rate that many nodes
// share these are most of what comes.
func (r *Ring) thin() {
	later := map[timeline.TargetID]bool{}
	last := func(f timeline.Fact) bool {
		b, ok := f.(timeline.Batch)
		keep := !ok || len(b.Requests) > 0
		for _, w := range b.Watermarks {
			keep = keep || !later[w.Target]
			later[w.Target] = true
		}
		return keep
	}
	kept := len(r.recent)
	for i := kept - 1; i >= 0; i-- {
		if f := r.recent[i]; last(f) {
			kept--
			r.recent[kept] = f
		}
	}
	rest := r.recent[:copy(r.recent, r.recent[kept:])]
	clear(r.recent[len(rest):])
	r.recent = rest
}

// dropEnded lets go of targets that ended before the ring, and of sources without any other.
func (r *Ring) dropEnded() {
	if !slices.ContainsFunc(r.targets, func(t *target) bool { return t.ended }) {
		return
	}
	measured, sources := r.measured(), map[timeline.SourceID]bool{r.Here: true}
	r.targets = slices.DeleteFunc(r.targets, func(t *target) bool { return t.ended && !measured[t.ID] })
	for _, t := range r.targets {
		sources[t.Source] = true
	}
	gone := func(id timeline.SourceID) bool { return !sources[id] }
	r.others = slices.DeleteFunc(r.others, func(o other) bool { return gone(o.ID) })
	r.definitions = slices.DeleteFunc(r.definitions, func(d definition) bool { return gone(timeline.SourceOf(d.fact)) })
	maps.DeleteFunc(r.counted, func(id timeline.SourceID, _ uint64) bool { return gone(id) })
	maps.DeleteFunc(r.Clocks, func(id timeline.SourceID, _ timeline.Sync) bool { return gone(id) })
}

// dropUnused lets go of backends and peers that no request has referred to for long. It sees each request at least once
// before the ring lets go of it.
func (r *Ring) dropUnused(now time.Duration) {
	type number struct {
		source timeline.SourceID
		id     uint16
	}
	backends, peers := map[number]bool{}, map[number]bool{}
	for _, f := range r.recent {
		if b, ok := f.(timeline.Batch); ok {
			for i := range b.Requests {
				backends[number{b.Source, b.Requests[i].Backend}] = true
				peers[number{b.Source, b.Requests[i].Peer}] = true
			}
		}
	}
	kept := r.definitions[:0]
	for _, d := range r.definitions {
		switch is := d.fact.(type) {
		case timeline.Backend:
			if backends[number{is.Source, is.ID}] {
				d.used = now
			}
		case timeline.Peer:
			if peers[number{is.Source, is.ID}] {
				d.used = now
			}
		}
		if now-d.used <= r.ForgetUnused {
			kept = append(kept, d)
		}
	}
	clear(r.definitions[len(kept):])
	r.definitions = kept
}

// before reports whether all that a fact states lies before an instant.
func (r *Ring) before(f timeline.Fact, at time.Duration) bool {
	switch f := f.(type) {
	case timeline.Event:
		return f.Seen < at-r.Clocks.ahead(f.Source)
	case timeline.Sync:
		return f.At < at-r.Clocks.ahead(f.Source)
	case timeline.Batch:
		at -= r.Clocks.ahead(f.Source)
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

// compared keeps the last comparison of clocks that the ring lets go of.
func (r *Ring) compared(s timeline.Sync) {
	for i := range r.others {
		if r.others[i].ID == s.Source {
			r.others[i].last = s
		}
	}
}

// keep takes an event that the ring lets go of into the keyframe.
func (r *Ring) keep(e timeline.Event) {
	switch e.Kind {
	case timeline.ProberChanged:
		switch {
		case e.To == "missing" && r.Again: // each run tells it
			return
		case e.To == "lost":
			r.lose(e.Object.Name)
		}
		r.keyframe.add(e)
	case timeline.TargetChanged:
		for _, t := range r.named(e) {
			t.began, t.ended = true, e.To == "ended"
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

// lose ends the targets of the process on a node that is lost.
func (r *Ring) lose(node string) {
	for _, o := range r.others {
		lost := false
		for _, t := range r.targets {
			if t.Source == o.ID && o.Node == node && !t.ended {
				t.ended, lost = true, true
			}
		}
		if lost {
			return
		}
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

// A Shift places the facts of a process on the clock of a run that began after it, and those of others that measure for
// it on clocks of which no instant that counts lies before 0.
type Shift struct {
	By time.Duration // the instant of the process's clock at which the run begins
	of map[timeline.SourceID]moved
}

// moved is how the facts of a source are placed.
type moved struct {
	by      time.Duration // the instant of its clock that is 0 from now on
	dropped uint64        // requests that it has counted, and that the run does not have
	other   bool          // what it measured before that may come yet: a prober that could not be reached
}

// Take returns the facts of a run that begins where the ring does at now, on the run's clock, and how facts that follow
// are placed on it. The run's own description is to come before them.
func (r *Ring) Take(now time.Duration) ([]timeline.Fact, Shift) {
	r.forget(now)
	by := r.begins(now).Truncate(time.Microsecond) // as exact as a recording
	s := Shift{By: by, of: map[timeline.SourceID]moved{r.Here: {by: by}}}
	for _, o := range r.others {
		begin, known := r.cut[o.ID]
		if !known || by > r.cut[r.Here] {
			begin = r.on(o.ID, by)
		}
		s.of[o.ID] = moved{by: begin, other: true}
	}
	facts, wanted := r.described(s)
	if by > 0 {
		for _, e := range r.keyframe.events(by) {
			facts = append(facts, e)
		}
		for _, t := range r.targets {
			if t.began && !t.ended {
				facts = append(facts, timeline.Event{Kind: timeline.TargetChanged, To: "measuring",
					Object: timeline.Object{Kind: "Target", Name: t.Name}, Source: t.Source})
			}
		}
	}
	begun := map[timeline.SourceID]bool{}
	for _, f := range r.recent {
		switch is := f.(type) {
		case timeline.Batch:
			if !wanted(is.Source) {
				continue
			}
			of := s.of[is.Source]
			if !begun[is.Source] {
				begun[is.Source], of.dropped = true, is.FirstSeq
			}
			end := is.FirstSeq + uint64(len(is.Requests))
			is.Requests = since(is.Requests, of.by)
			first := end - uint64(len(is.Requests))
			of.dropped += first - is.FirstSeq // and not what was lost before it came
			is.FirstSeq = first
			s.of[is.Source] = of
			f = is
		case timeline.Sync:
			if !wanted(is.Source) {
				continue
			}
		}
		facts = append(facts, s.Place(f))
	}
	for source, counted := range r.counted {
		if of := s.of[source]; !begun[source] {
			of.dropped = counted
			s.of[source] = of
		}
	}
	return facts, s
}

// described returns what the facts of a run refer to: sources, backends, peers and targets. wanted tells of which
// sources there may be facts: a prober that was lost before the run began is none of its.
func (r *Ring) described(s Shift) (facts []timeline.Fact, wanted func(timeline.SourceID) bool) {
	measured := r.measured()
	var targets []timeline.Fact
	sources := map[timeline.SourceID]bool{r.Here: true}
	for _, t := range r.targets {
		if !t.ended || measured[t.ID] {
			targets = append(targets, t.Target)
			sources[t.Source] = true
		}
	}
	for _, o := range r.others {
		if !sources[o.ID] {
			continue
		}
		of := s.of[o.ID]
		o.T0 = o.T0.Add(of.by)
		if facts = append(facts, o.Source); o.last != (timeline.Sync{}) {
			missing := max(0, of.by-o.last.At)
			slack := time.Duration(align.Drift*float64(missing)) + 1
			o.last.At, o.last.Min, o.last.Max = of.by, o.last.Min-slack, o.last.Max+slack
			facts = append(facts, s.Place(o.last))
		}
	}
	for _, d := range r.definitions {
		if sources[timeline.SourceOf(d.fact)] {
			facts = append(facts, d.fact)
		}
	}
	return append(facts, targets...), func(id timeline.SourceID) bool { return sources[id] }
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

// Place returns a fact of the process, or of another that measures for it, as the run has it.
func (s Shift) Place(f timeline.Fact) timeline.Fact {
	switch f := f.(type) {
	case timeline.Event:
		return f.Earlier(s.of[f.Source].by)
	case timeline.Batch:
		of := s.of[f.Source]
		if f.FirstSeq -= of.dropped; of.by == 0 {
			return f
		}
		if of.other {
			n := len(f.Requests)
			f.Requests = since(f.Requests, of.by)
			of.dropped += uint64(n - len(f.Requests))
			s.of[f.Source] = of
		}
		return f.Earlier(of.by)
	case timeline.Sync:
		by := s.of[f.Source].by
		return timeline.Sync{Source: f.Source, At: f.At - by, Min: f.Min + by - s.By, Max: f.Max + by - s.By}
	}
	return f
}

func put(counts *map[timeline.SourceID]uint64, of timeline.SourceID, n uint64) {
	if *counts == nil {
		*counts = map[timeline.SourceID]uint64{}
	}
	(*counts)[of] = n
}
