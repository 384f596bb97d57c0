package selftest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"lapse/loadgen/faultserver"
)

// Class says what kind of outage one is. The list is closed.
type Class string

const (
	Refused    Class = "refused"     // nobody listens
	Reset      Class = "reset"       // every request's connection is reset
	EOF        Class = "eof"         // every request's connection is closed without a reply
	Error      Class = "http 5xx"    // every reply is a 503
	WrongReply Class = "wrong reply" // no reply is the good one; of DNS, SERVFAIL; of WebSocket, a close frame
	Lost       Class = "lost"        // no request is answered; of UDP only: an answer may be missing for any time
	Truncated  Class = "truncated"   // every body is cut off
	Stalled    Class = "stall"       // no answers for longer than the timeout
	Random     Class = "1 in N"      // a share of the requests fails at random in one of the other ways
	Slow       Class = "slow"        // good answers, later than --slow
	Goodbye    Class = "goodbye"     // connections closed as HTTP allows: no outage, and not to be taken for one
)

// Classes are all of them, in the order of tables.
var Classes = []Class{Refused, Reset, EOF, Error, WrongReply, Truncated, Lost, Stalled, Random, Slow, Goodbye}

// failing reports whether requests fail in such an outage.
func (c Class) failing() bool { return c != Slow && c != Goodbye }

// total reports whether every request fails that is read while it lasts, at once.
func (c Class) total() bool { return c.failing() && c != Stalled && c != Random && c != Lost }

// kinds has what a server does in an outage of a class, over any protocol.
var kinds = map[Class][]faultserver.Kind{
	Refused:    {faultserver.Refuse},
	Reset:      {faultserver.Reset},
	EOF:        {faultserver.EOF},
	Error:      {faultserver.Error},
	WrongReply: {faultserver.Error},
	Lost:       {faultserver.Drop},
	Truncated:  {faultserver.Truncate},
	Stalled:    {faultserver.Stall},
	Random:     {faultserver.Reset, faultserver.EOF, faultserver.Error, faultserver.Truncate, faultserver.Drop},
	Slow:       {faultserver.Slow},
	Goodbye:    {faultserver.Goodbye},
}

// The options that a plan is measured with.
const (
	Timeout = 800 * time.Millisecond
	SlowBar = 500 * time.Millisecond        // --slow
	Delay   = SlowBar + 60*time.Millisecond // how long the server holds a slow answer back
	Join    = 400 * time.Millisecond        // --join: keeps the outages of a plan apart
	Lead    = 1500 * time.Millisecond       // what a plan leaves well at its beginning
	Tail    = 1500 * time.Millisecond       // and at its end
)

// What a plan is made for. A lower rate meets too little in so short a time, and in a shorter time not every class
// has room.
const (
	MinRate     = 100.0
	MinDuration = 16 * time.Second
)

// Planned is an outage to be caused. Instants count from the run's zero.
type Planned struct {
	Class    Class
	Kind     faultserver.Kind
	From, To time.Duration
	Share    float64 // Random: of the requests that fail
}

// Fault returns what the server is to do.
func (o Planned) Fault() faultserver.Fault {
	f := faultserver.Fault{Kind: o.Kind, From: o.From, To: o.To, Share: o.Share}
	if o.Class == Slow {
		f.Delay = Delay
	}
	return f
}

// A Plan is a list of outages that do not overlap, by time. Neighbours are at least 600 ms apart: with a --join of
// 400 ms no two outages are one window.
type Plan []Planned

// Faults returns what the server is to do.
func (p Plan) Faults() []faultserver.Fault {
	faults := make([]faultserver.Fault, len(p))
	for i, o := range p {
		faults[i] = o.Fault()
	}
	return faults
}

