package record

import (
	"encoding/binary"
	"fmt"

	"lapse/timeline"
)

// The columns of a batch of held changes. Each has one varint per change, in the order of the batch, as they are
// numbered in it. Their order is part of the format: a new column comes last, and its zero means what was recorded
// before there was one.
//
// Instants are whole microseconds: From is rounded down, the others up.
const (
	heldTarget   = iota // the target's ID − that of the change before
	heldConn            // Conn − that of the change before
	heldKind            // Kind × 4, and 1 more if Warned, 2 if Stopped
	heldClass           // Class
	heldAt              // At − that of the change before
	heldFrom            // At − From
	heldAnswered        // 0 for none, else At − Answered + 1
	heldBackend         // Backend
	heldPeer            // Peer − that of the change before
	numHeldColumns
)

// mostInBatch is how many requests or held changes a batch may have.
const mostInBatch = 1 << 18

// appendHeld appends a batch of held changes: its source, FirstSeq and length, then each column behind its size. If
// it errs, dst is as it was.
func appendHeld(dst []byte, batch timeline.HeldBatch) ([]byte, error) {
	if len(batch.Changes) > mostInBatch {
		return dst, fmt.Errorf("record %d held changes at once: at most %d", len(batch.Changes), mostInBatch)
	}
	var columns [numHeldColumns]column
	var before timeline.HeldChange
	for _, c := range batch.Changes {
		if c.Class >= timeline.NumClasses || c.Kind >= timeline.NumHeldKinds {
			return dst, fmt.Errorf("record a held change: %v, %v is no kind and class", c.Kind, c.Class)
		}
		at := ceilMicros(c.At)
		columns[heldTarget].put(int64(c.Target) - int64(before.Target))
		columns[heldConn].put(int64(c.Conn) - int64(before.Conn))
		columns[heldKind].putU(kindAndFlags(c))
		columns[heldClass].putU(uint64(c.Class))
		columns[heldAt].put(at - ceilMicros(before.At))
		columns[heldFrom].put(at - floorMicros(c.From))
		columns[heldAnswered].putU(answeredBefore(at, c))
		columns[heldBackend].putU(uint64(c.Backend))
		columns[heldPeer].put(int64(c.Peer) - int64(before.Peer))
		before = c
	}
	dst = binary.AppendUvarint(dst, uint64(batch.Source))
	dst = binary.AppendUvarint(dst, batch.FirstSeq)
	dst = binary.AppendUvarint(dst, uint64(len(batch.Changes)))
	for _, c := range columns {
		dst = appendBytes(dst, c.kept())
	}
	return dst, nil
}

func kindAndFlags(c timeline.HeldChange) uint64 {
	v := uint64(c.Kind) << 2
	if c.Warned {
		v |= 1
	}
	if c.Stopped {
		v |= 2
	}
	return v
}

// answeredBefore is how long before at the last answer was read, and a microsecond more; 0 where there is none.
func answeredBefore(at int64, c timeline.HeldChange) uint64 {
	if c.Answered == 0 {
		return 0
	}
	return uint64(max(0, at-ceilMicros(c.Answered))) + 1
}

// held takes a batch of held changes off the head.
func held(in *cursor) (timeline.HeldBatch, error) {
	batch := timeline.HeldBatch{Source: timeline.SourceID(in.uint16()), FirstSeq: in.uvarint()}
	n := in.uvarint()
	if in.bad || n > mostInBatch {
		return batch, corrupt("a batch of %d held changes", n)
	}
	var columns [numHeldColumns]cursor
	for i := range columns {
		c := column(in.bytes())
		columns[i] = c.open(int(n))
	}
	if in.bad {
		return batch, corrupt("a batch of held changes is cut short")
	}
	if n > 0 {
		batch.Changes = make([]timeline.HeldChange, n)
	}
	var before timeline.HeldChange
	for i := range batch.Changes {
		batch.Changes[i] = heldChange(&columns, before)
		before = batch.Changes[i]
	}
	if !fit(columns[:]) {
		return batch, corrupt("the columns of a batch of held changes do not fit each other")
	}
	return batch, nil
}

func heldChange(in *[numHeldColumns]cursor, before timeline.HeldChange) timeline.HeldChange {
	c := timeline.HeldChange{
		Target: timeline.TargetID(within(&in[heldTarget], int64(before.Target)+in[heldTarget].varint(), 1<<32-1)),
		Conn:   uint32(within(&in[heldConn], int64(before.Conn)+in[heldConn].varint(), 1<<32-1)),
	}
	kind, class := in[heldKind].uvarint(), in[heldClass].uvarint()
	if kind>>2 >= uint64(timeline.NumHeldKinds) || class >= uint64(timeline.NumClasses) {
		in[heldKind].bad, kind, class = true, 0, 0
	}
	c.Kind, c.Warned, c.Stopped, c.Class = timeline.HeldKind(kind>>2), kind&1 != 0, kind&2 != 0, timeline.Class(class)
	at := ceilMicros(before.At) + in[heldAt].varint()
	c.At, c.From = micros(at), micros(at-in[heldFrom].varint())
	if ago := in[heldAnswered].uvarint(); ago > 0 {
		c.Answered = micros(at - int64(ago-1))
	}
	c.Backend = in[heldBackend].uint16()
	c.Peer = uint16(within(&in[heldPeer], int64(before.Peer)+in[heldPeer].varint(), 1<<16-1))
	return c
}
