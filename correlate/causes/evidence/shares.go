package evidence

import (
	"math"
)

// Exceeds reports whether more failed than chance allows at this probability: more than three
// standard deviations above the mean. Fewer is no contradiction, for a window also holds the good
// requests between two of its runs of failures.
func Exceeds(failed, sent int, p float64) bool {
	mean := float64(sent) * p
	return float64(failed) > mean+3*math.Sqrt(mean*(1-p))+1
}
