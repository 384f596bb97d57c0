package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"unicode/utf8"

	"golang.org/x/net/http2"

	"lapse/loadgen/internal/wire"
)

// This file reads replies by the rules of RFC 9112, and agrees with net/http about which bytes are a
// whole reply, and where it ends; a fuzz test holds it to that. Only versions other than 1.x, status codes
// below 100 and header lines longer than 256 KiB, which net/http takes, are no replies to us.

const (
	headerLimit   = 10 << 20  // bytes in status lines and headers of one reply, interim ones included: as in net/http
	lineLimit     = 256 << 10 // bytes in one of their lines, which is held in memory whole
	searchedBytes = 1 << 20   // ExpectBody is looked for in the first bytes of the body, as many as these

	http2FrameHeader = 9 // bytes (RFC 9113, section 4.1)
)

// wanted is what to look for in a reply.
type wanted struct {
	head          bool   // the request was a HEAD: no body follows
	backendHeader string // in lower case; "" for none
	body          []byte // a part of the body; empty for any body
	kind          bool   // note the content-type
}

// read reads the next reply, and skips interim ones (100 Continue, 103 Early Hints). Errors are
// errMalformed, errTruncated, io.EOF where the reply did not begin or its header is incomplete, or
// the connection's own.
func (r *Reply) read(br *bufio.Reader, want *wanted) error {
	in := replyReader{br: br, want: want, reply: r, budget: headerLimit}
	if err := in.finalHeader(); err != nil {
		return err
	}
	err := in.body()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wire.ErrTruncated
	}
	return err
}

// finalHeader reads up to the body, and skips interim replies.
func (in *replyReader) finalHeader() error {
	r := in.reply
	for {
		r.reset()
		in.fields = fields{length: -1}
		if err := in.header(); err != nil {
			return err
		}
		if r.Status < 100 || r.Status > 199 || r.Status == 101 {
			break
		}
	}
	r.InBody = true
	r.bodyAsExpected = len(in.want.body) == 0
	return nil
}

// A replyReader is the state of reading one reply.
type replyReader struct {
	br     *bufio.Reader
	want   *wanted
	reply  *Reply
	budget int    // bytes that header lines may still take
	long   []byte // a line put together from several pieces
	finder
	fields
}

// fields are the parts of a header that decide how the body is framed.
type fields struct {
	oldest     bool   // HTTP/1.0
	length     int64  // Content-Length; -1 if there is none
	digits     int    // how many it was written with
	encodings  int    // how many Transfer-Encoding fields there are
	chunked    bool   // the last of them is "chunked"
	close      bool   // Connection: close
	keepAlive  bool   // Connection: keep-alive
	badTrailer bool   // Trailer names a field that must not be one
	kind       string // of the body, if that is to be noted
}

func (in *replyReader) header() error {
	line, err := in.line()
	if err != nil {
		return err
	}
	if err := in.statusLine(line); err != nil {
		return err
	}
	if err := in.headerFields(in.field); err != nil {
		return err
	}
	return in.framing()
}

