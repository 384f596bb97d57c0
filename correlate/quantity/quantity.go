// Package quantity writes lengths of time, instants, shares, counts and lists of names as people read them, and never
// as more exact than they are: three digits at most, bounds rounded outward, a space between a figure and its unit. The
// terminal, the reports, the causes and the verdict all use it. The page does the same in dashboard/ui/src/format.ts;
// testdata/examples.json holds the two together.
package quantity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
)

// UnknownLength is the length of what nothing bounds.
const UnknownLength = "unknown"

// Span prints a known length of time: "1.9 ms", "1.04 s", "2 min 5 s".
func Span(d time.Duration) string { return spanText(d, time.Duration.Round) }

// Lowest and Highest print a length that is a lower or an upper bound, rounded down or up.
func Lowest(d time.Duration) string  { return spanText(d, time.Duration.Truncate) }
func Highest(d time.Duration) string { return spanText(d, Ceil) }

// spanText prints what round leaves of d: three digits, from two minutes on whole seconds, from an hour on whole
// minutes.
func spanText(d time.Duration, round func(d, step time.Duration) time.Duration) string {
	if d < 0 {
		return "-" + spanText(-d, round)
	}
	if seconds := round(d, time.Second); seconds < 2*time.Minute {
		d = round(d, thirdDigit(d))
		size, name := unit(d)
		return strconv.FormatFloat(float64(d)/float64(size), 'f', -1, 64) + " " + name
	} else if seconds < time.Hour {
		return fmt.Sprintf("%d min %d s", seconds/time.Minute, seconds%time.Minute/time.Second)
	}
	d = round(d, time.Minute)
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// Length prints an uncertain length as its middle and the half width of its bounds, or as its bounds where these are
// far apart. What is printed always holds what was measured. A length is open if one of its ends was not observed:
// then it has no upper bound.
//
//	[73 ms, 91 ms]        82 ms ±9
//	[1.2 ms, 48 ms]       1.2 ms to 48 ms
//	[0, 4.6 ms]           ≤ 4.6 ms
//	[3.14 s, …] and open  ≥ 3.14 s
//	[0, …] and open       unknown
func Length(l model.Length, open bool) string {
	switch {
	case open && l.Min <= 0:
		return UnknownLength
	case open:
		return "≥ " + Lowest(l.Min)
	case l.Max <= 0:
		return "0 s"
	case l.Min <= 0:
		return "≤ " + Highest(l.Max)
	case l.Max > 3*l.Min:
		return Lowest(l.Min) + " to " + Highest(l.Max)
	}
	return withError(l.Min, l.Max)
}

// Offset prints the uncertain time from one instant to another, with its sign: "−71 ms ±9".
func Offset(offset model.Instant) string {
	text := withError(offset.Earliest, offset.Latest)
	if after, negative := strings.CutPrefix(text, "-"); negative {
		return "−" + after
	}
	return "+" + text
}

// withError prints the middle of lo and hi with an error that covers both.
func withError(lo, hi time.Duration) string {
	if lo == hi {
		return Span(lo)
	}
	middle, half, step := spread(lo, hi)
	size, name := unit(max(middle.Abs(), half))
	decimals := 0
	for step < size {
		step *= 10
		decimals++
	}
	number := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(size), 'f', decimals, 64)
	}
	return number(middle) + " " + name + " ±" + number(half)
}

// spread returns the middle of lo and hi, rounded to a step, and the distance from it, in whole steps, that covers
// both. The step is finer where rounding would reach across zero: what surely came before stays before.
func spread(lo, hi time.Duration) (middle, half, step time.Duration) {
	exact := lo + (hi-lo)/2
	half = hi - exact
	step = powerOfTen(half)
	if half < 2*step && half%step != 0 {
		step /= 10 // ±12 says more than ±20
	}
	step = max(step, thirdDigit(exact), 1)
	for ; ; step /= 10 {
		middle = exact.Round(step)
		half = Ceil(max(hi-middle, middle-lo), step)
		if step == 1 || (lo <= 0) == (middle-half <= 0) && (hi >= 0) == (middle+half >= 0) {
			return middle, half, step
		}
	}
}

// unit returns the unit in which people read a length of size d.
func unit(d time.Duration) (size time.Duration, name string) {
	switch {
	case d == 0, d >= time.Second:
		return time.Second, "s"
	case d < time.Millisecond:
		return time.Microsecond, "µs"
	}
	return time.Millisecond, "ms"
}

// thirdDigit returns the value of the third digit of d, at least a nanosecond.
func thirdDigit(d time.Duration) time.Duration { return max(powerOfTen(d.Abs())/100, 1) }

// powerOfTen returns the largest power of ten not above d, and at least 1.
func powerOfTen(d time.Duration) time.Duration {
	power := time.Duration(1)
	for power <= d/10 {
		power *= 10
	}
	return power
}

