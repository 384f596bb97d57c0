package service

import (
	"fmt"
	"math"
	"time"

	"lapse/correlate/quantity"
)

// A Lag is how long routes to a Pod outlive it: at least Least, at most Most.
type Lag struct {
	Least, Most time.Duration
	Assumed     bool // not measured in this cluster
}

// AssumedLag is the lag of a cluster in which it was not measured.
var AssumedLag = Lag{time.Second, 5 * time.Second, true}

func (l Lag) String() string {
	if l.Assumed {
		return l.span() + " (an assumption: --route-lag sets what was measured)"
	}
	return fmt.Sprintf("up to %s (--route-lag)", quantity.Span(l.Most))
}

// span is a lag in a sentence.
func (l Lag) span() string {
	if l.Least == l.Most || l.Least == 0 {
		return fmt.Sprintf("up to %s", quantity.Span(l.Most))
	}
	return fmt.Sprintf("%s to %s", quantity.Span(l.Least), quantity.Span(l.Most))
}

// Words returns a lag for a sentence, and says so if it is assumed.
func (l Lag) Words() string {
	if l.Assumed {
		return l.span() + ", an assumption"
	}
	return l.span()
}

// Cover returns the lag in whole seconds, rounded up: a sleep of that length covers it.
func (l Lag) Cover() int { return int(math.Ceil(l.Most.Seconds())) }

// Evidence says where the lag comes from.
func (l Lag) Evidence() Evidence {
	if l.Assumed {
		return Evidence{"cluster", "route lag", l.span() + ", an assumption: not measured here"}
	}
	return Evidence{"cluster", "route lag", l.span() + ", as --route-lag says"}
}