// line reads up to the next LF and returns what stands before it, and before the CR in front of it. The
// bytes are valid until the next read.
func (in *replyReader) line() ([]byte, error) {
	line, err := in.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = in.longLine(line)
	}
	if err != nil {
		return nil, inHTTP2(line, err)
	}
	if in.budget -= len(line); in.budget < 0 {
		return nil, wire.Malformed("header too large")
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// inHTTP2 returns the error of a line that did not end. A server that speaks HTTP/2 alone sends SETTINGS, and then
// waits or leaves.
func inHTTP2(line []byte, err error) error {
	if len(line) >= http2FrameHeader && line[0] == 0 && http2.FrameType(line[3]) == http2.FrameSettings &&
		bytes.Count(line[4:http2FrameHeader], []byte{0}) == 5 {
		return wire.Malformed("it begins with SETTINGS: the server speaks HTTP/2 alone, as in h2c:// and grpc://")
	}
	return err
}

func (in *replyReader) longLine(start []byte) ([]byte, error) {
	in.long = append(in.long[:0], start...)
	for {
		more, err := in.br.ReadSlice('\n')
		in.long = append(in.long, more...)
		if err != bufio.ErrBufferFull {
			return in.long, err
		}
		if len(in.long) > min(in.budget, lineLimit) {
			return nil, wire.Malformed("header too large")
		}
	}
}

// statusLine reads "HTTP/1.1 200 OK".
func (in *replyReader) statusLine(line []byte) error {
	version, rest, found := bytes.Cut(line, []byte(" "))
	if !found || len(version) != len("HTTP/1.1") || string(version[:7]) != "HTTP/1." || !isDigit(version[7]) {
		return wire.Malformed("no HTTP/1 status line")
	}
	in.oldest = version[7] == '0'
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	var ok bool
	if in.reply.Status, ok = statusCode(code); !ok {
		return wire.Malformed("no status code")
	}
	return nil
}

func statusCode(text []byte) (code int, ok bool) {
	if len(text) != 3 {
		return 0, false
	}
	for _, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		code = 10*code + int(c-'0')
	}
	return code, code >= 100
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// headerFields reads fields up to and including the empty line, and gives each to take.
func (in *replyReader) headerFields(take func(name, value []byte) error) error {
	if first, err := in.br.Peek(1); err == nil && isBlank(first[0]) {
		return wire.Malformed("header begins with a blank")
	}
	for {
		line, err := in.foldedLine()
		if err != nil || len(line) == 0 {
			return err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !validName(name) || !validValue(value) {
			return wire.Malformed("bad header field")
		}
		if err := take(name, bytes.TrimLeft(value, " \t")); err != nil {
			return err
		}
	}
}

// foldedLine reads a line and the lines that continue it, which begin with a blank (RFC 9112,
// section 5.2: obsolete, but replaced by a blank where it occurs).
func (in *replyReader) foldedLine() ([]byte, error) {
	line, err := in.line()
	if err != nil || len(line) == 0 {
		return nil, err
	}
	if bytes.IndexByte(line, ':') < 0 {
		return nil, wire.Malformed("header field without a colon")
	}
	if in.br.Buffered() > 0 {
		if next, _ := in.br.Peek(1); !isBlank(next[0]) {
			return trimBlanks(line), nil
		}
	}
	return in.unfold(bytes.Clone(trimBlanks(line)))
}

func (in *replyReader) unfold(line []byte) ([]byte, error) {
	for {
		next, err := in.br.Peek(1)
		if err != nil {
			return nil, err
		}
		if !isBlank(next[0]) {
			return line, nil
		}
		more, err := in.line()
		if err != nil {
			return nil, err
		}
		line = append(append(line, ' '), trimBlanks(more)...)
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func trimBlanks(text []byte) []byte { return bytes.Trim(text, " \t") }

func validName(name []byte) bool {
	for _, c := range name {
		// net/http tolerates blanks in a name, but knows no such field.
		if c != ' ' && !isTokenByte(c) {
			return false
		}
	}
	return len(name) > 0
}

func isTokenByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c):
		return true
	}
	return c < utf8.RuneSelf && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}

func validValue(value []byte) bool {
	for _, c := range value {
		if (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// field takes note of one header field.
func (in *replyReader) field(name, value []byte) error {
	switch {
	case equalFold(name, "content-length"):
		return in.contentLength(trimBlanks(value))
	case equalFold(name, "transfer-encoding"):
		in.encodings++
		in.chunked = equalFold(value, "chunked")
	case equalFold(name, "connection"):
		in.close = in.close || hasToken(value, "close")
		in.keepAlive = in.keepAlive || hasToken(value, "keep-alive")
	case equalFold(name, "trailer"):
		in.badTrailer = in.badTrailer || hasToken(value, "transfer-encoding") ||
			hasToken(value, "trailer") || hasToken(value, "content-length")
	}
	if in.want.kind && equalFold(name, "content-type") {
		in.kind = string(trimBlanks(value))
	}
	if in.want.backendHeader != "" && len(in.reply.Backend) == 0 && equalFold(name, in.want.backendHeader) {
		in.reply.Backend = append(in.reply.Backend, trimBlanks(value)...)
	}
	return nil
}

// contentLength notes the length of the body. A second one must be the same text.
func (in *replyReader) contentLength(value []byte) error {
	n, ok := decimal(value)
	switch {
	case in.length >= 0 && (!ok || n != in.length || len(value) != in.digits):
		return wire.Malformed("two different Content-Length")
	case !ok:
		return wire.Malformed("bad Content-Length")
	}
	in.length, in.digits = n, len(value)
	return nil
}

func decimal(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if !isDigit(c) || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(text) > 0
}

// equalFold compares with a text in lower-case ASCII.
func equalFold(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func hasToken(list []byte, lower string) bool {
	for item := range bytes.SplitSeq(list, []byte(",")) {
		if equalFold(trimBlanks(item), lower) {
			return true
		}
	}
	return false
}

// framing decides from the whole header how the body ends, and whether the connection goes on.
func (in *replyReader) framing() error {
	if in.oldest { // which knows no chunks, and closes unless it says otherwise
		in.chunked = false
		in.reply.Last = in.close || !in.keepAlive
		return nil
	}
	if in.encodings > 1 || in.encodings == 1 && !in.chunked {
		return wire.Malformed("unsupported Transfer-Encoding")
	}
	if in.chunked && in.badTrailer {
		return wire.Malformed("bad Trailer")
	}
	in.reply.Last = in.close
	return nil
}

// body reads the body, whatever tells its end.
func (in *replyReader) body() error {
	status := in.reply.Status
	switch {
	case status == 101:
		in.reply.Last = true // the connection speaks another protocol from here on
		return nil
	case in.want.head, status == 204, status == 304:
		return nil
	case in.chunked:
		return in.chunks()
	case in.length >= 0:
		return in.data(in.length)
	}
	in.reply.Last = true
	return in.untilClosed()
}

// data reads n bytes of the body.
func (in *replyReader) data(n int64) error {
	for n > 0 {
		piece, err := in.peekSome(n)
		if err != nil {
			return err
		}
		n -= int64(piece)
	}
	return nil
}

func (in *replyReader) untilClosed() error {
	for {
		if _, err := in.peekSome(math.MaxInt64); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// peekSome consumes what has arrived of the body, at least one byte and at most limit, and returns how many.
func (in *replyReader) peekSome(limit int64) (int, error) {
	if _, err := in.br.Peek(1); err != nil {
		return 0, err
	}
	n := int(min(int64(in.br.Buffered()), limit))
	piece, _ := in.br.Peek(n)
	in.find(in.reply, in.want.body, piece)
	_, err := in.br.Discard(n)
	return n, err
}

// A finder looks for the expected part in the body so far.
type finder struct {
	seen []byte // of the body, where a part of it is looked for
}

// find takes a further piece of the body of r.
func (f *finder) find(r *Reply, wanted, piece []byte) {
	if r.bodyAsExpected || len(f.seen) >= searchedBytes {
		return
	}
	from := max(0, len(f.seen)-len(wanted)+1)
	f.seen = append(f.seen, piece...)
	r.bodyAsExpected = bytes.Contains(f.seen[from:], wanted)
}

// chunks reads a chunked body and its trailer (RFC 9112, section 7.1).
func (in *replyReader) chunks() error {
	excess := 0 // bytes of framing beyond what honest senders need, as net/http counts them
	for {
		size, lineLength, err := in.chunkSize()
		if err != nil {
			return err
		}
		excess = max(0, excess+lineLength+2-16-2*int(min(size, 1<<30)))
		if excess > 16<<10 {
			return wire.Malformed("too much chunk framing")
		}
		if size == 0 {
			return in.trailer()
		}
		if err := in.data(size); err != nil {
			return err
		}
		if err := in.crlf(); err != nil {
			return err
		}
	}
}

func (in *replyReader) chunkSize() (size int64, lineLength int, err error) {
	line, err := in.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return 0, 0, wire.Malformed("chunk line too long")
	}
	if err != nil {
		return 0, 0, err
	}
	if cr := bytes.IndexByte(line, '\r'); cr < 0 || cr != len(line)-2 {
		return 0, 0, wire.Malformed("chunk line not ended by CRLF")
	}
	line = line[:len(line)-2]
	digits, _, _ := bytes.Cut(bytes.TrimRight(line, " \t"), []byte(";"))
	size, ok := hexadecimal(digits)
	if !ok {
		return 0, 0, wire.Malformed("bad chunk size")
	}
	return size, len(line), nil
}

func hexadecimal(text []byte) (n int64, ok bool) {
	for _, c := range text {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if isDigit(c) {
			digit = int(c - '0')
		}
		if digit < 0 || !isDigit(c) && digit < 10 || n > math.MaxInt64>>4 {
			return 0, false
		}
		n = n<<4 | int64(digit)
	}
	return n, len(text) > 0 && len(text) <= 16
}

func (in *replyReader) crlf() error {
	end, err := in.br.Peek(2)
	if err != nil {
		return err
	}
	if string(end) != "\r\n" {
		return wire.Malformed("chunk not ended by CRLF")
	}
	_, err = in.br.Discard(2)
	return err
}

// trailer reads the fields after the last chunk, which tell us nothing.
func (in *replyReader) trailer() error {
	if err := in.crlf(); err == nil || !errors.Is(err, wire.ErrMalformed) {
		return err
	}
	for size := 4; ; size++ {
		ahead, err := in.br.Peek(size)
		if bytes.HasSuffix(ahead, []byte("\r\n\r\n")) {
			return in.headerFields(func([]byte, []byte) error { return nil })
		}
		if err == bufio.ErrBufferFull {
			return wire.Malformed("trailer too long")
		}
		if err != nil {
			return err
		}
	}
}
