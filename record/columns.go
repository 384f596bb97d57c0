package record

import (
	"cmp"
	"encoding/binary"
	"slices"

	"lapse/timeline"
)

// The columns of a block's requests, beside their lengths. The first tells the targets in the order of
// the batches; all others hold the same requests grouped by target (see grouping), so that neighbours
// in a column are alike and mostly as foretold: these columns are nearly empty.
//
// Instants are whole microseconds: Due and Sent are rounded down, Done up, which is no loss for what
// loadgen measures and errs outward for anything finer.
const (
	colTarget  = iota // runs of the same target: its ID, their number
	colSeq            // Seq − (the target's last Seq + 1)
	colDue            // Due − what the target's last step foretells
	colOutcome        // runs of the same class, code and reuse: length, class, code, reused
	colBackend        // Backend
	colPeer           // Peer
	colLengths        // by target: which lengths its requests have, a bit each
	numColumns
)

// columns are the requests of one block, as bytes.
type columns [numColumns][]byte

// A columnWriter fills columns.
type columnWriter struct {
	columns
	seq, due, backend, peer series
}

func (c *columnWriter) reset() {
	for i := range c.columns {
		c.columns[i] = c.columns[i][:0]
	}
	c.seq, c.due, c.backend, c.peer = series{}, series{}, series{}, series{}
}

// A series is a column of one value per request, as it is written. The value it ends with is written once,
// and not at all if it is 0 from the beginning.
type series struct {
	last    uint64
	repeats int // of last, which are not written yet
}

// appendTo appends the next value to its column.
func (s *series) appendTo(column []byte, v uint64) []byte {
	if v == s.last {
		s.repeats++
		return column
	}
	for ; s.repeats > 0; s.repeats-- {
		column = binary.AppendUvarint(column, s.last)
	}
	s.last = v
	return binary.AppendUvarint(column, v)
}

// A seriesReader takes off what a series holds.
type seriesReader struct {
	cursor
	last uint64
}

func (s *seriesReader) next() uint64 {
	if len(s.data) > 0 {
		s.last = s.uvarint()
	}
	return s.last
}

// next16 takes a value that must fit into 16 bits.
func (s *seriesReader) next16() uint16 {
	v := s.next()
	if v > 1<<16-1 {
		s.bad = true
	}
	return uint16(v)
}

// encode fills the columns and lengths with requests.
func (c *columnWriter) encode(l *lengths, requests []timeline.Request, g *grouping) {
	c.putTargets(requests, g)
	var run outcomeRun
	start := 0
	for _, end := range g.ends {
		c.encodeTarget(l, requests, g.sorted[start:end], &run)
		start = end
	}
	c.endOutcome(&run)
}

// encodeTarget adds the requests of one target, which are those at indices.
func (c *columnWriter) encodeTarget(l *lengths, requests []timeline.Request, indices []int, run *outcomeRun) {
	has := lengthsOf(requests, indices)
	c.columns[colLengths] = append(c.columns[colLengths], has)
	l.turnTo(requests[indices[0]].Target, has)
	p := &l.memory.predictor
	for _, i := range indices {
		r := &requests[i]
		due, sent, done := floorMicros(r.Due), floorMicros(r.Sent), ceilMicros(r.Done)
		c.columns[colSeq] = c.seq.appendTo(c.columns[colSeq], zigzag(int64(r.Seq-p.seq())))
		c.columns[colDue] = c.due.appendTo(c.columns[colDue], zigzag(due-p.due(r.Seq)))
		p.learn(r.Seq, due)
		c.putOutcome(run, r)
		c.columns[colBackend] = c.backend.appendTo(c.columns[colBackend], uint64(r.Backend))
		c.columns[colPeer] = c.peer.appendTo(c.columns[colPeer], uint64(r.Peer))
		l.put(&[numLengths]int64{
			lenLate: sent - due, lenDNS: int64(r.DNS), lenConnect: int64(r.Connect), lenTLS: int64(r.TLS), lenFirst: int64(r.FirstByte),
			lenRest: done - sent - sumOf(r.Phases),
		})
	}
}

