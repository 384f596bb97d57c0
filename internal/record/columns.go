package record

import (
	"cmp"
	"slices"

	"lapse/timeline"
)

// The columns of a block's requests. Each has one varint per request, in the order of the batches and within a batch
// by target and Seq, so that neighbours in a column are alike; a column of zeros is left out. The order is part of
// the format: a new column comes last, and its zero means what was recorded before there was one.
//
// Instants are whole microseconds: Due and Sent are rounded down, Done up, which is no loss for what loadgen measures
// and errs outward for anything finer.
const (
	colTarget    = iota // the target's ID − that of the request before
	colSeq              // Seq − (the target's last Seq + 1)
	colDue              // Due − what the target's last step predicts
	colClass            // Class × 4, and 1 more if Reused, 2 if Delayed
	colCode             // Code − that of the request before
	colBackend          // Backend
	colPeer             // Peer − that of the request before
	colLate             // Sent − Due
	colDNS              // the phases
	colConnect          //
	colTLS              //
	colFirstByte        //
	colRest             // Done − Sent less the phases: writing the request, and reading on after the first byte
	numColumns
)

// columns are the requests of one block, as bytes.
type columns [numColumns]column

// A step is what a block's requests so far predict of the next one.
type step struct {
	before  timeline.Request // the request before, of any target
	due     int64            // when that was due, in microseconds
	targets map[timeline.TargetID]*pace
	pace    *pace // of the target of the request before
}

// A pace is what a target's requests so far predict of its next one: requests are due at even steps.
type pace struct {
	nextSeq uint64
	due     int64 // of the last request
	step    int64
}

func newStep() step { return step{targets: map[timeline.TargetID]*pace{}} }

// turnTo returns the pace of a target. That of one that is new to the block begins where the request before was due.
func (s *step) turnTo(target timeline.TargetID) *pace {
	if s.pace != nil && s.before.Target == target {
		return s.pace
	}
	p := s.targets[target]
	if p == nil {
		p = &pace{due: s.due}
		s.targets[target] = p
	}
	s.pace = p
	return p
}

func (p *pace) dueOf(seq uint64) int64 { return p.due + p.step*int64(seq-p.nextSeq+1) }

func (p *pace) learn(seq uint64, due int64) {
	if n := int64(seq - p.nextSeq + 1); n != 0 && p.nextSeq != 0 {
		p.step = (due - p.due) / n
	}
	p.nextSeq, p.due = seq+1, due
}

// encode fills the columns with requests.
func (c *columns) encode(requests []timeline.Request) {
	for i := range c {
		c[i] = c[i][:0]
	}
	s := newStep()
	for i := range requests {
		c.encodeOne(&s, &requests[i])
	}
}

func (c *columns) encodeOne(s *step, r *timeline.Request) {
	due, sent, done := floorMicros(r.Due), floorMicros(r.Sent), ceilMicros(r.Done)
	p := s.turnTo(r.Target)
	c[colTarget].put(int64(r.Target) - int64(s.before.Target))
	c[colSeq].put(int64(r.Seq - p.nextSeq))
	c[colDue].put(due - p.dueOf(r.Seq))
	c[colClass].putU(classAndFlags(r.Outcome))
	c[colCode].put(int64(r.Code) - int64(s.before.Code))
	c[colBackend].putU(uint64(r.Backend))
	c[colPeer].put(int64(r.Peer) - int64(s.before.Peer))
	c[colLate].put(sent - due)
	c[colDNS].putU(uint64(r.DNS))
	c[colConnect].putU(uint64(r.Connect))
	c[colTLS].putU(uint64(r.TLS))
	c[colFirstByte].putU(uint64(r.FirstByte))
	c[colRest].put(done - sent - sumOf(r.Phases))
	p.learn(r.Seq, due)
	s.before, s.due = *r, due
}

func classAndFlags(o timeline.Outcome) uint64 {
	v := uint64(o.Class) << 2
	if o.Reused {
		v |= 1
	}
	if o.Delayed {
		v |= 2
	}
	return v
}

// sumOf is how long the phases took together, in microseconds.
func sumOf(p timeline.Phases) int64 {
	return int64(p.DNS) + int64(p.Connect) + int64(p.TLS) + int64(p.FirstByte)
}

// decode reads n requests. It errs only if the columns do not fit together, which a checksum that holds rules out for
// what this package wrote.
func (c *columns) decode(n int) ([]timeline.Request, error) {
	if n == 0 {
		return nil, nil
	}
	var in [numColumns]cursor
	for i := range c {
		in[i] = c[i].open(n)
	}
	requests := make([]timeline.Request, n)
	s := newStep()
	for i := range requests {
		decodeOne(&in, &s, &requests[i])
	}
	if !fit(in[:]) {
		return nil, corrupt("a block's columns do not fit each other")
	}
	return requests, nil
}

func decodeOne(in *[numColumns]cursor, s *step, r *timeline.Request) {
	r.Target = timeline.TargetID(within(&in[colTarget], int64(s.before.Target)+in[colTarget].varint(), 1<<32-1))
	p := s.turnTo(r.Target)
	r.Seq = p.nextSeq + uint64(in[colSeq].varint())
	due := p.dueOf(r.Seq) + in[colDue].varint()
	p.learn(r.Seq, due)
	class := in[colClass].uvarint()
	if class>>2 >= uint64(timeline.NumClasses) {
		in[colClass].bad, class = true, 0
	}
	r.Class, r.Reused, r.Delayed = timeline.Class(class>>2), class&1 != 0, class&2 != 0
	r.Code = uint16(within(&in[colCode], int64(s.before.Code)+in[colCode].varint(), 1<<16-1))
	r.Backend = in[colBackend].uint16()
	r.Peer = uint16(within(&in[colPeer], int64(s.before.Peer)+in[colPeer].varint(), 1<<16-1))
	sent := due + in[colLate].varint()
	r.DNS, r.Connect = micros32(&in[colDNS]), micros32(&in[colConnect])
	r.TLS, r.FirstByte = micros32(&in[colTLS]), micros32(&in[colFirstByte])
	done := sent + sumOf(r.Phases) + in[colRest].varint()
	r.Due, r.Sent, r.Done = micros(due), micros(sent), micros(done)
	s.before, s.due = *r, due
}

// inOrder sorts the requests of a batch by target and Seq.
func inOrder(requests []timeline.Request) {
	bySeq := func(x, y timeline.Request) int {
		return cmp.Or(cmp.Compare(x.Target, y.Target), cmp.Compare(x.Seq, y.Seq))
	}
	if !slices.IsSortedFunc(requests, bySeq) {
		slices.SortStableFunc(requests, bySeq)
	}
}
