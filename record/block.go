package record

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"lapse/timeline"
)

// What a fact in a block's head is. These bytes are part of the format.
const (
	metaFact    = 'M'
	sourceFact  = 'S'
	syncFact    = 'C'
	peerFact    = 'P'
	targetFact  = 'T'
	backendFact = 'B'
	eventFact   = 'E'
	batchFact   = 'R'
	moreFact    = 'r' // a batch that continues the one before it in the block
)

// A block gathers facts until they are packed into bytes.
type block struct {
	facts    int
	head     []byte
	requests []timeline.Request
	columns  columnWriter
	lengths  lengths
	grouping grouping
	body     []byte
	packed   []byte
	small    []byte
	zstd     *zstd.Encoder

	batches batchContext
}

// A batchContext is what the batches before tell of the next one in their block.
type batchContext struct {
	begun    bool
	source   timeline.SourceID
	targets  []timeline.TargetID // of its watermarks
	firstSeq uint64              // the next batch's, if none is lost
	size     uint64              // how many requests the last batch had
	mark     int64               // the last batch's first watermark
	step     int64               // by how much that had grown
}

// foretells reports whether a batch continues those before.
func (c *batchContext) foretells(b timeline.Batch) bool {
	return c.begun && c.source == b.Source && c.firstSeq == b.FirstSeq &&
		slices.EqualFunc(c.targets, b.Watermarks, func(t timeline.TargetID, w timeline.Watermark) bool { return t == w.Target })
}

// marks foretells a batch's watermarks one by one: the first is expected as far ahead of the last
// batch's as that was of the one before, and each other near its neighbour.
type marks struct {
	context *batchContext
	guess   int64
	begun   bool
}

func (c *batchContext) marks() marks { return marks{context: c, guess: c.mark + c.step} }

func (m *marks) learn(due int64) {
	if !m.begun {
		m.context.step = due - m.context.mark
		m.context.mark = due
	}
	m.begun, m.guess = true, due
}

func newBlock() (*block, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(1), // in the caller's goroutine
		zstd.WithEncoderCRC(false),     // the block has one
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(1<<20),
		zstd.WithLowerEncoderMem(true),
	)
	if err != nil {
		return nil, fmt.Errorf("set up zstd: %w", err)
	}
	return &block{zstd: enc}, nil
}

func (b *block) reset() {
	b.facts, b.head, b.requests, b.batches = 0, b.head[:0], b.requests[:0], batchContext{}
}

// A block is packed before it grows further when it has enoughRequests. One batch more may be in it.
const (
	enoughRequests = 4096
	mostInBatch    = 1 << 18
	mostRequests   = enoughRequests + mostInBatch
)

// full says that the block should be packed before it grows further.
func (b *block) full() bool { return len(b.requests) >= enoughRequests || len(b.head) >= 1<<18 }

// add takes one more fact. If it errs, the block is as it was.
func (b *block) add(fact timeline.Fact) error {
	switch f := fact.(type) {
	case timeline.Batch:
		return b.addBatch(f)
	case timeline.Meta:
		return b.addJSON(metaFact, f)
	case timeline.Source:
		return b.addJSON(sourceFact, f)
	case timeline.Sync:
		return b.addJSON(syncFact, f)
	case timeline.Peer:
		return b.addJSON(peerFact, f)
	case timeline.Target:
		return b.addJSON(targetFact, f)
	case timeline.Backend:
		return b.addJSON(backendFact, f)
	case timeline.Event:
		return b.addJSON(eventFact, f)
	}
	return fmt.Errorf("record a %T: not a fact", fact)
}

func (b *block) addJSON(kind byte, fact timeline.Fact) error {
	text, err := json.Marshal(fact)
	if err != nil {
		return fmt.Errorf("record a %T: %w", fact, err)
	}
	if len(text) > maxBlock/4 {
		return fmt.Errorf("record a %T: %d bytes are too many", fact, len(text))
	}
	b.head = append(b.head, kind)
	b.head = appendBytes(b.head, text)
	b.facts++
	return nil
}

func (b *block) addBatch(batch timeline.Batch) error {
	if len(batch.Requests) > mostInBatch || len(batch.Watermarks) > mostInBatch {
		return fmt.Errorf("record a batch of %d requests: at most %d", len(batch.Requests), mostInBatch)
	}
	for i := range batch.Requests {
		if batch.Requests[i].Class >= timeline.NumClasses {
			return fmt.Errorf("record a request: %v is no class", batch.Requests[i].Class)
		}
	}
	if b.batches.foretells(batch) {
		b.head = append(b.head, moreFact)
	} else {
		b.addShape(batch)
	}
	size := uint64(len(batch.Requests))
	b.head = appendVarint(b.head, int64(size-b.batches.size))
	b.batches.firstSeq, b.batches.size = batch.FirstSeq+size, size
	marks := b.batches.marks()
	for _, w := range batch.Watermarks {
		due := floorMicros(w.Due)
		b.head = appendVarint(b.head, due-marks.guess)
		marks.learn(due)
	}
	b.addRequests(batch.Requests)
	b.facts++
	return nil
}

