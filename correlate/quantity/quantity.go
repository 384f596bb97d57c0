// Package quantity writes lengths of time, instants, shares and counts as people read them, and never as more exact than they are.
package quantity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
)

// Span prints a length of time to three digits: "41 ms", "1.38 s", "11.2 s".
func Span(d time.Duration) string { return spanText(d, time.Duration.Round) }

// Lowest and highest print the bounds of a length to three digits, and never as narrower than they are.
func Lowest(d time.Duration) string  { return spanText(d, time.Duration.Truncate) }
func Highest(d time.Duration) string { return spanText(d, Ceil) }

func Ceil(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// spanText prints what round leaves of d: three digits, or whole seconds.
func spanText(d time.Duration, round func(d, step time.Duration) time.Duration) string {
	if d < 0 {
		return "-" + spanText(-d, round)
	}
	step := time.Duration(1)
	for step < time.Second && d >= 1000*step {
		step *= 10
	}
	d = round(d, step)
	unit, name := unitOf(d)
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + " " + name
}

// Spans prints a length with its bounds: "41 ms", or "39 to 44 ms".
func Spans(l model.Length) string {
	if l.Min == l.Max {
		return Span(l.Min)
	}
	return Lowest(l.Min) + " to " + Highest(l.Max)
}

// Clock prints an instant as seconds after the run's start: "9.953 s".
func Clock(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + " s"
}

// Between prints a bracket: "between 9.95 s and 9.98 s".
func Between(at model.Instant) string {
	switch {
	case at.Earliest == at.Latest:
		return "at " + Clock(at.Latest)
	case !at.Bounded():
		return "before " + Clock(at.Latest)
	}
	return "between " + Clock(at.Earliest) + " and " + Clock(at.Latest)
}

// RoundUp gives d in steps that a manifest can carry: tenths of a second.
func RoundUp(d time.Duration) time.Duration { return Ceil(d, 100*time.Millisecond) }

// Percent prints a share: "49 %".
func Percent(share float64) string {
	if share > 0 && share < 0.01 || share > 0.99 && share < 1 {
		return strconv.FormatFloat(share*100, 'g', 4, 64) + " %"
	}
	return strconv.FormatFloat(math.Round(share*100), 'f', -1, 64) + " %"
}

// Coverage prints an observed share, rounded down: what falls short of 99 % must not read as 99 %.
func Coverage(share float64) string {
	return strconv.FormatFloat(math.Floor(share*1e4)/1e2, 'f', -1, 64) + " %"
}

// Count prints a number of things: "1 request", "64 requests".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ClassCounts prints failures by class, the most frequent first: "20 refused, 1 reset".
func ClassCounts(classes map[string]int) string {
	type entry struct {
		class string
		n     int
	}
	entries := make([]entry, 0, len(classes))
	for class, n := range classes {
		if n > 0 {
			entries = append(entries, entry{class, n})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.class, b.class)
	})
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = fmt.Sprintf("%d %s", e.n, e.class)
	}
	return strings.Join(parts, ", ")
}

// About prints a length as its middle and the half width of its bounds, rounded outward: "48.4 ms ±8.6", "≤ 57 ms". Where the upper
// bound says little, it says what is proven: "≥ 506 ms".
func About(l model.Length) string {
	switch {
	case l.Min <= 0:
		return "≤ " + Highest(l.Max)
	case l.Max > 3*l.Min:
		return "≥ " + Lowest(l.Min)
	case l.Min == l.Max:
		return Span(l.Min)
	}
	middle := l.Min + (l.Max-l.Min)/2
	step := time.Duration(1)
	for step*10 <= l.Max-middle {
		step *= 10
	}
	if l.Max-middle < 2*step && step >= 10 {
		step /= 10 // ±12 says more than ±20
	}
	for middle/step >= 1000 {
		step *= 10
	}
	middle = middle.Round(step)
	half := Ceil(max(l.Max-middle, middle-l.Min), step)
	unit, name := unitOf(middle)
	decimals := 0
	for ; step < unit; step *= 10 {
		decimals++
	}
	number := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'f', decimals, 64)
	}
	return number(middle) + " " + name + " ±" + number(half)
}

// unitOf is the unit in which people read a length of size d.
func unitOf(d time.Duration) (unit time.Duration, name string) {
	switch {
	case d == 0, d >= time.Second:
		return time.Second, "s"
	case d < time.Millisecond:
		return time.Microsecond, "µs"
	}
	return time.Millisecond, "ms"
}
