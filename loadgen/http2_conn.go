package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lapse/timeline"
)

// This file is a connection of HTTP/2, for the protocols on top of it. Frames and header compression are
// golang.org/x/net/http2's; its Transport is not used, because it sends requests again unseen.

const (
	http2FrameHeader = 9         // bytes (RFC 9113, section 4.1)
	http2FrameSize   = 16 << 10  // the least that a peer must take, and what we take, in bytes
	http2Window      = 1 << 20   // bytes that a server may send ahead of our WINDOW_UPDATE, per stream and per connection
	http2FirstWindow = 1<<16 - 1 // bytes: each connection's window before any WINDOW_UPDATE
	http2LastStream  = 1<<31 - 1

	// mostUnanswered is how many bytes are written to a peer that sends nothing back before its connection is given
	// up. So few fit into the send buffer of any connection: the pacing thread does not wait when it writes further
	// ones.
	mostUnanswered = 16 << 10
)

// A http2Request is the request that is sent over and over, on streams of their own.
type http2Request struct {
	block []byte // its header block, which uses no dynamic table: it is the same on each connection
	body  []byte
}

// newHTTP2Request checks what HTTP/2 cannot carry. fields begin with :method.
func newHTTP2Request(p Probe, u *url.URL, path string, fields []hpack.HeaderField, body []byte) (http2Request, error) {
	for name := range p.Header {
		switch strings.ToLower(name) {
		case "keep-alive", "proxy-connection", "upgrade", "te": // and those that checkHeader refuses
			return http2Request{}, fmt.Errorf("header %s does not exist in HTTP/2 (RFC 9113, section 8.2.2)", name)
		}
	}
	scheme := "http"
	if u.Scheme == "h2" || u.Scheme == "grpcs" {
		scheme = "https"
	}
	all := []hpack.HeaderField{
		fields[0], {Name: ":scheme", Value: scheme}, {Name: ":path", Value: path},
		{Name: ":authority", Value: cmp.Or(p.Header.Get("Host"), p.Host, HostHeader(u))},
		{Name: "user-agent", Value: cmp.Or(p.Header.Get("User-Agent"), "lapse")},
	}
	all = append(all, fields[1:]...)
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		if name == "Host" || name == "User-Agent" {
			continue
		}
		for _, value := range p.Header[name] {
			all = append(all, hpack.HeaderField{Name: strings.ToLower(name), Value: strings.Trim(value, " \t")})
		}
	}
	return http2Request{block: headerBlock(all), body: body}, nil
}

// headerBlock compresses fields without the dynamic table, so that no block depends on those before it.
func headerBlock(fields []hpack.HeaderField) []byte {
	var block bytes.Buffer
	compress := hpack.NewEncoder(&block)
	compress.SetMaxDynamicTableSize(0)
	_ = compress.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"}) // which takes the note that the table is empty: the table need not be
	block.Reset()
	for _, field := range fields {
		_ = compress.WriteField(field) // to memory
	}
	return block.Bytes()
}

// request is as long as each that is written.
func (d *http2Request) request() []byte {
	var b bytes.Buffer
	d.write(http2.NewFramer(&b, nil), 1)
	return b.Bytes()
}

// write writes the request on a stream.
func (d *http2Request) write(framer *http2.Framer, stream uint32) {
	first, rest := cutAt(d.block, http2FrameSize)
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: len(d.body) == 0, EndHeaders: len(rest) == 0}) // to memory
	for len(rest) > 0 {
		first, rest = cutAt(rest, http2FrameSize)
		_ = framer.WriteContinuation(stream, len(rest) == 0, first)
	}
	for rest = d.body; len(rest) > 0; {
		first, rest = cutAt(rest, http2FrameSize)
		_ = framer.WriteData(stream, len(rest) == 0, first)
	}
}

func cutAt(b []byte, n int) (first, rest []byte) {
	n = min(n, len(b))
	return b[:n], b[n:]
}

// A http2Reply reads replies, one after the other: what a protocol makes of the frames of a stream. Errors are those
// of codec's read. What is wrong with a reply that leaves its stream well is the reply's fault.
type http2Reply interface {
	another() http2Reply // reads the replies of another stream
	start()
	header(*http2.MetaHeadersFrame, *reply) error // the first, and as long as it sets inBody not; one that ends the stream too
	data(piece []byte, r *reply) error
	trailer(*http2.MetaHeadersFrame, *reply) error
	end(*reply) error
}

