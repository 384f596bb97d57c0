package engine

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// failovers counts, for each target, connections that went to one address of its name because another had failed.
// Such a request succeeds, late, and its outcome does not say why. Of each target a few different addresses and classes
// are counted at a time. They are emitted when the count begins, each time it has grown tenfold, and when it is over:
// after a time without such a failure, or after longestCount. A guard has a run of each disruption.
type failovers struct {
	mu     sync.Mutex
	counts []*failoverCount
}

const (
	// mostFailovers is how many are counted per target: a name's addresses may change all the time.
	mostFailovers = 8
	// longestCount is how long a count takes at most: one address of a name may always fail.
	longestCount = time.Minute
)

// A failoverCount is how often an address of a target failed so.
type failoverCount struct {
	event   timeline.Event // as it will be emitted; its Count
	emitted int            // the count when it was emitted last
}

// note counts an address that failed before a connection of a target came about.
func (p *failovers) note(target string, f wire.FailedAddress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := p.of(target, f.Addr.Addr(), wire.Classify(f.Err, wire.Connecting).String())
	if count == nil {
		return
	}
	e := &count.event
	if e.Count == 0 {
		e.Since, e.Detail = FloorMicros(f.Begun), errorText(f.Err)
	}
	e.Since, e.Seen = min(e.Since, FloorMicros(f.Begun)), max(e.Seen, CeilMicros(f.Over))
	e.Count++
}

// of returns the count of an address and class, which may be 0, or nil if the target has too many.
func (p *failovers) of(target string, addr netip.Addr, class string) *failoverCount {
	n := 0
	for _, c := range p.counts {
		if c.event.Object.Name != target {
			continue
		}
		if c.event.Addr == addr && c.event.To == class {
			return c
		}
		n++
	}
	if n == mostFailovers {
		return nil
	}
	c := &failoverCount{event: timeline.Event{
		Kind: timeline.AddressFailed, To: class, Object: timeline.Object{Kind: "Target", Name: target}, Addr: addr,
	}}
	p.counts = append(p.counts, c)
	return c
}

// Take returns the counts that are to be emitted at now: at the end, all that have changed.
func (p *failovers) Take(now time.Duration, end bool) (events []timeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := func(c *failoverCount) bool {
		return now-c.event.Seen > textsFor || now-c.event.Since > longestCount
	}
	for _, c := range p.counts {
		if n := c.event.Count; n >= max(1, 10*c.emitted) || (end || over(c)) && n > c.emitted {
			c.emitted = n
			events = append(events, c.event)
		}
	}
	p.counts = slices.DeleteFunc(p.counts, over)
	return events
}
