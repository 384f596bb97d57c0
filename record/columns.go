package record

import (
	"encoding/binary"

	"lapse/timeline"
)

// The columns of a block's requests. The first keeps the order in which the requests came; all others
// hold the same requests grouped by target (see grouped), so that neighbours in a column are alike.
//
// Instants are whole microseconds: Due and Sent are rounded down, Done up, which is no loss for what
// loadgen measures and errs outward for anything finer.
//
// A length whose low byte is noise and whose high part hardly changes takes two columns, so that each
// gets an entropy code of its own.
const (
	colTarget      = iota // the target's ID, in the order of the batches
	colSeq                // Seq − (the target's last Seq + 1)
	colDue                // Due − what the target's last step foretells
	colLateLow            // Sent − Due, low byte
	colLateHigh           //   and the rest
	colTookLow            // Done − Sent, low byte
	colTookHigh           //   and the rest
	colOutcome            // runs of the same class, code and reuse: length, class, code, reused
	colBackend            // Backend
	colDNS                // DNS
	colConnectLow         // Connect, low byte
	colConnectHigh        //   and the rest
	colTLSLow             // TLS, low byte
	colTLSHigh            //   and the rest
	colFirstLow           // Done − Sent − DNS − Connect − TLS − FirstByte, low byte: sending and the body
	colFirstHigh          //   and the rest
	numColumns
)

// columns are the requests of one block, as bytes.
type columns [numColumns][]byte

func (c *columns) reset() {
	for i := range c {
		c[i] = c[i][:0]
	}
}

// encode fills the columns with requests.
func (c *columns) encode(requests []timeline.Request, g *grouping) {
	g.targets = g.targets[:0]
	for i := range requests {
		c[colTarget] = binary.AppendUvarint(c[colTarget], uint64(requests[i].Target))
		g.targets = append(g.targets, requests[i].Target)
	}
	var p predictor
	var run outcomeRun
	for _, i := range g.order() {
		r := &requests[i]
		p.turnTo(r.Target)
		due, sent, done := floorMicros(r.Due), floorMicros(r.Sent), ceilMicros(r.Done)
		c[colSeq] = appendVarint(c[colSeq], int64(r.Seq-p.seq()))
		c[colDue] = appendVarint(c[colDue], due-p.due(r.Seq))
		p.learn(r.Seq, due)
		c.putSplit(colLateLow, sent-due)
		c.putSplit(colTookLow, done-sent)
		c.putOutcome(&run, r)
		c[colBackend] = binary.AppendUvarint(c[colBackend], uint64(r.Backend))
		c[colDNS] = binary.AppendUvarint(c[colDNS], uint64(r.DNS))
		c.putSplit(colConnectLow, int64(r.Connect))
		c.putSplit(colTLSLow, int64(r.TLS))
		c.putSplit(colFirstLow, restOf(r.Phases, done-sent)-int64(r.FirstByte))
	}
	c.endOutcome(&run)
}

// decode reads as many requests as the columns hold. It errs only if the columns do not fit together,
// which a checksum that holds rules out for what this package wrote.
func (c *columns) decode(g *grouping) ([]timeline.Request, error) {
	var in [numColumns]cursor
	for i := range c {
		in[i].data = c[i]
	}
	g.targets = g.targets[:0]
	for len(in[colTarget].data) > 0 {
		g.targets = append(g.targets, in[colTarget].uint16())
	}
	requests := make([]timeline.Request, len(g.targets))
	var p predictor
	var run outcomeRun
	for _, i := range g.order() {
		r := &requests[i]
		r.Target = g.targets[i]
		p.turnTo(r.Target)
		r.Seq = p.seq() + uint64(in[colSeq].varint())
		due := p.due(r.Seq) + in[colDue].varint()
		p.learn(r.Seq, due)
		sent := due + getSplit(&in, colLateLow)
		took := getSplit(&in, colTookLow)
		r.Due, r.Sent, r.Done = micros(due), micros(sent), micros(sent+took)
		getOutcome(&in[colOutcome], &run, r)
		r.Backend = in[colBackend].uint16()
		r.DNS = timeline.Micros(in[colDNS].uvarint())
		r.Connect = timeline.Micros(getSplit(&in, colConnectLow))
		r.TLS = timeline.Micros(getSplit(&in, colTLSLow))
		r.FirstByte = timeline.Micros(restOf(r.Phases, took) - getSplit(&in, colFirstLow))
	}
	for i := range in {
		if in[i].bad || len(in[i].data) > 0 {
			return nil, corrupt("column %d does not fit the others", i)
		}
	}
	return requests, nil
}

