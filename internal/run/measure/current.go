package measure

import (
	"time"

	"lapse/internal/run/flight"
	"lapse/internal/run/live"
	"lapse/timeline"
)

// A current is the run that a loop measures now. A loop that waits for signs again and again has one after the other:
// its targets, its watch and its ring outlive them.
type current struct {
	Live *live.Run
	Rec  *live.Recording // nil: nothing is recorded

	shift     flight.Shift // places facts of the loop on the run's clock
	nextEvent uint32
	counted   map[timeline.SourceID]uint64 // requests of each source

	// closes is when the run ends, while the last responses are awaited: what is due from then on is the next run's.
	// It is an instant of the loop's clock; 0 if the run goes on. edge is the same on the clock of each source.
	closes time.Duration
	edge   flight.Instant
}

// take records and judges one fact, whose instants are on the loop's clock.
func (c *current) take(f timeline.Fact) {
	if c.closes > 0 {
		if f = before(f, c.edge); f == nil {
			return
		}
	}
	c.record(c.shift.Place(f))
}

// record records and judges one fact of the run. It gives an event its number.
func (c *current) record(f timeline.Fact) {
	switch is := f.(type) {
	case timeline.Event:
		c.nextEvent++
		is.ID = c.nextEvent
		f = is
	case timeline.Batch:
		if c.closes > 0 { // it may lack some
			is.FirstSeq = c.counted[is.Source]
			f = is
		}
		if c.counted == nil {
			c.counted = map[timeline.SourceID]uint64{}
		}
		c.counted[is.Source] = is.FirstSeq + uint64(len(is.Requests))
	}
	c.Live.Add(f)
}

// before returns what a fact says of the time before an instant, or nil.
func before(f timeline.Fact, edge flight.Instant) timeline.Fact {
	at, known := edge[timeline.SourceOf(f)]
	if !known { // its source has joined since
		return nil
	}
	switch f := f.(type) {
	case timeline.Target: // it is asked from now on
		return nil
	case timeline.Event:
		if f.Seen >= at {
			return nil
		}
	case timeline.Batch:
		requests, marks := f.Requests, f.Watermarks
		f.Requests, f.Watermarks = nil, nil
		for _, q := range requests {
			if q.Due < at {
				f.Requests = append(f.Requests, q)
			}
		}
		for _, w := range marks {
			f.Watermarks = append(f.Watermarks, timeline.Watermark{Target: w.Target, Due: min(w.Due, at)})
		}
		return f
	}
	return f
}
