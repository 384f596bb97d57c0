package preflight

import (
	"fmt"
	"math"

	"lapse/correlate/quantity"
)

// span is a lag in a sentence.
func (l Lag) span() string {
	if l.Least == l.Most || l.Least == 0 {
		return fmt.Sprintf("up to %s", quantity.Span(l.Most))
	}
	return fmt.Sprintf("%s to %s", quantity.Span(l.Least), quantity.Span(l.Most))
}

// words is a lag that says whether it is assumed.
func (l Lag) words() string {
	if l.Assumed {
		return l.span() + ", an assumption"
	}
	return l.span()
}

// cover is how many whole seconds outlast the lag.
func (l Lag) cover() int { return int(math.Ceil(l.Most.Seconds())) }

// evidence says where the lag comes from.
func (l Lag) evidence() Evidence {
	if l.Assumed {
		return Evidence{"cluster", "route lag", l.span() + ", an assumption: not measured here"}
	}
	return Evidence{"cluster", "route lag", l.span() + ", as --route-lag says"}
}
