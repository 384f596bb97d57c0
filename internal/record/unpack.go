package record

import (
	"io"

	"github.com/klauspost/compress/zstd"

	"lapse/timeline"
)

// decoder reads frames for all goroutines: a guard follows the recording of each node.
var decoder = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		panic(err) // an option is wrong
	}
	return d
}()

// An unpacker reads blocks. It keeps nothing between them but its memory.
type unpacker struct {
	frame   []byte
	head    []byte
	columns columns
	reading reading
}

// reading says which facts of a block are wanted.
type reading uint8

const (
	everything reading = iota // but what is repeated
	heads                     // everything, what is repeated too; batches without their requests
	batches                   // batches alone
)

// A repeat is a fact that was recorded before.
type repeat struct{ timeline.Fact }

// A headOnly is a batch whose requests were not read, and how many they are.
type headOnly struct {
	timeline.Batch
	size uint64
}

// check returns an error if no run can have stated the fact.
func check(fact timeline.Fact) error {
	switch f := fact.(type) {
	case repeat:
		return timeline.Check(f.Fact)
	case headOnly:
		return timeline.Check(f.Batch)
	}
	return timeline.Check(fact)
}

// next reads the next block from r, whole (u.frame) and as facts. The error is one of readFrame.
func (u *unpacker) next(r io.Reader) (facts []timeline.Fact, err error) {
	if u.frame, err = readFrame(r, u.frame); err != nil {
		return nil, err
	}
	if facts, err = u.facts(u.frame[blockHead:]); err != nil {
		return nil, err
	}
	for _, fact := range facts {
		if err := check(fact); err != nil {
			return nil, &impossible{err}
		}
	}
	return facts, nil
}

// facts returns the facts of a block's payload in order. They do not point into it.
func (u *unpacker) facts(payload []byte) ([]timeline.Fact, error) {
	in := cursor{data: payload}
	var err error
	if u.head, err = u.unpack(&in, u.head[:0]); err != nil {
		return nil, err
	}
	var requests []timeline.Request
	if u.reading != heads {
		if requests, err = u.requests(&in); err != nil {
			return nil, err
		}
	}
	var facts []timeline.Fact
	var before batchHead
	for in := (cursor{data: u.head}); len(in.data) > 0; {
		fact, err := u.fact(&in, &before, &requests)
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

// unpack takes off what appendPacked appended, and appends the data of that to dst.
func (u *unpacker) unpack(in *cursor, dst []byte) ([]byte, error) {
	packed := in.bytes()
	if in.bad {
		return dst, corrupt("a block is cut short")
	}
	if len(packed) == 0 {
		return dst, nil
	}
	dst, err := decoder.DecodeAll(packed, dst)
	if err != nil {
		return dst, corrupt("%v", err)
	}
	return dst, nil
}

// requests returns a block's requests.
func (u *unpacker) requests(in *cursor) (_ []timeline.Request, err error) {
	n := in.uvarint()
	if in.bad || n > mostRequests {
		return nil, corrupt("a block of %d requests", n)
	}
	for i := range u.columns {
		u.columns[i] = u.columns[i][:0]
		if len(in.data) == 0 {
			continue // written before there was such a column
		}
		if u.columns[i], err = u.unpack(in, u.columns[i]); err != nil {
			return nil, err
		}
	}
	if len(in.data) > 0 {
		return nil, corrupt("a block's columns do not fill it")
	}
	return u.columns.decode(int(n))
}

// fact takes the next fact off the head, and a batch's requests off requests. It returns nil for one that is not
// wanted.
func (u *unpacker) fact(in *cursor, before *batchHead, requests *[]timeline.Request) (timeline.Fact, error) {
	kind := in.byte()
	switch kind {
	case batchFact:
		return u.batch(in, before, requests)
	case heldFact:
		batch, err := held(in)
		if err != nil || u.reading == batches {
			return nil, err
		}
		return batch, nil
	}
	text := in.bytes()
	if in.bad {
		return nil, corrupt("a fact is cut short")
	}
	again := kind >= 'a'
	if u.reading == batches || again && u.reading != heads {
		return nil, nil
	}
	if again {
		fact, err := decodeFact(kind-repeated, text)
		return repeat{fact}, err
	}
	return decodeFact(kind, text)
}

// batch takes a batch off the head, and its requests off requests. What is read without requests is a headOnly.
func (u *unpacker) batch(in *cursor, before *batchHead, requests *[]timeline.Request) (timeline.Fact, error) {
	h := batchHead{source: timeline.SourceID(in.uint16())}
	h.firstSeq = before.firstSeq + before.size + uint64(in.varint())
	h.size = in.uvarint()
	h.marks = watermarks(in, before)
	*before = h
	if in.bad {
		return nil, corrupt("a batch is cut short")
	}
	batch := timeline.Batch{Source: h.source, FirstSeq: h.firstSeq, Watermarks: h.marks}
	if u.reading == heads {
		return headOnly{batch, h.size}, nil
	}
	if h.size > uint64(len(*requests)) {
		return nil, corrupt("a batch of %d requests where %d are left", h.size, len(*requests))
	}
	if h.size > 0 {
		batch.Requests, *requests = (*requests)[:h.size:h.size], (*requests)[h.size:]
	}
	return batch, nil
}

func watermarks(in *cursor, before *batchHead) []timeline.Watermark {
	n := in.uvarint()
	if n > uint64(len(in.data)) {
		in.bad = true
	}
	if in.bad || n == 0 {
		return nil
	}
	marks := make([]timeline.Watermark, n)
	for i := range marks {
		target, due := before.mark(i)
		marks[i].Target = timeline.TargetID(within(in, int64(target)+in.varint(), 1<<32-1))
		marks[i].Due = micros(due + in.varint())
	}
	return marks
}