// A http2Stream is a request on a connection, and its reply.
type http2Stream struct {
	id     uint32
	parser http2Reply
	reply  *reply
	taken  int   // bytes of data that were not acknowledged by a WINDOW_UPDATE
	err    error // why the reply is not whole, once it has ended
	owner  any   // of an engine that opens several: what it keeps with the stream
}

// A http2Input is what a connection's frames are read from. Its read buffer may be another one for each reply: one
// that waits holds none.
type http2Input struct{ *bufio.Reader }

// A http2Conn is a connection after its preface. As a [dialog], it has one request open at a time, that on the stream
// only. An engine that opens several uses begin, frame, take and giveUp, and sees to it that one goroutine reads, and
// that what is not frame is not called at the same time.
type http2Conn struct {
	http2Request *http2Request
	w            io.Writer
	in           http2Input
	clock        timeline.Clock
	framer       *http2.Framer
	out          bytes.Buffer // what the framer writes

	only   http2Stream    // of the dialog
	open   []*http2Stream // whose replies are awaited, the oldest first
	ended  []*http2Stream // by the last frame that was taken
	stream uint32         // of the last request
	next   uint32         // the one after it
	most   uint32         // how many the peer lets be open
	goAway announcedEnd   // "" if there was none
	torn   bool           // a frame was read or written in part
	silent int            // bytes written since the last frame came
	toSend int64          // the connection's window for what we send
	peers  int64          // the window that the peer gives each stream
	taken  int            // bytes of data on the connection that were not acknowledged by a WINDOW_UPDATE
}

// begin sends the preface, and waits for that of the server: its SETTINGS (RFC 9113, section 3.4). Only they show
// that it speaks HTTP/2.
func (d *http2Request) begin(c *conn, parser http2Reply) (dialog, error) {
	if secure, ok := c.Conn.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return nil, errNoHTTP2
	}
	h := newHTTP2Conn(d, parser, c, c.br)
	h.clock = c.clock
	h.out.WriteString(http2.ClientPreface)
	_ = h.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: http2Window},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: headerLimit})
	_ = h.framer.WriteWindowUpdate(0, http2Window-http2FirstWindow)
	if err := h.flush(); err != nil {
		return nil, err
	}
	return h, h.greeting()
}

func newHTTP2Conn(d *http2Request, parser http2Reply, w io.Writer, br *bufio.Reader) *http2Conn {
	h := &http2Conn{http2Request: d, w: w, in: http2Input{br}, toSend: http2FirstWindow, peers: http2FirstWindow, next: 1, most: math.MaxUint32}
	h.only.parser = parser
	h.framer = http2.NewFramer(&h.out, &h.in)
	h.framer.SetReuseFrames()
	h.framer.SetMaxReadFrameSize(http2FrameSize)
	h.framer.MaxHeaderListSize = headerLimit
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // the size that holds unless SETTINGS say another
	return h
}

// greeting reads the server's preface.
func (h *http2Conn) greeting() error {
	ahead, err := h.in.Peek(http2FrameHeader)
	if len(ahead) > 0 && len(ahead) < http2FrameHeader || err == nil && http2.FrameType(ahead[3]) != http2.FrameSettings {
		return noHTTP2(ahead)
	}
	if errors.Is(err, io.EOF) {
		return announcedEnd("the connection was closed in answer to the preface of HTTP/2: a server that speaks TLS, or only HTTP/1.1, may do so")
	}
	if err != nil {
		return err
	}
	f, err := h.frame()
	if err != nil {
		return h.take(nil, err)
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return malformed("HTTP/2 that does not begin with SETTINGS")
	}
	if err := h.settings(settings); err != nil {
		return err
	}
	if h.most == 0 {
		return fmt.Errorf("%w: the server's SETTINGS allow no request at all", errUnexpected)
	}
	if h.peers < int64(len(h.http2Request.body)) {
		return fmt.Errorf("%w: the server's SETTINGS allow messages of %d bytes, and the request's has %d", errUnexpected, h.peers, len(h.http2Request.body))
	}
	return nil
}

// noHTTP2 is the error of an answer to the preface that begins as got does.
func noHTTP2(got []byte) error {
	switch {
	case bytes.HasPrefix(got, []byte("HTTP/")):
		return malformed("the server answers in HTTP/1.1: it does not speak HTTP/2 at once, as in http://")
	case bytes.HasPrefix(got, []byte{alertRecord, 3}):
		return malformed("a TLS alert: the server speaks TLS, as in h2:// and grpcs://")
	}
	return malformed(fmt.Sprintf("no HTTP/2: %q", got))
}

