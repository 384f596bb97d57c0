package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"lapse/timeline"
)

// What a fact in a block's head is. These bytes are part of the format.
const (
	metaFact    = 'M'
	targetFact  = 'T'
	backendFact = 'B'
	eventFact   = 'E'
	batchFact   = 'R'
)

// A block gathers facts until they are packed into bytes.
type block struct {
	facts    int
	head     []byte
	requests []timeline.Request
	columns  columns
	grouping grouping
	body     []byte
	packed   bytes.Buffer
	zstd     *zstd.Encoder
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
	b.facts, b.head, b.requests = 0, b.head[:0], b.requests[:0]
}

// full says that the block should be packed before it grows further.
func (b *block) full() bool { return len(b.requests) >= 4096 || len(b.head) >= 1<<18 }

// add takes one more fact. If it errs, the block is as it was.
func (b *block) add(fact timeline.Fact) error {
	switch f := fact.(type) {
	case timeline.Batch:
		return b.addBatch(f)
	case timeline.Meta:
		return b.addJSON(metaFact, f)
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
	const most = maxBlock / 256
	if len(batch.Requests) > most || len(batch.Watermarks) > most {
		return fmt.Errorf("record a batch of %d requests: at most %d", len(batch.Requests), most)
	}
	for i := range batch.Requests {
		if batch.Requests[i].Class >= timeline.NumClasses {
			return fmt.Errorf("record a request: %v is no class", batch.Requests[i].Class)
		}
	}
	b.head = append(b.head, batchFact)
	b.head = appendBytes(b.head, batch.Source)
	b.head = binary.AppendUvarint(b.head, batch.FirstSeq)
	b.head = binary.AppendUvarint(b.head, uint64(len(batch.Requests)))
	b.head = binary.AppendUvarint(b.head, uint64(len(batch.Watermarks)))
	var last int64
	for _, w := range batch.Watermarks {
		due := floorMicros(w.Due)
		b.head = binary.AppendUvarint(b.head, uint64(w.Target))
		b.head = appendVarint(b.head, due-last)
		last = due
	}
	b.requests = append(b.requests, batch.Requests...)
	b.facts++
	return nil
}

// pack returns the block's payload, valid until the next call.
func (b *block) pack() ([]byte, error) {
	b.columns.reset()
	b.columns.encode(b.requests, &b.grouping)
	b.body = binary.AppendUvarint(b.body[:0], uint64(len(b.head)))
	for _, c := range b.columns {
		b.body = binary.AppendUvarint(b.body, uint64(len(c)))
	}
	b.body = append(b.body, b.head...)
	b.packed.Reset()
	b.zstd.Reset(&b.packed)
	if err := b.compress(b.body); err != nil {
		return nil, err
	}
	for _, c := range b.columns {
		if err := b.compress(c); err != nil {
			return nil, err
		}
	}
	if err := b.zstd.Close(); err != nil {
		return nil, fmt.Errorf("compress a block: %w", err)
	}
	if b.packed.Len() > maxBlock {
		return nil, fmt.Errorf("compress a block: %d bytes are too many", b.packed.Len())
	}
	return b.packed.Bytes(), nil
}

// compress adds a column to the zstd frame, as a block with an entropy code of its own.
func (b *block) compress(column []byte) error {
	if len(column) == 0 {
		return nil
	}
	if _, err := b.zstd.Write(column); err != nil {
		return fmt.Errorf("compress a block: %w", err)
	}
	if err := b.zstd.Flush(); err != nil {
		return fmt.Errorf("compress a block: %w", err)
	}
	return nil
}

// An unpacker reads blocks and keeps its memory between them.
type unpacker struct {
	zstd     *zstd.Decoder
	body     []byte
	grouping grouping
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
	body, err := u.zstd.DecodeAll(payload, u.body[:0])
	if err != nil {
		return nil, corrupt("%v", err)
	}
	u.body = body
	head, cols, err := split(body)
	if err != nil {
		return nil, err
	}
	var requests []timeline.Request
	if u.wants(batchFact) {
		if requests, err = cols.decode(&u.grouping); err != nil {
			return nil, err
		}
	}
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
	if kind == batchFact {
		return u.batch(in, requests)
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

func (u *unpacker) batch(in *cursor, requests *[]timeline.Request) (timeline.Fact, error) {
	batch := timeline.Batch{Source: string(in.bytes()), FirstSeq: in.uvarint()}
	n, marks := in.uvarint(), in.uvarint()
	if in.bad || marks > uint64(len(in.data)) {
		return nil, corrupt("a batch is cut short")
	}
	if marks > 0 {
		batch.Watermarks = make([]timeline.Watermark, marks)
	}
	var last int64
	for i := range batch.Watermarks {
		target := in.uint16()
		last += in.varint()
		batch.Watermarks[i] = timeline.Watermark{Target: target, Due: micros(last)}
	}
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
