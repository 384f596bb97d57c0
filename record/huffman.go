package record

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/huff0"
)

// How a column of symbols is packed. These bytes are part of the format.
const (
	packedRaw     = 0 // as they are
	packedSame    = 1 // one symbol, which all are
	packedHuffman = 2 // length, then a table and the code words, as zstd has them
)

// A huffman packs columns of symbols, and keeps its memory between them.
type huffman struct{ scratch huff0.Scratch }

// pack appends the packed symbols to dst, each part with a code of its own.
func (h *huffman) pack(dst, symbols []byte, parts []int) []byte {
	start := 0
	for _, end := range parts {
		dst = h.packPart(dst, symbols[start:end])
		start = end
	}
	return dst
}

// packPart packs symbols, of which there is at least one.
func (h *huffman) packPart(dst, symbols []byte) []byte {
	h.scratch.Reuse = huff0.ReusePolicyNone
	out, _, err := huff0.Compress1X(symbols, &h.scratch)
	switch {
	case err == nil:
		dst = append(dst, packedHuffman)
		dst = binary.AppendUvarint(dst, uint64(len(out)))
		return append(dst, out...)
	case errors.Is(err, huff0.ErrUseRLE):
		return append(dst, packedSame, symbols[0])
	}
	return append(append(dst, packedRaw), symbols...) // too few or too many, or evenly spread
}

// unpack takes a column of symbols off in, the parts of which end at parts. It reuses buf.
func (h *huffman) unpack(in *cursor, buf []byte, parts []int) ([]byte, error) {
	if len(parts) == 0 {
		return buf[:0], nil
	}
	buf = resize(buf, parts[len(parts)-1])
	start := 0
	for _, end := range parts {
		if err := h.unpackPart(in, buf[start:end:end]); err != nil {
			return nil, err
		}
		start = end
	}
	return buf, nil
}

// unpackPart fills buf.
func (h *huffman) unpackPart(in *cursor, buf []byte) error {
	switch how := in.byte(); how {
	case packedRaw:
		copy(buf, in.take(uint64(len(buf))))
	case packedSame:
		s := in.byte()
		for i := range buf {
			buf[i] = s
		}
	case packedHuffman:
		return h.decode(in.bytes(), buf)
	default:
		in.bad = true
	}
	if in.bad {
		return corrupt("a column is cut short")
	}
	return nil
}

// decode fills buf from a table and code words.
func (h *huffman) decode(data, buf []byte) error {
	scratch, data, err := huff0.ReadTable(data, &h.scratch)
	if err != nil {
		return corrupt("a column's code: %v", err)
	}
	out, err := scratch.Decoder().Decompress1X(buf[:0], data)
	if err != nil || len(out) != len(buf) {
		return corrupt("a column does not hold %d requests: %v", len(buf), err)
	}
	return nil
}
