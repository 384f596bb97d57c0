package chart

import (
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// A scale is the part of a run that is drawn, in cells.
type scale struct {
	from   time.Duration // from the beginning of a bucket
	to     time.Duration
	run    time.Duration // the length of the whole run
	bucket time.Duration
	cell   time.Duration
	slots  int // buckets in a cell
	cells  int
}

// niceCells are the cell sizes people can count in.
var niceCells = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// fit chooses the size of cells. There is room for that many at most.
func (s *scale) fit(room int) {
	s.cell, s.cells = cellSize(s.to-s.from, s.bucket, room)
	s.slots = int(s.cell / s.bucket)
}

// cellSize picks the smallest nice size, a multiple of the buckets' width, at which the run fits into room cells.
func cellSize(run, bucket time.Duration, room int) (size time.Duration, cells int) {
	for _, size := range niceCells {
		if size%bucket == 0 && cellsOf(run, size) <= room {
			return size, cellsOf(run, size)
		}
	}
	size = quantity.Ceil((run+time.Duration(room)-1)/time.Duration(room), bucket)
	return size, cellsOf(run, size)
}

// cellsOf returns how many cells a run takes. A rest of less than a tenth of a cell belongs to the last one.
func cellsOf(run, size time.Duration) int {
	cells := int((run + size - 1) / size)
	if rest := run % size; cells > 1 && rest > 0 && rest < size/10 {
		cells--
	}
	return cells
}

// span returns the time a cell stands for.
func (s *scale) span(cell int) (from, to time.Duration) {
	from = s.from + time.Duration(cell)*s.cell
	if cell == s.cells-1 {
		return from, s.to
	}
	return from, from + s.cell
}

// column returns the cell that holds an instant, the nearest one if it lies outside of what is drawn.
func (s *scale) column(at time.Duration) int {
	return min(max(int((at-s.from)/s.cell), 0), s.cells-1)
}

// total adds up the slots of a cell.
func total[T int | float64](s *scale, series []T, cell int) T {
	first := int(s.from / s.bucket)
	from := min(first+cell*s.slots, len(series))
	to := min(from+s.slots, len(series))
	if cell == s.cells-1 && s.to == s.run {
		to = len(series)
	}
	sum := T(0)
	for _, n := range series[from:to] {
		sum += n
	}
	return sum
}

// outside reports whether most of a cell lies outside a target's measuring.
func (s *scale) outside(cell int, measured model.Instant) bool {
	from, to := s.span(cell)
	return overlap(from, to, measured.Earliest, max(measured.Latest, time.Nanosecond)) < (to-from)/2
}

// overlap returns how much of a..b lies in from..to.
func overlap(from, to, a, b time.Duration) time.Duration {
	return max(0, min(to, b)-max(from, a))
}
