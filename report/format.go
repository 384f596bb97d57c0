package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"lapse/correlate/model"
)

// unknownLength is the length of what nothing bounds.
const unknownLength = "unknown"

// FormatLength renders an uncertain length as its middle and the half width of its bounds, or as its bounds where these
// are far apart, rounded outward so that what is printed always holds what was measured:
//
//	[73 ms, 91 ms]        82 ms ±9
//	[1.2 ms, 48 ms]       1.2 ms to 48 ms
//	[0, 4.6 ms]           < 4.6 ms
//	[3.14 s, …] and open  ≥ 3.14 s
//	[0, …] and open       unknown
//
// A length is open if one of its ends was not observed, so that there is no upper bound.
func FormatLength(l model.Length, open bool) string {
	switch {
	case open && l.Min <= 0:
		return unknownLength
	case open:
		return "≥ " + plain(floorDigits(l.Min, 3))
	case l.Max == 0:
		return "0 s"
	case l.Min <= 0:
		return "< " + plain(ceilDigits(l.Max, 2))
	case l.Max > 3*l.Min:
		return plain(floorDigits(l.Min, 3)) + " to " + plain(ceilDigits(l.Max, 2))
	default:
		return withError(l.Min, l.Max)
	}
}

// FormatOffset renders the uncertain time from an instant to another, with its sign: "-71 ms ±9".
func FormatOffset(offset model.Instant) string {
	text := withError(offset.Earliest, offset.Latest)
	if text[0] == '-' {
		return text
	}
	return "+" + text
}

// FormatDuration renders a known length with at most three digits: "1.9 ms", "1.04 s", "2 min 5 s".
func FormatDuration(d time.Duration) string {
	if d < 2*time.Minute {
		return plain(roundTo(d, digitStep(d, 3)))
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// FormatShare renders a ratio as a percentage that is never nicer than the truth: only 0 is "0%",
// only 1 is "100%", and what is nearly everything is rounded down.
//
//	0.5 → 50%   0.99996 → 99.99%   0.00021 → 0.03%
func FormatShare(share float64) string {
	percent := share * 100
	switch {
	case percent <= 0:
		return "0%"
	case percent >= 100:
		return "100%"
	case percent > 99:
		return strconv.FormatFloat(min(math.Floor(percent*100+1e-6)/100, 99.99), 'f', -1, 64) + "%"
	case percent >= 10:
		return strconv.FormatFloat(percent, 'f', 0, 64) + "%"
	case percent >= 1:
		return strconv.FormatFloat(percent, 'f', 1, 64) + "%"
	default:
		digits := int(math.Ceil(-math.Log10(percent)))
		scale := math.Pow10(digits)
		return strconv.FormatFloat(math.Ceil(percent*scale-1e-9)/scale, 'f', -1, 64) + "%"
	}
}

// FormatCoverage writes which share of the time was observed, rounded down: what falls short of 99 % must not read as 99 %.
func FormatCoverage(share float64) string {
	return strconv.FormatFloat(math.Floor(share*1e4+1e-6)/100, 'f', -1, 64) + "%"
}

// atMost renders an upper bound, rounded up.
func atMost(d time.Duration) string { return plain(ceilDigits(d, 2)) }

// withError renders the middle of lo and hi with an error that covers both.
func withError(lo, hi time.Duration) string {
	if lo == hi {
		return plain(roundTo(lo, digitStep(lo, 3)))
	}
	mid, half, step := spread(lo, hi)
	size, name := unit(max(mid.Abs(), half))
	return decimal(mid, size, step) + " " + name + " ±" + decimal(half, size, step)
}

// spread returns the middle of lo and hi rounded to a step fit for people, and the distance from it,
// in whole steps, that covers both. It takes finer steps where rounding would reach across zero: what
// surely came before stays before.
func spread(lo, hi time.Duration) (mid, half, step time.Duration) {
	mid = lo + (hi-lo)/2
	half = hi - mid
	step = powerOfTen(half)
	if half < 2*step && half%step != 0 {
		step /= 10 // ±12 says more than ±20
	}
	step = max(step, digitStep(mid, 3), 1)
	for ; ; step /= 10 {
		rounded := roundTo(mid, step)
		half = ceilTo(max(hi-rounded, rounded-lo), step)
		if step == 1 || (lo <= 0) == (rounded-half <= 0) && (hi >= 0) == (rounded+half >= 0) {
			return rounded, half, step
		}
	}
}

// plain renders d exactly, in the unit fit for its size. It is meant for lengths already rounded.
func plain(d time.Duration) string {
	size, name := unit(d.Abs())
	return strconv.FormatFloat(float64(d)/float64(size), 'f', -1, 64) + " " + name
}

// decimal renders d in units of size, with as many decimals as step has.
func decimal(d, size, step time.Duration) string {
	decimals := 0
	for step < size {
		step *= 10
		decimals++
	}
	return strconv.FormatFloat(float64(d)/float64(size), 'f', decimals, 64)
}

// unit picks the unit in which people read a length of size d.
func unit(d time.Duration) (size time.Duration, name string) {
	switch {
	case d >= time.Second, d == 0:
		return time.Second, "s"
	case d >= time.Millisecond:
		return time.Millisecond, "ms"
	default:
		return time.Microsecond, "µs"
	}
}

// digitStep is the value of the n-th significant digit of d.
func digitStep(d time.Duration, n int) time.Duration {
	step := powerOfTen(d.Abs())
	for range n - 1 {
		step /= 10
	}
	return max(step, 1)
}

// powerOfTen is the largest power of ten not above d, and at least 1.
func powerOfTen(d time.Duration) time.Duration {
	power := time.Duration(1)
	for power <= d/10 {
		power *= 10
	}
	return power
}

func ceilDigits(d time.Duration, n int) time.Duration  { return ceilTo(d, digitStep(d, n)) }
func floorDigits(d time.Duration, n int) time.Duration { return d - d%digitStep(d, n) }

// ceilTo rounds d, which is not negative, up to a multiple of step.
func ceilTo(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// roundTo rounds d to the nearest multiple of step.
func roundTo(d, step time.Duration) time.Duration { return d.Round(step) }