// NewPlan plans outages of every class of a protocol for a run at a rate, in requests per second, of a duration. It
// depends on nothing else. A duration of MinDuration holds each class once, short; a longer one repeats them, with
// lengths from 2 ms to 5 s, close together and far apart.
func NewPlan(protocol Protocol, seed uint64, rate float64, duration time.Duration) Plan {
	tooLong := func(d time.Duration) bool { return d > duration/12 }
	p := planner{
		protocol: protocol,
		rng:      rand.New(rand.NewPCG(seed, 0x1a95e)),
		rate:     rate, at: Lead, end: duration - Tail,
		lengths: slices.DeleteFunc(slices.Clone(lengths), tooLong),
	}
	for n := 0; p.deal(n == 0) > 0; n++ {
	}
	return p.plan
}

var lengths = []time.Duration{
	2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
}

// A planner fills a plan from front to back.
type planner struct {
	protocol Protocol
	rng      *rand.Rand
	rate     float64
	at, end  time.Duration // where the next outage may begin; where the last must have ended
	lengths  []time.Duration
	plan     Plan
}

// deal adds one outage of every class in random order, as far as they fit, and returns how many did. The first hand
// is a short one, so that every class is dealt at least once.
func (p *planner) deal(first bool) (dealt int) {
	hand := slices.Clone(p.protocol.Classes)
	p.rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
	lengths := slices.Clone(p.lengths)
	if first {
		lengths = lengths[:min(7, len(lengths))] // up to 200 ms
		// Where answers were slow, that an answer is missing shows late: one stall comes before any is.
		stalled, slow := slices.Index(hand, Stalled), slices.Index(hand, Slow)
		hand[min(stalled, slow)], hand[max(stalled, slow)] = Stalled, Slow
	}
	p.rng.Shuffle(len(lengths), func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
	if first {
		// And before any answer was late comes an outage of every request, so long that a share would have shown.
		i := slices.IndexFunc(hand, Class.total)
		total := hand[i]
		copy(hand[1:], hand[:i])
		hand[0] = total
		longest := slices.Index(lengths, slices.Max(lengths))
		lengths[0], lengths[longest] = lengths[longest], lengths[0]
	}
	for i, class := range hand {
		o := p.outage(class, lengths[i%len(lengths)], first)
		gap := p.gap(class, first)
		if o.To > p.end {
			continue
		}
		p.plan = append(p.plan, o)
		p.at = o.To + gap
		dealt++
	}
	return dealt
}

func (p *planner) outage(class Class, length time.Duration, first bool) Planned {
	possible := p.protocol.kindsOf(class)
	o := Planned{Class: class, Kind: possible[p.rng.IntN(len(possible))], From: p.at}
	switch class {
	case Random:
		o.Share = 0.5
		if share := []float64{0.5, 0.2, 0.1}[p.rng.IntN(3)]; !first && share*p.rate*Join.Seconds() >= 15 {
			o.Share = share // else some failures would be more than Join apart
		}
		// As many as show that it is a share that fails: with two or three failures in a row no one could tell.
		length = max(length, time.Duration(30/(o.Share*p.rate)*float64(time.Second)))
	case Stalled:
		length = Timeout + 100*time.Millisecond + length
	case Slow:
		length = max(length, 50*time.Millisecond)
	}
	o.To = o.From + length.Round(time.Microsecond)
	return o
}

// gap returns how long all is well after an outage of a class.
func (p *planner) gap(class Class, first bool) time.Duration {
	near := 600*time.Millisecond + time.Duration(p.rng.Int64N(int64(100*time.Millisecond)))
	apart := 1600*time.Millisecond + time.Duration(p.rng.Int64N(int64(400*time.Millisecond)))
	// A stall's failures end long before it does, and slow answers come long after: next to those, near is neither.
	if class == Stalled || class == Slow || class == Random || class == Goodbye || class == Lost {
		return apart
	}
	if first || p.rng.IntN(3) > 0 {
		return near
	}
	return apart
}

// byTime sorts the server's outages.
func byTime(a, b faultserver.Outage) int { return cmp.Compare(a.Close.From, b.Close.From) }