// lengthsOf tells which lengths the requests at indices have, a bit each.
func lengthsOf(requests []timeline.Request, indices []int) uint8 {
	var all timeline.Phases
	for _, i := range indices {
		p := &requests[i].Phases
		all.DNS |= p.DNS
		all.Connect |= p.Connect
		all.TLS |= p.TLS
		all.FirstByte |= p.FirstByte
	}
	has := uint8(always)
	for column, length := range [numLengths]timeline.Micros{lenDNS: all.DNS, lenConnect: all.Connect, lenTLS: all.TLS, lenFirst: all.FirstByte} {
		if length > 0 {
			has |= 1 << column
		}
	}
	return has
}

// decode reads the requests that the columns hold, whose targets are in g. It errs only if the columns do not fit together,
// which a checksum that holds rules out for what this package wrote.
func (c *columns) decode(l *lengthReader, g *grouping) ([]timeline.Request, error) {
	in := columnReader{outcome: cursor{data: c[colOutcome]}, lengths: cursor{data: c[colLengths]}}
	in.seq.data, in.due.data, in.backend.data, in.peer.data = c[colSeq], c[colDue], c[colBackend], c[colPeer]
	requests := make([]timeline.Request, len(g.targets))
	start := 0
	for _, end := range g.ends {
		in.target(l, requests, g.sorted[start:end], g.targets[g.sorted[start]])
		start = end
	}
	if !in.finished() {
		return nil, corrupt("a block's columns do not fit each other")
	}
	return requests, nil
}

// A columnReader takes requests off columns.
type columnReader struct {
	seq, due, backend, peer seriesReader
	outcome, lengths        cursor
	run                     outcomeRun
}

// target reads the requests of one target, which are those at indices.
func (in *columnReader) target(l *lengthReader, requests []timeline.Request, indices []int, target timeline.TargetID) {
	l.turnTo(target, in.lengths.byte())
	p := &l.memory.predictor
	var parts [numLengths]int64
	for _, i := range indices {
		r := &requests[i]
		r.Target = target
		r.Seq = p.seq() + uint64(unzigzag(in.seq.next()))
		due := p.due(r.Seq) + unzigzag(in.due.next())
		p.learn(r.Seq, due)
		getOutcome(&in.outcome, &in.run, r)
		r.Backend, r.Peer = in.backend.next16(), in.peer.next16()
		if l.get(&parts); l.symbols.bad {
			return
		}
		r.DNS, r.Connect = timeline.Micros(parts[lenDNS]), timeline.Micros(parts[lenConnect])
		r.TLS, r.FirstByte = timeline.Micros(parts[lenTLS]), timeline.Micros(parts[lenFirst])
		sent := due + parts[lenLate]
		done := sent + sumOf(r.Phases) + parts[lenRest]
		r.Due, r.Sent, r.Done = micros(due), micros(sent), micros(done)
	}
}

// finished reports whether everything was taken, and nothing was missing.
func (in *columnReader) finished() bool {
	for _, c := range []*cursor{&in.seq.cursor, &in.due.cursor, &in.backend.cursor, &in.peer.cursor, &in.outcome, &in.lengths} {
		if c.bad || len(c.data) > 0 {
			return false
		}
	}
	return true
}

// putTargets also has g order the requests.
func (c *columnWriter) putTargets(requests []timeline.Request, g *grouping) {
	g.targets = g.targets[:0]
	for i := 0; i < len(requests); {
		target, start := requests[i].Target, i
		for ; i < len(requests) && requests[i].Target == target; i++ {
			g.targets = append(g.targets, target)
		}
		c.columns[colTarget] = binary.AppendUvarint(c.columns[colTarget], uint64(target))
		c.columns[colTarget] = binary.AppendUvarint(c.columns[colTarget], uint64(i-start))
	}
	g.order()
}

