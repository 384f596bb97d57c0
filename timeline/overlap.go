package timeline

import "time"

// Overlap reports whether one of two spans lies mostly within the other one: then two runs measured the same
// disruption. The runs of one guard follow each other; a clock that was set may make them overlap a little.
func Overlap(from, to, otherFrom, otherTo time.Time) bool {
	shorter := min(to.Sub(from), otherTo.Sub(otherFrom))
	if otherFrom.After(from) {
		from = otherFrom
	}
	if otherTo.Before(to) {
		to = otherTo
	}
	return !to.Before(from) && to.Sub(from) >= shorter/2
}