// Ceil rounds d, which is not negative, up to a multiple of step.
func Ceil(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// RoundUp gives d in steps that a manifest can carry: tenths of a second.
func RoundUp(d time.Duration) time.Duration { return Ceil(d, 100*time.Millisecond) }

// Clock prints an instant of a run as the time of day in UTC: "12:00:09.953".
func Clock(run *model.Timeline, at time.Duration) string {
	return run.T0.Add(at).UTC().Round(time.Millisecond).Format("15:04:05.000")
}

// exactly is how wide the bracket of an instant is at most that is written as one time.
const exactly = 20 * time.Millisecond

// Instant prints an instant as the time of day in UTC, no more exact than it is known: "12:00:09.953", "12:00:09.90 to
// 09.98", "12:00:09.2 to 10.3".
func Instant(run *model.Timeline, at model.Instant) string {
	step, decimals := stepOf(at)
	switch {
	case !at.Bounded():
		return "before " + Clock(run, at.Latest)
	case step == time.Millisecond:
		return Clock(run, at.Earliest+(at.Latest-at.Earliest)/2)
	}
	from, to := From(run, at), run.T0.Add(at.Latest).UTC()
	if rest := to.Truncate(step); rest.Before(to) {
		to = rest.Add(step)
	}
	layout := "15:04:05" + decimals
	if from.Truncate(time.Minute).Equal(to.Truncate(time.Minute)) {
		return from.Format(layout) + " to " + to.Format("05"+decimals)
	}
	return from.Format(layout) + " to " + to.Format(layout)
}

// From returns the time that [Instant] writes first.
func From(run *model.Timeline, at model.Instant) time.Time {
	step, _ := stepOf(at)
	if step == time.Millisecond {
		return run.T0.Add(at.Earliest + (at.Latest-at.Earliest)/2).UTC().Round(step)
	}
	return run.T0.Add(at.Earliest).UTC().Truncate(step)
}

// stepOf returns to what an instant is rounded, and how its part of a second is written.
func stepOf(at model.Instant) (step time.Duration, decimals string) {
	switch width := at.Latest - at.Earliest; {
	case width <= exactly:
		return time.Millisecond, ".000"
	case width <= 200*time.Millisecond:
		return 10 * time.Millisecond, ".00"
	}
	return 100 * time.Millisecond, ".0"
}

// Between prints a bracket: "between 12:00:09.950 and 12:00:09.980".
func Between(run *model.Timeline, at model.Instant) string {
	switch {
	case at.Earliest == at.Latest:
		return "at " + Clock(run, at.Latest)
	case !at.Bounded():
		return "before " + Clock(run, at.Latest)
	}
	return "between " + Clock(run, at.Earliest) + " and " + Clock(run, at.Latest)
}

// Percent prints a share with two digits, and so that it is never nicer than the truth: only 0 is "0 %", only 1 is
// "100 %", a share below 1 % is rounded up, and one above 99 % is rounded down and has two decimals.
//
//	0.493 → 49 %   0.0556 → 5.6 %   0.0051 → 0.51 %   0.99996 → 99.99 %
func Percent(share float64) string {
	switch {
	case share < 0.01:
		return percentText(share, math.Ceil)
	case share > 0.99 && share < 1:
		return percentText(share, func(x float64) float64 { return min(math.Floor(x), 99_99) })
	}
	return percentText(share, math.Round)
}

// Percents prints a share with its bounds, rounded outward: "0.51 % to 5.6 %".
func Percents(lo, hi float64) string {
	if lo == hi {
		return Percent(lo)
	}
	return percentText(lo, math.Floor) + " to " + percentText(hi, math.Ceil)
}

// percentText prints what round leaves of a share: two digits, or four where it is nearly everything.
func percentText(share float64, round func(float64) float64) string {
	const noise = 1e-6 // what floating point adds in its last digits must not turn a figure over
	percent := share * 100
	if percent <= 0 {
		return "0 %"
	}
	decimals := max(0, int(math.Floor(-math.Log10(percent)))+2)
	if percent > 99 && percent < 100 {
		decimals = 2
	}
	scale := math.Pow10(decimals)
	figure := percent * scale
	if whole := math.Round(figure); math.Abs(figure-whole) < noise {
		figure = whole
	}
	return decimalText(round(figure)/scale, decimals) + " %"
}

// Coverage prints which share of the time was observed, rounded down to two decimals: what falls short of 99 % must
// not read as 99 %.
func Coverage(share float64) string {
	return decimalText(math.Floor(share*1e4+1e-6)/100, 2) + " %"
}

// Number prints a rate or a count with one decimal at most, and less than one with two digits: 0.01 is not 0.
func Number(x float64) string {
	if x < 1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return decimalText(x, 1)
}

// Rate prints a measured rate with three digits at most before it is a whole number: "1.23", "66.7", "998". A rate
// that was asked for is a [Number].
func Rate(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// decimalText prints x with at most this many decimals.
func decimalText(x float64, decimals int) string {
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if decimals == 0 {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
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
	names := slices.SortedFunc(maps.Keys(classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if n := classes[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}