// addShape adds what a batch does not share with the one before.
func (b *block) addShape(batch timeline.Batch) {
	c := &b.batches
	b.head = append(b.head, batchFact)
	b.head = binary.AppendUvarint(b.head, uint64(batch.Source))
	b.head = appendVarint(b.head, int64(batch.FirstSeq-c.firstSeq))
	b.head = binary.AppendUvarint(b.head, uint64(len(batch.Watermarks)))
	c.begun, c.source, c.targets = true, batch.Source, c.targets[:0]
	for _, w := range batch.Watermarks {
		b.head = binary.AppendUvarint(b.head, uint64(w.Target))
		c.targets = append(c.targets, w.Target)
	}
}

// addRequests adds a batch's requests in the order of target and Seq.
func (b *block) addRequests(requests []timeline.Request) {
	start := len(b.requests)
	b.requests = append(b.requests, requests...)
	bySeq := func(x, y timeline.Request) int {
		return cmp.Or(cmp.Compare(x.Target, y.Target), cmp.Compare(x.Seq, y.Seq))
	}
	if added := b.requests[start:]; !slices.IsSortedFunc(added, bySeq) {
		slices.SortStableFunc(added, bySeq)
	}
}

// pack returns the block's payload, valid until the next call.
func (b *block) pack() ([]byte, error) {
	b.columns.reset()
	b.lengths.reset()
	b.columns.encode(&b.lengths, b.requests, &b.grouping)
	b.body = binary.AppendUvarint(b.body[:0], uint64(len(b.head)))
	for _, c := range b.columns.columns {
		b.body = binary.AppendUvarint(b.body, uint64(len(c)))
	}
	b.body = append(b.body, b.head...)
	for _, c := range b.columns.columns {
		b.body = append(b.body, c...)
	}
	b.packed = b.appendBody(b.packed[:0])
	b.packed = binary.AppendUvarint(b.packed, uint64(len(b.requests)))
	if len(b.requests) > 0 {
		b.packed = b.lengths.appendTo(b.packed)
	}
	if max(len(b.packed), len(b.body)) > maxBlock {
		return nil, fmt.Errorf("compress a block: %d bytes are too many", max(len(b.packed), len(b.body)))
	}
	return b.packed, nil
}

// appendBody appends the body to dst as it is or compressed, whichever is smaller.
func (b *block) appendBody(dst []byte) []byte {
	b.small = b.zstd.EncodeAll(b.body, b.small[:0])
	if len(b.small) < len(b.body) {
		dst = binary.AppendUvarint(dst, uint64(len(b.small))<<1|1)
		return append(dst, b.small...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.body))<<1)
	return append(dst, b.body...)
}

// An unpacker reads blocks and keeps its memory between them.
type unpacker struct {
	zstd     *zstd.Decoder
	body     []byte
	lengths  lengthReader
	grouping grouping
	batches  batchContext
	only     func(kind byte) bool // which facts are wanted; nil: all
}

func newUnpacker() (*unpacker, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		return nil, fmt.Errorf("set up zstd: %w", err)
	}
	return &unpacker{zstd: dec}, nil
}

func (u *unpacker) close() { u.zstd.Close() }

// facts returns the facts of a block's payload in order. They do not point into it.
func (u *unpacker) facts(payload []byte) ([]timeline.Fact, error) {
	in := cursor{data: payload}
	body, err := u.takeBody(&in)
	if err != nil {
		return nil, err
	}
	head, cols, err := split(body)
	if err != nil {
		return nil, err
	}
	var requests []timeline.Request
	if u.wants(batchFact) {
		if requests, err = u.requests(&in, &cols); err != nil {
			return nil, err
		}
	}
	u.batches = batchContext{}
	var facts []timeline.Fact
	for in := (cursor{data: head}); len(in.data) > 0; {
		fact, err := u.fact(&in, &requests)
		if err != nil {
			return nil, err
		}
		if fact != nil {
			facts = append(facts, fact)
		}
	}
	if len(requests) > 0 {
		return nil, corrupt("%d requests belong to no batch", len(requests))
	}
	return facts, nil
}

