package record

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"lapse/timeline"
)

// A block gathers facts until they are packed into bytes.
type block struct {
	facts    int
	head     []byte
	requests []timeline.Request
	columns  columns
	packed   []byte
	small    []byte
	zstd     *zstd.Encoder
	before   batchHead
	defs     definitions // of all blocks so far
}

// A batchHead is a batch without its requests.
type batchHead struct {
	source   timeline.SourceID
	firstSeq uint64
	size     uint64
	marks    []timeline.Watermark
}

// mark is the watermark at the same place in the batch before, from which the next one differs little.
func (h *batchHead) mark(i int) (target timeline.TargetID, due int64) {
	if i < len(h.marks) {
		return h.marks[i].Target, floorMicros(h.marks[i].Due)
	}
	return 0, 0
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
	b.facts, b.head, b.requests, b.before = 0, b.head[:0], b.requests[:0], batchHead{}
}

// A block is packed before it grows further when it has enoughRequests. One batch more may be in it.
const (
	enoughRequests = 4096
	mostRequests   = enoughRequests + mostInBatch
)

// full says that the block should be packed before it grows further.
func (b *block) full() bool { return len(b.requests) >= enoughRequests || len(b.head) >= 1<<18 }

// add takes one more fact. If it errs, the block is as it was.
func (b *block) add(fact timeline.Fact) error {
	switch batch := fact.(type) {
	case timeline.Batch:
		return b.addBatch(batch)
	case timeline.HeldBatch:
		head, err := appendHeld(append(b.head, heldFact), batch)
		if err != nil {
			return err
		}
		b.head = head
		b.facts++
		return nil
	}
	kind, text, err := encodeFact(fact)
	if err != nil {
		return err
	}
	b.addText(kind, text)
	b.defs.note(kind, text)
	return nil
}

// addText takes a fact as [encodeFact] returns it.
func (b *block) addText(kind byte, text []byte) {
	b.head = append(b.head, kind)
	b.head = appendBytes(b.head, text)
	b.facts++
}

// repeat adds the definitions that are in the file, which has length now.
func (b *block) repeat(now int64) {
	for _, d := range b.defs.facts[:b.defs.flushed] {
		b.addText(d.kind+repeated, d.text)
	}
	b.defs.repeated, b.defs.since = b.defs.flushed, now
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
	b.addHead(batchHead{batch.Source, batch.FirstSeq, uint64(len(batch.Requests)), batch.Watermarks})
	start := len(b.requests)
	b.requests = append(b.requests, batch.Requests...)
	inOrder(b.requests[start:])
	b.facts++
	return nil
}

// addHead adds the parts of a batch other than its requests, as differences to the batch before.
func (b *block) addHead(h batchHead) {
	b.head = append(b.head, batchFact)
	b.head = binary.AppendUvarint(b.head, uint64(h.source))
	b.head = appendVarint(b.head, int64(h.firstSeq-b.before.firstSeq-b.before.size))
	b.head = binary.AppendUvarint(b.head, h.size)
	b.head = binary.AppendUvarint(b.head, uint64(len(h.marks)))
	for i, w := range h.marks {
		target, due := b.before.mark(i)
		b.head = appendVarint(b.head, int64(w.Target)-int64(target))
		b.head = appendVarint(b.head, floorMicros(w.Due)-due)
	}
	marks := append(b.before.marks[:0], h.marks...)
	b.before = h
	b.before.marks = marks
}

// pack returns the block's payload, valid until the next call.
func (b *block) pack() ([]byte, error) {
	b.columns.encode(b.requests)
	b.packed = b.appendPacked(b.packed[:0], b.head)
	b.packed = binary.AppendUvarint(b.packed, uint64(len(b.requests)))
	for _, c := range b.columns {
		b.packed = b.appendPacked(b.packed, c.kept())
	}
	if most := max(len(b.packed), len(b.head)); most > maxBlock {
		return nil, fmt.Errorf("compress a block: %d bytes are too many", most)
	}
	return b.packed, nil
}

// appendPacked appends data as a zstd frame behind the frame's length, or as a length of 0 if it is empty.
func (b *block) appendPacked(dst, data []byte) []byte {
	b.small = b.small[:0]
	if len(data) > 0 {
		b.small = b.zstd.EncodeAll(data, b.small)
	}
	return appendBytes(dst, b.small)
}
