package selftest

import (
	"time"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// Books are what the server did to requests, and what became of these by the recording: every request is in one
// account, that of the first truth it met, or in none if it met no truth.
//
// Targets share the server, which cannot tell their requests apart; so the accounts are of all targets together.
type Books struct {
	truths   []Truth
	targets  map[timeline.TargetID]bool     // those that count
	inside   []map[timeline.TargetID]int    // by truth and target: requests sent and done within it
	flights  map[timeline.TargetID]recorded // by target: all that is on record
	Accounts []Account                      // by truth
	Answered int                            // good answers, by the server
	OK       int                            // good answers, by the recording
	TimedOut int                            // which the server may have answered, too late
	Own      int                            // spoilt by ourselves, which the server may have answered
	Strays   int                            // failures that met no truth
	NoStatus int                            // good answers without the status of one
}

// An Account is what was done to the requests of one outage.
type Account struct {
	Failed int // by the recording
	Slow   int // good answers later than --slow, by the recording
	Held   int // of these, those that took as long as the server holds an answer back
	Wrong  int // failures of a class that such an outage has not
	Unsent int // of the failures, those not sent for want of a free connection: the server cannot know them
	Good   int // good answers sent and done within an outage in which none was given, or while answers were held back
	Own    int // requests spoilt by ourselves meanwhile

	// By the server: how many must have failed, and how many may have. (Slow: were answered late.) Of an outage in
	// which nobody listened the server knows nothing; there both are −1.
	Least, Most int
}

// Agrees reports whether the recording has the counts of the server.
func (a Account) Agrees(c Class) bool {
	switch {
	case a.Wrong > 0 || a.Good > 0:
		return false
	case a.Least < 0:
		return true
	case c == Slow:
		return a.Held+a.Failed+a.Own >= a.Least && a.Slow+a.Failed <= a.Most
	}
	return a.Failed-a.Unsent+a.Own >= a.Least && a.Failed-a.Unsent <= a.Most
}

// NewBooks opens the books with what the server says: its acts, and how many good answers it gave.
func NewBooks(truths []Truth, acts []faultserver.Act, answered int) *Books {
	b := &Books{truths: truths, Accounts: make([]Account, len(truths)), Answered: answered, targets: map[timeline.TargetID]bool{}, flights: map[timeline.TargetID]recorded{}}
	for i, t := range truths {
		b.inside = append(b.inside, map[timeline.TargetID]int{})
		if t.Class() == Refused {
			b.Accounts[i].Least, b.Accounts[i].Most = -1, -1
		}
	}
	for _, act := range acts {
		if i := b.met(act.At, act.At); i >= 0 && act.Kind == truths[i].Outages[0].Kind {
			b.Accounts[i].note(act.At, truths[i])
		}
	}
	return b
}

// note enters an act of the server. A request that is stalled until shortly before the client gives up may be answered
// in time or not; the client's time began when it was sent, before the server read it.
func (a *Account) note(at time.Duration, t Truth) {
	a.Most++
	if t.Class() != Stalled || at+Timeout < t.End.From {
		a.Least++
	}
}

// Count says that requests of a target count. Those of others, such as the control, do not.
func (b *Books) Count(t timeline.Target) {
	if t.Kind.Judged() {
		b.targets[t.ID] = true
	}
}

// Add enters a recorded request.
func (b *Books) Add(q timeline.Request) {
	if !b.targets[q.Target] {
		return
	}
	i := b.met(q.Sent, q.Done)
	b.flights[q.Target] = append(b.flights[q.Target], flight{q.Due, q.Sent, q.Done, q.Class, q.Delayed, i})
	b.total(q, i)
	if i < 0 {
		return
	}
	a, t := &b.Accounts[i], b.truths[i]
	within := q.Sent >= t.Start.To && q.Done <= t.End.From
	if within && q.Class.Observed() {
		b.inside[i][q.Target]++
	}
	switch {
	case q.Class == timeline.Local:
		a.Own++
	case q.Class.Failed():
		a.Failed++
		if q.Class == timeline.NoSlot {
			a.Unsent++
		}
		if !fits(q.Class, t.Outages[0].Kind) {
			a.Wrong++
		}
	case q.Class != timeline.OK: // not sent
	case within && (t.Class().total() || t.Class() == Stalled):
		a.Good++
	case q.Delayed: // by the prober, nobody knows for how long
		a.Own++
	case q.Done-q.Sent > SlowBar:
		a.Slow++
		if q.Done-q.Sent >= Delay {
			a.Held++
		}
	}
}

func (b *Books) total(q timeline.Request, met int) {
	switch {
	case q.Class == timeline.OK:
		b.OK++
	case q.Class == timeline.Local:
		b.Own++
	case q.Class.Timeout():
		b.TimedOut++
	}
	if q.Class.Failed() && met < 0 {
		b.Strays++
	}
	if q.Class == timeline.OK && q.Code/100 != 2 { // the server gives no other
		b.NoStatus++
	}
}

// Balanced reports whether as many requests were good as the server gave good answers. It may have given more: to
// requests that were not waited for any longer.
func (b *Books) Balanced() bool {
	return b.NoStatus == 0 && b.OK <= b.Answered && b.Answered <= b.OK+b.TimedOut+b.Own
}

// met is the first truth that a request under way between two instants met, or −1.
func (b *Books) met(from, to time.Duration) int {
	for i, t := range b.truths {
		if t.touches(from, to) {
			return i
		}
		if t.Start.From > to {
			break
		}
	}
	return -1
}

// metBy returns whether a request of a target was sent and done within a truth.
func (b *Books) metBy(id timeline.TargetID) func(Truth) bool {
	return func(of Truth) bool {
		for i, t := range b.truths {
			if t.Start.From >= of.Start.From && t.End.To <= of.End.To && b.wasMet(i, id) {
				return true
			}
		}
		return false
	}
}

// wasMet reports whether a target can have missed a truth only by not seeing what it met. Of a share at random it may
// have met nothing; then every act is accounted for without it.
func (b *Books) wasMet(i int, id timeline.TargetID) bool {
	if b.truths[i].Class() == Random {
		return b.Accounts[i].Failed < b.Accounts[i].Least
	}
	return b.inside[i][id] > 0
}

// fits reports whether a request can fail so in an outage of a kind. Whatever was wrong, an answer can also come too late
// on a busy machine: that is not the outage's.
func fits(c timeline.Class, k faultserver.Kind) bool {
	switch k {
	case faultserver.Refuse:
		return c == timeline.Refused || c == timeline.Reset || c == timeline.EOF
	case faultserver.Reset:
		return c == timeline.Reset
	case faultserver.EOF:
		return c == timeline.EOF
	case faultserver.Error:
		return c == timeline.HTTP5xx
	case faultserver.Truncate:
		return c == timeline.Body
	case faultserver.Stall:
		return c == timeline.TimeoutResponse || c == timeline.NoSlot
	}
	return false
}