func (h *http2Conn) request() []byte {
	h.open = h.open[:0] // what was given up is not awaited any more
	return h.begin(&h.only)
}

// begin opens s, and returns what is written for it. That is valid until the next call.
func (h *http2Conn) begin(s *http2Stream) []byte {
	h.stream, h.next = h.next, h.next+2
	s.id, s.taken, s.err = h.stream, 0, nil
	h.open = append(h.open, s)
	h.toSend -= int64(len(h.http2Request.body))
	h.out.Reset()
	h.http2Request.write(h.framer, h.stream)
	h.silent += h.out.Len()
	return h.out.Bytes()
}

// startReply readies s for the frames of its reply, which goes into r.
func (s *http2Stream) startReply(r *reply) {
	r.reset()
	r.timed = true
	s.reply = r
	s.parser.start()
}

func (h *http2Conn) farewell() []byte {
	h.out.Reset()
	_ = h.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	return h.out.Bytes()
}

func (h *http2Conn) cancel() []byte {
	if h.torn || h.goAway != "" || h.silent > mostUnanswered || h.spent() {
		return nil
	}
	return h.giveUp(&h.only)
}

// giveUp awaits the reply of s no longer, and returns what tells the peer so.
func (h *http2Conn) giveUp(s *http2Stream) []byte {
	h.open = slices.DeleteFunc(h.open, func(open *http2Stream) bool { return open == s })
	h.out.Reset()
	_ = h.framer.WriteRSTStream(s.id, http2.ErrCodeCancel)
	h.silent += h.out.Len()
	return h.out.Bytes()
}

// spent reports whether no further request fits: the numbers of streams end, and so do the windows for data.
func (h *http2Conn) spent() bool {
	return h.next > http2LastStream || min(h.toSend, h.peers) < int64(len(h.http2Request.body))
}

// flush sends what the framer wrote.
func (h *http2Conn) flush() error {
	_, err := h.w.Write(h.out.Bytes())
	h.out.Reset()
	h.torn = h.torn || err != nil
	return err
}

func (h *http2Conn) read(br *bufio.Reader, r *reply) error {
	h.in.Reader = br
	h.only.startReply(r)
	for {
		if err := h.step(); err != nil {
			return h.cut(err, r)
		}
		if len(h.ended) > 0 {
			r.last = h.goAway != "" || h.spent()
			return h.only.err
		}
	}
}

// cut is what the connection's end means within a reply or before it.
func (h *http2Conn) cut(err error, r *reply) error {
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case h.goAway != "":
		return h.goAway + ", and the connection ended before the reply"
	case r.inBody:
		return errTruncated
	}
	return io.EOF
}

func (h *http2Conn) heed(br *bufio.Reader) error {
	h.in.Reader = br
	err := h.step()
	if err == nil && h.goAway != "" {
		return h.goAway
	}
	return err
}

// step reads a frame and does what it asks for.
func (h *http2Conn) step() error {
	if _, err := h.in.Peek(http2FrameHeader); err != nil {
		return err // and no frame is torn
	}
	f, err := h.frame()
	err = h.take(f, err)
	h.torn = h.torn || err != nil
	return err
}

// frame reads the next frame. It is valid until the next call.
func (h *http2Conn) frame() (http2.Frame, error) { return h.framer.ReadFrame() }

// take does what a frame asks for, or an error instead of one. What streams it ends is in ended until the next call.
// The error is that of the whole connection.
func (h *http2Conn) take(f http2.Frame, err error) error {
	h.ended = h.ended[:0]
	h.out.Reset()
	if broken, ok := errors.AsType[http2.StreamError](err); ok {
		h.end(h.find(broken.StreamID), malformed("HTTP/2: "+cmp.Or(text(broken.Cause), "bad header fields")))
		h.silent = 0
		return nil
	}
	if _, ok := errors.AsType[http2.ConnectionError](err); ok {
		return malformed("HTTP/2: " + cmp.Or(text(h.framer.ErrorDetail()), err.Error()))
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return malformed("HTTP/2: a frame longer than agreed on")
	}
	if err != nil {
		return err
	}
	h.silent = 0
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return h.headers(f)
	case *http2.DataFrame:
		return h.data(f)
	case *http2.RSTStreamFrame:
		h.reset(f)
	case *http2.GoAwayFrame:
		h.leaving(f)
	case *http2.SettingsFrame:
		return h.settings(f)
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		_ = h.framer.WritePing(true, f.Data)
		return h.flush()
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			h.toSend += int64(f.Increment)
		}
	case *http2.PushPromiseFrame:
		return malformed("HTTP/2: a push, which was switched off")
	}
	return nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// end ends a stream, if there is one: its reply is whole, or is not because of err.