// takeBody takes off what appendBody appended.
func (u *unpacker) takeBody(in *cursor) (body []byte, err error) {
	size := in.uvarint()
	body = in.take(size >> 1)
	if in.bad {
		return nil, corrupt("a block's body is cut short")
	}
	if size&1 == 0 {
		return body, nil
	}
	if u.body, err = u.zstd.DecodeAll(body, u.body[:0]); err != nil {
		return nil, corrupt("%v", err)
	}
	return u.body, nil
}

// requests returns the block's requests, of which in holds the lengths.
func (u *unpacker) requests(in *cursor, cols *columns) ([]timeline.Request, error) {
	n := in.uvarint()
	if in.bad || n > mostRequests {
		return nil, corrupt("a block of %d requests", n)
	}
	if !u.grouping.read(cols[colTarget], int(n)) {
		return nil, corrupt("its targets are not those of %d requests", n)
	}
	if n == 0 {
		return nil, nil
	}
	if err := u.lengths.open(in); err != nil {
		return nil, err
	}
	requests, err := cols.decode(&u.lengths, &u.grouping)
	if err != nil {
		return nil, err
	}
	return requests, u.lengths.close()
}

func (u *unpacker) wants(kind byte) bool { return u.only == nil || u.only(kind) }

// split takes a block's body apart.
func split(body []byte) (head []byte, cols columns, err error) {
	in := cursor{data: body}
	size := in.uvarint()
	var sizes [numColumns]uint64
	for i := range sizes {
		sizes[i] = in.uvarint()
	}
	head = in.take(size)
	for i := range cols {
		cols[i] = in.take(sizes[i])
	}
	if in.bad || len(in.data) > 0 {
		return nil, cols, corrupt("a block's columns do not fill it")
	}
	return head, cols, nil
}

// fact takes the next fact off the head, and a batch's requests off requests. It returns nil for one
// that is not wanted.
func (u *unpacker) fact(in *cursor, requests *[]timeline.Request) (timeline.Fact, error) {
	kind := in.byte()
	if kind == batchFact || kind == moreFact {
		return u.batch(in, kind, requests)
	}
	text := in.bytes()
	if in.bad {
		return nil, corrupt("a fact is cut short")
	}
	if !u.wants(kind) {
		return nil, nil
	}
	switch kind {
	case metaFact:
		return parse[timeline.Meta](text)
	case sourceFact:
		return parse[timeline.Source](text)
	case syncFact:
		return parse[timeline.Sync](text)
	case peerFact:
		return parse[timeline.Peer](text)
	case targetFact:
		return parse[timeline.Target](text)
	case backendFact:
		return parse[timeline.Backend](text)
	case eventFact:
		return parse[timeline.Event](text)
	}
	return nil, corrupt("a fact of unknown kind %q", kind)
}

func parse[T timeline.Fact](text []byte) (timeline.Fact, error) {
	var fact T
	if err := json.Unmarshal(text, &fact); err != nil {
		return nil, corrupt("a %T: %v", fact, err)
	}
	return fact, nil
}

func (u *unpacker) batch(in *cursor, kind byte, requests *[]timeline.Request) (timeline.Fact, error) {
	if kind == batchFact {
		u.shape(in)
	}
	c := &u.batches
	batch := timeline.Batch{Source: c.source, FirstSeq: c.firstSeq}
	n := c.size + uint64(in.varint())
	c.firstSeq, c.size = batch.FirstSeq+n, n
	batch.Watermarks = u.watermarks(in)
	if in.bad {
		return nil, corrupt("a batch is cut short")
	}
	if !u.wants(batchFact) {
		return nil, nil
	}
	if n > uint64(len(*requests)) {
		return nil, corrupt("a batch of %d requests where %d are left", n, len(*requests))
	}
	if n > 0 {
		batch.Requests, *requests = (*requests)[:n:n], (*requests)[n:]
	}
	return batch, nil
}

// shape takes off what a batch does not share with the one before.
func (u *unpacker) shape(in *cursor) {
	c := &u.batches
	c.source = timeline.SourceID(in.uint16())
	c.firstSeq += uint64(in.varint())
	c.targets = c.targets[:0]
	n := in.uvarint()
	for i := uint64(0); i < n && !in.bad; i++ {
		c.targets = append(c.targets, in.target())
	}
}

func (u *unpacker) watermarks(in *cursor) []timeline.Watermark {
	targets := u.batches.targets
	if len(targets) > len(in.data) {
		in.bad = true
	}
	if in.bad || len(targets) == 0 {
		return nil
	}
	watermarks := make([]timeline.Watermark, len(targets))
	marks := u.batches.marks()
	for i, target := range targets {
		due := marks.guess + in.varint()
		marks.learn(due)
		watermarks[i] = timeline.Watermark{Target: target, Due: micros(due)}
	}
	return watermarks
}