// sumOf is how long the phases took together, in microseconds.
func sumOf(p timeline.Phases) int64 {
	return int64(p.DNS) + int64(p.Connect) + int64(p.TLS) + int64(p.FirstByte)
}

// An outcomeRun is a stretch of requests that ended alike.
type outcomeRun struct {
	length  int
	class   timeline.Class
	code    uint16
	reused  bool
	delayed bool
}

func (run *outcomeRun) holds(r *timeline.Request) bool {
	return run.class == r.Class && run.code == r.Code && run.reused == r.Reused && run.delayed == r.Delayed
}

func (c *columnWriter) putOutcome(run *outcomeRun, r *timeline.Request) {
	if run.length > 0 && !run.holds(r) {
		c.endOutcome(run)
	}
	*run = outcomeRun{run.length + 1, r.Class, r.Code, r.Reused, r.Delayed}
}

func (c *columnWriter) endOutcome(run *outcomeRun) {
	if run.length == 0 {
		return
	}
	flags := uint64(run.class) << 2
	if run.reused {
		flags |= 1
	}
	if run.delayed {
		flags |= 2
	}
	c.columns[colOutcome] = binary.AppendUvarint(c.columns[colOutcome], uint64(run.length))
	c.columns[colOutcome] = binary.AppendUvarint(c.columns[colOutcome], flags)
	c.columns[colOutcome] = binary.AppendUvarint(c.columns[colOutcome], uint64(run.code))
	*run = outcomeRun{}
}

func getOutcome(in *cursor, run *outcomeRun, r *timeline.Request) {
	if run.length == 0 {
		length, flags, code := in.uvarint(), in.uvarint(), in.uint16()
		if flags>>2 >= uint64(timeline.NumClasses) || length == 0 || length > maxBlock {
			in.bad, length = true, 1
		}
		*run = outcomeRun{int(length), timeline.Class(flags >> 2), code, flags&1 != 0, flags&2 != 0}
	}
	run.length--
	r.Class, r.Code, r.Reused, r.Delayed = run.class, run.code, run.reused, run.delayed
}

// A predictor foretells a target's next request from its last two: requests are due at even steps.
type predictor struct {
	nextSeq uint64
	lastDue int64
	step    int64
}

func (p *predictor) seq() uint64 { return p.nextSeq }

func (p *predictor) due(seq uint64) int64 { return p.lastDue + p.step*int64(seq-p.nextSeq+1) }

func (p *predictor) learn(seq uint64, due int64) {
	if n := int64(seq - p.nextSeq + 1); n != 0 {
		p.step = (due - p.lastDue) / n
	}
	p.nextSeq, p.lastDue = seq+1, due
}

// A grouping orders requests by target and keeps its memory between blocks.
type grouping struct {
	targets []timeline.TargetID // of each request
	sorted  []int               // the requests' indices, by target and otherwise as they came
	ends    []int               // where each target's requests end in sorted
}

// read takes in the targets of n requests, and reports whether they are as many.
func (g *grouping) read(column []byte, n int) bool {
	in := cursor{data: column}
	g.targets = g.targets[:0]
	for len(g.targets) < n {
		target, run := in.target(), in.uvarint()
		if in.bad || run > uint64(n-len(g.targets)) {
			return false
		}
		for range run {
			g.targets = append(g.targets, target)
		}
	}
	g.order()
	return len(in.data) == 0
}

// order sorts by target.
func (g *grouping) order() {
	g.sorted = g.sorted[:0]
	for i := range g.targets {
		g.sorted = append(g.sorted, i)
	}
	slices.SortStableFunc(g.sorted, func(a, b int) int { return cmp.Compare(g.targets[a], g.targets[b]) })
	g.ends = g.ends[:0]
	for i := range g.sorted {
		if last := i+1 == len(g.sorted); last || g.targets[g.sorted[i+1]] != g.targets[g.sorted[i]] {
			g.ends = append(g.ends, i+1)
		}
	}
}