func (h *http2Conn) end(s *http2Stream, err error) {
	if s == nil {
		return
	}
	s.err = err
	h.open = slices.DeleteFunc(h.open, func(open *http2Stream) bool { return open == s })
	h.ended = append(h.ended, s)
}

// find is the open stream of a number; nil if there is none.
func (h *http2Conn) find(id uint32) *http2Stream {
	i, found := slices.BinarySearchFunc(h.open, id, func(s *http2Stream, id uint32) int { return cmp.Compare(s.id, id) })
	if !found {
		return nil
	}
	return h.open[i]
}

// awaited is the open stream that a frame belongs to. Frames of a request that was given up may still come: they
// belong to none.
func (h *http2Conn) awaited(id uint32) (*http2Stream, error) {
	if id%2 == 0 || id > h.stream {
		return nil, malformed("HTTP/2: a frame on a stream that was never opened")
	}
	return h.find(id), nil
}

func (h *http2Conn) headers(f *http2.MetaHeadersFrame) error {
	s, err := h.awaited(f.StreamID)
	if err != nil || s == nil {
		return err
	}
	if s.reply.began == 0 && !f.Truncated {
		s.reply.began = h.clock.Now()
	}
	switch {
	case f.Truncated:
		err = malformed("header too large")
	case !s.reply.inBody:
		err = s.parser.header(f, s.reply)
	case !f.StreamEnded():
		err = malformed("HTTP/2: a second header that does not end the stream")
	case len(f.PseudoFields()) > 0:
		err = malformed("HTTP/2: a trailer with pseudo-header fields")
	default:
		err = s.parser.trailer(f, s.reply)
	}
	h.went(s, err, f.StreamEnded())
	return nil
}

// went ends a stream after a frame that could not be taken, or was the last.
func (h *http2Conn) went(s *http2Stream, err error, last bool) {
	switch {
	case err != nil:
		h.end(s, err)
	case last:
		h.end(s, s.parser.end(s.reply))
	}
}

// data takes a piece of a body, and lets the server send as much again once half of a window is used up.
func (h *http2Conn) data(f *http2.DataFrame) error {
	s, err := h.awaited(f.StreamID)
	if err != nil {
		return err
	}
	h.taken += int(f.Length)
	if h.taken >= http2Window/2 {
		_ = h.framer.WriteWindowUpdate(0, uint32(h.taken))
		h.taken = 0
	}
	if s != nil && !f.StreamEnded() {
		s.taken += int(f.Length)
		if s.taken >= http2Window/2 {
			_ = h.framer.WriteWindowUpdate(f.StreamID, uint32(s.taken))
			s.taken = 0
		}
	}
	if h.out.Len() > 0 {
		if err := h.flush(); err != nil {
			return err
		}
	}
	switch {
	case s == nil:
		return nil
	case !s.reply.inBody:
		err = malformed("HTTP/2: data before a header")
	default:
		err = s.parser.data(f.Data(), s.reply)
	}
	h.went(s, err, f.StreamEnded())
	return nil
}

// reset ends a stream that the server has reset. The connection goes on.
func (h *http2Conn) reset(f *http2.RSTStreamFrame) {
	if s := h.find(f.StreamID); s != nil {
		s.reply.class, s.reply.fault = timeline.Reset, announcedEnd("RST_STREAM "+f.ErrCode.String())
		h.end(s, nil)
	}
}

// leaving notes a GOAWAY. Requests above its last stream are not processed, and end; the others may finish (RFC 9113,
// section 6.8).
func (h *http2Conn) leaving(f *http2.GoAwayFrame) {
	h.goAway = announcedEnd("GOAWAY " + f.ErrCode.String())
	if debug := f.DebugData(); len(debug) > 0 {
		h.goAway += announcedEnd(fmt.Sprintf(" %q", debug[:min(len(debug), 80)]))
	}
	for last := len(h.open) - 1; last >= 0 && h.open[last].id > f.LastStreamID; last-- {
		h.end(h.open[last], h.goAway+": the request was not processed")
	}
}

func (h *http2Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
		h.peers = int64(window)
	}
	if most, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		h.most = most
	}
	_ = h.framer.WriteSettingsAck()
	return h.flush()
}
