package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// magic opens every recording. Like PNG's it holds an end-of-file byte, so that printing the file
// stops there, and a newline, so that a transfer as text is noticed. The last byte is the version.
const (
	magic      = "LAPSE\x1a\n"
	version    = 5
	headerSize = len(magic) + 1
	mark       = "\xd7LB\n" // begins every block
	blockHead  = 16         // mark, length, crc, check
	maxBlock   = 64 << 20   // bytes of a block's payload, packed or unpacked: a guard, not a target
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// firstKept is the first format that every later Lapse reads.
const firstKept = 5

func header() []byte { return append([]byte(magic), version) }

// appendFrame adds one block around payload to dst.
func appendFrame(dst, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, mark...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, payload...)
}

// readHeader reads and checks the first bytes of a recording. A stream that ends inside an otherwise
// right header is truncated; one that begins otherwise is no recording.
func readHeader(r io.Reader) error {
	var buf [headerSize]byte
	n, err := io.ReadFull(r, buf[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read recording: %w", err)
	}
	if !bytes.HasPrefix([]byte(magic), buf[:min(n, len(magic))]) {
		return errNotRecording
	}
	if n < headerSize {
		return ErrTruncated
	}
	if v := buf[len(magic)]; v > version {
		return fmt.Errorf("%w (format %d, this one reads %d)", errNewer, v, version)
	} else if v == 0 {
		return errNotRecording
	} else if v < firstKept {
		return fmt.Errorf("%w (format %d, this one reads %d and later)", errOlder, v, firstKept)
	}
	return nil
}

// readFrame reads the next block from r and returns it whole, header and payload, in buf if it fits.
// The error is io.EOF at the recording's end, ErrTruncated inside a block, ErrCorrupt, or the reader's.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	buf = resize(buf, blockHead)
	if _, err := io.ReadFull(r, buf); err == io.EOF {
		return nil, io.EOF
	} else if err != nil {
		return nil, readError(err)
	}
	size, ok := payloadSize(buf)
	if !ok {
		return nil, corrupt("a block's header fails its checksum")
	}
	buf, err := readMore(r, buf, size)
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(buf[blockHead:], castagnoli) != binary.LittleEndian.Uint32(buf[len(mark)+4:]) {
		return nil, corrupt("a block fails its checksum")
	}
	return buf, nil
}

// payloadSize reads a block's header. It reports whether that is intact.
func payloadSize(head []byte) (size int, ok bool) {
	const check = blockHead - 4
	sum := binary.LittleEndian.Uint32(head[check:])
	if string(head[:len(mark)]) != mark || crc32.Checksum(head[:check], castagnoli) != sum {
		return 0, false
	}
	n := binary.LittleEndian.Uint32(head[len(mark):])
	return int(n), n <= maxBlock
}

// readMore appends n bytes from r to buf. It allocates no more than arrives, times two, so that a
// stream that promises much and ends costs little.
func readMore(r io.Reader, buf []byte, n int) ([]byte, error) {
	const step = 1 << 20
	for n > 0 {
		m := min(n, max(step, len(buf)))
		old := len(buf)
		buf = resize(buf, old+m)
		if _, err := io.ReadFull(r, buf[old:]); err != nil {
			return nil, readError(err)
		}
		n -= m
	}
	return buf, nil
}

// readError is ErrTruncated for a stream that ended inside a block, and wraps any other error.
func readError(err error) error {
	if errors.Is(err, io.EOF) || err == io.ErrUnexpectedEOF {
		return ErrTruncated
	}
	return fmt.Errorf("read recording: %w", err)
}

// resize returns buf with length n, keeping what it holds.
func resize(buf []byte, n int) []byte {
	if n <= cap(buf) {
		return buf[:n]
	}
	grown := make([]byte, n, n+n/2)
	copy(grown, buf)
	return grown
}
