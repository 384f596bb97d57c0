package record

import (
	"encoding/binary"
	"time"
)

// A cursor takes values off the front of data. Once something was missing, bad is set and every
// further value is zero, so that a reader checks once, at its end.
type cursor struct {
	data []byte
	bad  bool
}

func (c *cursor) uvarint() uint64 {
	if len(c.data) > 0 && c.data[0] < 0x80 { // the usual case, quickly
		v := c.data[0]
		c.data = c.data[1:]
		return uint64(v)
	}
	return c.longUvarint()
}

func (c *cursor) longUvarint() uint64 {
	v, n := binary.Uvarint(c.data)
	if n <= 0 {
		c.bad, c.data = true, nil
		return 0
	}
	c.data = c.data[n:]
	return v
}

func (c *cursor) varint() int64 { return unzigzag(c.uvarint()) }

// uint16 takes a uvarint that must fit into 16 bits.
func (c *cursor) uint16() uint16 {
	v := c.uvarint()
	if v > 1<<16-1 {
		c.bad = true
	}
	return uint16(v)
}

// bytes takes a length and as many bytes.
func (c *cursor) bytes() []byte { return c.take(c.uvarint()) }

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.data)) {
		c.bad, c.data = true, nil
		return nil
	}
	b := c.data[:n:n] // whoever appends to it leaves the rest alone
	c.data = c.data[n:]
	return b
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func appendVarint(dst []byte, v int64) []byte { return binary.AppendUvarint(dst, zigzag(v)) }

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// zigzag maps small numbers of either sign to small ones without: 0, -1, 1, -2 → 0, 1, 2, 3.
func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// floorMicros and ceilMicros are d in whole microseconds, rounded towards the past and the future.
func floorMicros(d time.Duration) int64 {
	q := int64(d / time.Microsecond)
	if d%time.Microsecond < 0 {
		q--
	}
	return q
}

func ceilMicros(d time.Duration) int64 { return -floorMicros(-d) }

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
