package timeline

import (
	"fmt"
	"time"
)

// What a fact can say. A run is far shorter than longest; the bounds keep sums and conversions of what is read from
// overflowing.
const (
	longest = 10 * 365 * 24 * time.Hour

	lowestRate, highestRate = 1e-8, 1e9 // per second; 0 is unknown

	mostConnections = 1 << 24

	lastYear = 9900 // of a wall clock, so that a run's end has a year of four digits too

	// outOfOrder is how much earlier an instant can be than the one it follows, by rounding.
	outOfOrder = time.Millisecond
)

// Check returns an error if no run can have stated the fact: a value is out of its range. Facts are checked once, when
// they are read; whoever judges them relies on it.
func Check(f Fact) error {
	var c checker
	switch f := f.(type) {
	case Meta:
		c.what = "the run's description"
		c.wallClock("t0", f.T0)
		c.options(f.Options)
	case Source:
		c.what = fmt.Sprintf("source %d", f.ID)
		c.wallClock("t0", f.T0)
	case Sync:
		c.what = fmt.Sprintf("a comparison of the clock of source %d", f.Source)
		c.instant("at", f.At)
		c.instant("min", f.Min)
		c.instant("max", f.Max)
		c.order("min", f.Min, "max", f.Max, 0)
	case Target:
		c.what = fmt.Sprintf("target %q", f.Name)
		c.target(f)
	case Event:
		c.what = fmt.Sprintf("event %d", f.ID)
		c.instant("seen", f.Seen)
		c.instant("since", f.Since)
		c.wallClock("stamp", f.Stamp)
		if f.Grace != nil {
			c.length("grace", *f.Grace)
		}
	case Batch:
		c.what = fmt.Sprintf("a batch of source %d", f.Source)
		for _, w := range f.Watermarks {
			c.instant("watermark", w.Due)
		}
		for i := range f.Requests {
			c.request(&f.Requests[i])
		}
	case HeldBatch:
		c.what = fmt.Sprintf("a batch of held changes of source %d", f.Source)
		for _, h := range f.Changes {
			c.instant("at", h.At)
			c.instant("from", h.From)
			c.instant("answered", h.Answered)
			c.order("from", h.From, "at", h.At, outOfOrder)
		}
	}
	return c.err
}

// A checker keeps the first error that it finds.
type checker struct {
	what string // whose values are checked
	err  error
}

func (c *checker) errorf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", c.what, fmt.Sprintf(format, args...))
	}
}

// instant checks an instant of a clock that began with its source. It may be some time before that.
func (c *checker) instant(name string, at time.Duration) {
	if at < -longest || at > longest {
		c.errorf("%s is %v, and no run takes so long", name, at)
	}
}

func (c *checker) length(name string, d time.Duration) {
	if d < 0 || d > longest {
		c.errorf("%s is %v, not between 0 and %v", name, d, longest)
	}
}

// order checks that instant b is not before a, but for the length slack.
func (c *checker) order(nameA string, a time.Duration, nameB string, b, slack time.Duration) {
	if b < a-slack {
		c.errorf("%s is %v, which is after %s, %v", nameA, a, nameB, b)
	}
}

func (c *checker) wallClock(name string, at time.Time) {
	if year := at.Year(); year < 0 || year > lastYear {
		c.errorf("%s is in the year %d", name, year)
	}
}

func (c *checker) rate(rate float64) {
	if rate != 0 && !(rate >= lowestRate && rate <= highestRate) { // NaN is neither
		c.errorf("rate is %v per second, not between %v and %v", rate, lowestRate, highestRate)
	}
}

func (c *checker) target(t Target) {
	c.rate(t.Rate)
	c.length("timeout", t.Timeout)
	if t.Connections < 0 || t.Connections > mostConnections {
		c.errorf("connections is %d, not between 0 and %d", t.Connections, mostConnections)
	}
	if c.err == nil && t.Kind == Held && t.Rate > 0 {
		if beat := float64(t.Connections) / t.Rate; beat > longest.Seconds() {
			c.errorf("%d connections with %v heartbeats per second are too few heartbeats", t.Connections, t.Rate)
		}
	}
}

func (c *checker) options(o Options) {
	c.rate(o.Rate)
	c.length("timeout", o.Timeout)
	c.length("duration", o.Duration)
	c.length("baseline", o.Baseline)
	c.length("settle", o.Settle)
	c.length("join", o.Join)
	c.length("slow", o.Slow)
	c.length("resolution", o.Resolution)
	if !(o.MinCoverage >= 0 && o.MinCoverage <= 1) { // NaN is neither
		c.errorf("minCoverage is %v, not between 0 and 1", o.MinCoverage)
	}
}

func (c *checker) request(r *Request) {
	c.instant("due", r.Due)
	c.instant("done", r.Done)
	c.order("due", r.Due, "sent", r.Sent, outOfOrder)
	c.order("sent", r.Sent, "done", r.Done, outOfOrder)
}
