package selftest

import (
	"time"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A Ledger counts what the server did to requests, and what became of them by the recording. Every request is in one
// account, that of the first outage it met, or in none.
//
// The server cannot tell the requests of different targets apart, so an account is of all targets together.
type Ledger struct {
	protocol Protocol
	outages  []Outage
	targets  map[timeline.TargetID]bool  // those that count
	inside   []map[timeline.TargetID]int // requests sent and done within an outage, by outage and target
	Accounts []Account                   // by outage
	Answered int                         // good answers, by the server
	OK       int                         // good answers, by the recording
	TimedOut int                         // requests that the server may have answered, too late
	Local    int                         // requests that failed on our side, which the server may have answered
	NoStatus int                         // good answers without the status of one
}

// An Account counts what became of the requests of one outage.
type Account struct {
	Failed int // by the recording
	Slow   int // good answers later than --slow, by the recording
	Held   int // of these, those that took as long as the server delays an answer
	Wrong  int // failures of a class that such an outage does not cause
	Unsent int // of the failures, those not sent for want of a free connection: the server cannot know them
	Good   int // good answers sent and done within an outage in which none was given, or while answers were held back
	Local  int // requests that failed on our side meanwhile

	// By the server: how many must have failed, and how many may have. (Slow: were answered late.) Both are −1 for an
	// outage of the listener, which the server cannot count.
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
		return a.Held+a.Failed+a.Local >= a.Least && a.Slow+a.Failed <= a.Most
	}
	return a.Failed-a.Unsent+a.Local >= a.Least && a.Failed-a.Unsent <= a.Most
}

// NewLedger starts with what the server did: its acts, and how many good answers it gave.
func NewLedger(protocol Protocol, outages []Outage, acts []faultserver.Act, answered int) *Ledger {
	l := &Ledger{
		protocol: protocol, outages: outages, targets: map[timeline.TargetID]bool{},
		Accounts: make([]Account, len(outages)), Answered: answered,
	}
	for i, o := range outages {
		l.inside = append(l.inside, map[timeline.TargetID]int{})
		if o.Class == Refused {
			l.Accounts[i].Least, l.Accounts[i].Most = -1, -1
		}
	}
	for _, act := range acts {
		if i := l.met(act.At, act.At); i >= 0 && act.Kind == outages[i].Kind {
			l.Accounts[i].note(act.At, outages[i])
		}
	}
	return l
}

// note enters an act of the server. A request that is stalled until shortly before the client gives up may be answered
// in time or not; the client's time began when it was sent, before the server read it.
func (a *Account) note(at time.Duration, o Outage) {
	a.Most++
	if o.Class != Stalled || at+Timeout < o.End.From {
		a.Least++
	}
}

// Count includes a target's requests. Those of others, such as the control, do not count.
func (l *Ledger) Count(t timeline.Target) {
	if t.Kind.Judged() {
		l.targets[t.ID] = true
	}
}

// Add enters a recorded request.
func (l *Ledger) Add(q timeline.Request) {
	if !l.targets[q.Target] {
		return
	}
	l.total(q)
	i := l.met(q.Sent, q.Done)
	if i < 0 {
		return
	}
	a, o := &l.Accounts[i], l.outages[i]
	within := q.Sent >= o.Start.To && q.Done <= o.End.From
	if within && q.Class.Observed() {
		l.inside[i][q.Target]++
	}
	switch {
	case q.Class == timeline.Local:
		a.Local++
	case q.Class.Failed():
		a.Failed++
		if q.Class == timeline.NoSlot {
			a.Unsent++
		}
		if !l.protocol.fits(q.Class, o.Kind) {
			a.Wrong++
		}
	case q.Class != timeline.OK: // not sent
	case within && (o.Class.total() || o.Class == Stalled || o.Class == Lost):
		a.Good++
	case q.Delayed: // by the prober, for an unknown time
		a.Local++
	case q.Done-q.Sent > SlowBar:
		a.Slow++
		if q.Done-q.Sent >= Delay {
			a.Held++
		}
	}
}

func (l *Ledger) total(q timeline.Request) {
	switch {
	case q.Class == timeline.OK:
		l.OK++
	case q.Class == timeline.Local:
		l.Local++
	case q.Class.Timeout():
		l.TimedOut++
	}
	if l.protocol.Statuses && q.Class == timeline.OK && q.Code/100 != 2 { // the server gives no other
		l.NoStatus++
	}
}

// Balanced reports whether as many requests were good as the server gave good answers. It may have given more: to
// requests that had been given up.
func (l *Ledger) Balanced() bool {
	return l.NoStatus == 0 && l.OK <= l.Answered && l.Answered <= l.OK+l.TimedOut+l.Local
}

// met returns the index of the first outage that a request in flight between two instants met, or −1.
func (l *Ledger) met(from, to time.Duration) int {
	for i, o := range l.outages {
		if o.Touches(from, to) {
			return i
		}
		if o.Start.From > to {
			break
		}
	}
	return -1
}

// metBy reports whether a target sent requests within an outage, so that it could have seen it. A share at random may
// have spared them all: then the server's acts are accounted for without this target.
func (l *Ledger) metBy(id timeline.TargetID, outage int) bool {
	if l.outages[outage].Class == Random {
		return l.Accounts[outage].Failed < l.Accounts[outage].Least
	}
	return l.inside[outage][id] > 0
}
