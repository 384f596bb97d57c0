// Package truth compares windows with outages that are known. It judges for `lapse selftest`, for the tests over real
// sockets and for the simulations.
//
// An outage is not known to the nanosecond either. A server knows of an edge that it came between two readings of its
// clock: before and after the system call that closed the listener, for example. So the truth of an edge is a span,
// some microseconds wide. A bracket holds it if the two have an instant in common: if they have none, the bracket is
// proven wrong.
//
//	truth             [====]                    [==]
//	bracket     |--------|         |-----|
//	             holds                    does not hold
package truth

import (
	"time"

	"lapse/correlate/model"
)

// A Span is the earliest and the latest instant, both included, at which something happened.
type Span struct{ From, To time.Duration }

// At returns an instant that is known exactly.
func At(instant time.Duration) Span { return Span{From: instant, To: instant} }

// An Outage is a time in which something was wrong. Its edges are instants on the run's clock.
type Outage struct {
	Start, End Span
	Slow       bool // answers were late, and did not fail
}

// Length returns how long it lasted at least.
func (o Outage) Length() time.Duration { return max(0, o.End.From-o.Start.To) }

// Touches reports whether some of the time between two instants may belong to it.
func (o Outage) Touches(from, to time.Duration) bool { return from <= o.End.To && o.Start.From <= to }

// Shows reports whether w has the failures of o in it, or its slow answers. A window holds those between its inner
// bounds: the earliest instant at which the fault was known and the latest at which it still lasted, in this order or
// the other.
func (o Outage) Shows(w model.Window) bool {
	return (w.Kind == model.Slow) == o.Slow && o.Touches(Core(w))
}

// Core returns the time between a window's inner bounds.
func Core(w model.Window) (from, to time.Duration) {
	return min(w.Start.Latest, w.End.Earliest), max(w.Start.Latest, w.End.Earliest)
}

// An Edge is one end of an outage: what a window says of it, and the truth.
type Edge struct {
	Bracket model.Instant
	Basis   model.Basis
	Open    bool          // the window is open there: the outer bound claims nothing
	Error   time.Duration // from the middle of the bracket to that of the truth
	Held    bool
}

// Width returns how far apart the bounds are. It has no meaning where the window is open.
func (e Edge) Width() time.Duration { return e.Bracket.Latest - e.Bracket.Earliest }

// Edges compares an outage with the windows that show it, at least one, by time. If there are several, it begins with
// the first and ends with the last.
func (o Outage) Edges(windows []model.Window) (start, end Edge) {
	first, last := windows[0], windows[len(windows)-1]
	start = edge(first.Start, o.Start, first.Basis, first.Open.Start)
	start.Held = (first.Open.Start || first.Start.Earliest <= o.Start.To) && o.Start.From <= first.Start.Latest
	end = edge(last.End, o.End, last.Basis, last.Open.End)
	end.Held = last.End.Earliest <= o.End.To && (last.Open.End || o.End.From <= last.End.Latest)
	return start, end
}

func edge(bracket model.Instant, truth Span, basis model.Basis, open bool) Edge {
	middle := (bracket.Earliest + bracket.Latest) / 2
	return Edge{Bracket: bracket, Basis: basis, Open: open, Error: (middle - (truth.From+truth.To)/2).Abs()}
}
