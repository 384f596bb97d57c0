package record

import (
	"encoding/binary"

	"lapse/timeline"
)

// A column has a varint for each of many values.
type column []byte

// put appends a value that may be negative.
func (c *column) put(v int64) { *c = appendVarint(*c, v) }

// putU appends a value that is not negative.
func (c *column) putU(v uint64) { *c = binary.AppendUvarint(*c, v) }

// kept is the column as it is in a recording: empty if it has only zeros.
func (c column) kept() []byte {
	for _, v := range c {
		if v != 0 {
			return c
		}
	}
	return nil
}

// open returns a cursor over the n values of a column as it is in a recording.
func (c *column) open(n int) cursor {
	if len(*c) == 0 {
		*c = resize(*c, n)
		clear(*c)
	}
	return cursor{data: *c}
}

// fit reports whether all columns were read to their ends, and no further.
func fit(columns []cursor) bool {
	for i := range columns {
		if columns[i].bad || len(columns[i].data) > 0 {
			return false
		}
	}
	return true
}

// within returns v if it is from 0 to most. If not, it marks the column as bad.
func within(column *cursor, v, most int64) int64 {
	if v < 0 || v > most {
		column.bad = true
		return 0
	}
	return v
}

func micros32(column *cursor) timeline.Micros {
	return timeline.Micros(within(column, int64(min(column.uvarint(), 1<<62)), 1<<32-1))
}