// restOf is what of a request's time is left after its connection stood: a good guess for FirstByte.
func restOf(p timeline.Phases, took int64) int64 {
	return took - int64(p.DNS) - int64(p.Connect) - int64(p.TLS)
}

// putSplit adds v to the columns low and low+1.
func (c *columns) putSplit(low int, v int64) {
	c[low] = append(c[low], byte(v))
	c[low+1] = appendVarint(c[low+1], v>>8)
}

func getSplit(in *[numColumns]cursor, low int) int64 {
	b := in[low].byte()
	return in[low+1].varint()<<8 | int64(b)
}

// An outcomeRun is a stretch of requests that ended alike.
type outcomeRun struct {
	length int
	class  timeline.Class
	code   uint16
	reused bool
}

func (run *outcomeRun) holds(r *timeline.Request) bool {
	return run.class == r.Class && run.code == r.Code && run.reused == r.Reused
}

func (c *columns) putOutcome(run *outcomeRun, r *timeline.Request) {
	if run.length > 0 && !run.holds(r) {
		c.endOutcome(run)
	}
	*run = outcomeRun{run.length + 1, r.Class, r.Code, r.Reused}
}

func (c *columns) endOutcome(run *outcomeRun) {
	if run.length == 0 {
		return
	}
	flags := uint64(run.class) << 1
	if run.reused {
		flags |= 1
	}
	c[colOutcome] = binary.AppendUvarint(c[colOutcome], uint64(run.length))
	c[colOutcome] = binary.AppendUvarint(c[colOutcome], flags)
	c[colOutcome] = binary.AppendUvarint(c[colOutcome], uint64(run.code))
	*run = outcomeRun{}
}

func getOutcome(in *cursor, run *outcomeRun, r *timeline.Request) {
	if run.length == 0 {
		length, flags, code := in.uvarint(), in.uvarint(), in.uint16()
		if flags>>1 >= uint64(timeline.NumClasses) || length == 0 || length > maxBlock {
			in.bad, length = true, 1
		}
		*run = outcomeRun{int(length), timeline.Class(flags >> 1), code, flags&1 != 0}
	}
	run.length--
	r.Class, r.Code, r.Reused = run.class, run.code, run.reused
}

// A predictor foretells a target's next request from its last two: requests are due at even steps.
type predictor struct {
	target  uint16
	begun   bool
	lastSeq uint64
	lastDue int64
	step    int64
}

// turnTo forgets everything when the requests of another target begin.
func (p *predictor) turnTo(target uint16) {
	if !p.begun || p.target != target {
		*p = predictor{target: target, begun: true, lastSeq: ^uint64(0)}
	}
}

func (p *predictor) seq() uint64 { return p.lastSeq + 1 }

func (p *predictor) due(seq uint64) int64 { return p.lastDue + p.step*int64(seq-p.lastSeq) }

func (p *predictor) learn(seq uint64, due int64) {
	if n := int64(seq - p.lastSeq); n != 0 {
		p.step = (due - p.lastDue) / n
	}
	p.lastSeq, p.lastDue = seq, due
}

// A grouping orders requests by target and keeps its memory between blocks.
type grouping struct {
	targets []uint16 // of each request
	next    []int    // by target: where its next request goes
	sorted  []int
}

// order returns the indices of targets, sorted by target and otherwise as they came.
func (g *grouping) order() []int {
	g.count()
	if cap(g.sorted) < len(g.targets) {
		g.sorted = make([]int, len(g.targets))
	}
	g.sorted = g.sorted[:len(g.targets)]
	for i, t := range g.targets {
		g.sorted[g.next[t]] = i
		g.next[t]++
	}
	return g.sorted
}

// count sets next to where each target's requests begin.
func (g *grouping) count() {
	var highest uint16
	for _, t := range g.targets {
		highest = max(highest, t)
	}
	if len(g.next) <= int(highest) {
		g.next = make([]int, int(highest)+1)
	}
	clear(g.next)
	for _, t := range g.targets {
		g.next[t]++
	}
	start := 0
	for t, n := range g.next {
		g.next[t] = start
		start += n
	}
}
