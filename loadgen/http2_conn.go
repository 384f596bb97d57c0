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
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lapse/timeline"
)

// This file is a connection of HTTP/2, for the protocols on top of it. Frames and header compression are golang.org/x/net/http2's; its
// Transport is not used, because it sends requests again unseen.

const (
	http2FrameHeader = 9         // bytes (RFC 9113, section 4.1)
	http2FrameSize   = 16 << 10  // the least that a peer must take, and what we take, in bytes
	http2Window      = 1 << 20   // bytes that a server may send ahead of our WINDOW_UPDATE, per stream and per connection
	http2FirstWindow = 1<<16 - 1 // bytes: each connection's window before any WINDOW_UPDATE
	http2LastStream  = 1<<31 - 1

	// mostUnanswered is how many bytes are written to a peer that sends nothing back before its connection is given up. So few fit into
	// the send buffer of any connection: the pacing thread does not wait when it writes further ones.
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

// A http2Reply reads the replies of a connection, one after the other: what a protocol makes of the frames of a stream. Errors are those of
// codec's read. What is wrong with a reply that leaves the connection well is the reply's fault.
type http2Reply interface {
	start()
	header(*http2.MetaHeadersFrame, *reply) error // the first, and as long as it sets inBody not; one that ends the stream too
	data(piece []byte, r *reply) error
	trailer(*http2.MetaHeadersFrame, *reply) error
	end(*reply) error
}

// A http2Input is what a connection's frames are read from. Its read buffer may be another one for each reply: one that waits holds none.
type http2Input struct{ *bufio.Reader }

// A http2Conn is a connection after its preface.
type http2Conn struct {
	http2Request *http2Request
	reply        http2Reply
	w            io.Writer
	in           http2Input
	clock        timeline.Clock
	framer       *http2.Framer
	out          bytes.Buffer // what the framer writes

	stream   uint32       // of the last request
	next     uint32       // the one after it
	goAway   announcedEnd // "" if there was none
	torn     bool         // a frame was read or written in part
	silent   int          // bytes written since the last frame came
	toSend   int64        // the connection's window for what we send
	peers    int64        // the window that the peer gives each stream
	taken    int          // bytes of data on the connection that were not acknowledged by a WINDOW_UPDATE
	ofStream int          // and on the open stream
}

// begin sends the preface, and waits for that of the server: its SETTINGS (RFC 9113, section 3.4). Only they show that it speaks HTTP/2.
func (d *http2Request) begin(c *conn, reply http2Reply) (dialog, error) {
	if secure, ok := c.Conn.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return nil, errNoHTTP2
	}
	h := newHTTP2Conn(d, reply, c, c.br)
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

func newHTTP2Conn(d *http2Request, reply http2Reply, w io.Writer, br *bufio.Reader) *http2Conn {
	h := &http2Conn{http2Request: d, reply: reply, w: w, in: http2Input{br}, toSend: http2FirstWindow, peers: http2FirstWindow, next: 1}
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
		return err
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return malformed("HTTP/2 that does not begin with SETTINGS")
	}
	if most, limited := settings.Value(http2.SettingMaxConcurrentStreams); limited && most == 0 {
		return fmt.Errorf("%w: the server's SETTINGS allow no request at all", errUnexpected)
	}
	if err := h.settings(settings); err != nil {
		return err
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
	h.stream, h.next = h.next, h.next+2
	h.ofStream = 0
	h.toSend -= int64(len(h.http2Request.body))
	h.out.Reset()
	h.http2Request.write(h.framer, h.stream)
	h.silent += h.out.Len()
	return h.out.Bytes()
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
	h.out.Reset()
	_ = h.framer.WriteRSTStream(h.stream, http2.ErrCodeCancel)
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
	*r = reply{backend: r.backend[:0], lengthText: r.lengthText[:0], timed: true}
	h.reply.start()
	for {
		f, err := h.frame()
		if err != nil {
			return h.cut(err, r)
		}
		ended, err := h.take(f, r)
		if err != nil {
			return err
		}
		if ended {
			r.last = h.goAway != "" || h.spent()
			return nil
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
	f, err := h.frame()
	if err != nil {
		return err
	}
	if _, err = h.take(f, nil); err == nil && h.goAway != "" {
		return h.goAway
	}
	return err
}

// frame reads the next frame.
func (h *http2Conn) frame() (http2.Frame, error) {
	if _, err := h.in.Peek(http2FrameHeader); err != nil {
		return nil, err
	}
	h.out.Reset()
	h.silent = 0
	f, err := h.framer.ReadFrame()
	if err == nil {
		return f, nil
	}
	h.torn = true
	if broken, ok := errors.AsType[http2.StreamError](err); ok {
		return nil, malformed("HTTP/2: " + cmp.Or(causeOf(broken), "bad header fields"))
	}
	if _, ok := errors.AsType[http2.ConnectionError](err); ok {
		return nil, malformed("HTTP/2: " + cmp.Or(text(h.framer.ErrorDetail()), err.Error()))
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return nil, malformed("HTTP/2: a frame longer than agreed on")
	}
	return nil, err
}

func causeOf(e http2.StreamError) string { return text(e.Cause) }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// take does what a frame asks for. r is the reply that is awaited, nil for none. It reports whether the frame ended the reply.
func (h *http2Conn) take(f http2.Frame, r *reply) (ended bool, err error) {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return h.headers(f, r)
	case *http2.DataFrame:
		return h.data(f, r)
	case *http2.RSTStreamFrame:
		return h.reset(f, r), nil
	case *http2.GoAwayFrame:
		return false, h.leaving(f, r != nil)
	case *http2.SettingsFrame:
		return false, h.settings(f)
	case *http2.PingFrame:
		if f.IsAck() {
			return false, nil
		}
		_ = h.framer.WritePing(true, f.Data)
		return false, h.flush()
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			h.toSend += int64(f.Increment)
		}
	case *http2.PushPromiseFrame:
		return false, malformed("HTTP/2: a push, which was switched off")
	}
	return false, nil
}

// awaited reports whether a frame on a stream belongs to the awaited reply. Those of a request that was given up may still come.
func (h *http2Conn) awaited(stream uint32, r *reply) (bool, error) {
	if stream%2 == 0 || stream > h.stream {
		return false, malformed("HTTP/2: a frame on a stream that was never opened")
	}
	return r != nil && stream == h.stream, nil
}

func (h *http2Conn) headers(f *http2.MetaHeadersFrame, r *reply) (ended bool, err error) {
	switch mine, err := h.awaited(f.StreamID, r); {
	case err != nil || !mine:
		return false, err
	case f.Truncated:
		return false, malformed("header too large")
	}
	if r.began == 0 {
		r.began = h.clock.Now()
	}
	switch {
	case !r.inBody:
		err = h.reply.header(f, r)
	case !f.StreamEnded():
		err = malformed("HTTP/2: a second header that does not end the stream")
	case len(f.PseudoFields()) > 0:
		err = malformed("HTTP/2: a trailer with pseudo-header fields")
	default:
		err = h.reply.trailer(f, r)
	}
	if err != nil || !f.StreamEnded() {
		return false, err
	}
	return true, h.reply.end(r)
}

// data takes a piece of a body, and lets the server send as much again once half of a window is used up.
func (h *http2Conn) data(f *http2.DataFrame, r *reply) (ended bool, err error) {
	mine, err := h.awaited(f.StreamID, r)
	if err != nil {
		return false, err
	}
	h.taken += int(f.Length)
	if h.taken >= http2Window/2 {
		_ = h.framer.WriteWindowUpdate(0, uint32(h.taken))
		h.taken = 0
	}
	if mine && !f.StreamEnded() {
		h.ofStream += int(f.Length)
		if h.ofStream >= http2Window/2 {
			_ = h.framer.WriteWindowUpdate(f.StreamID, uint32(h.ofStream))
			h.ofStream = 0
		}
	}
	if h.out.Len() > 0 {
		if err := h.flush(); err != nil {
			return false, err
		}
	}
	switch {
	case !mine:
		return false, nil
	case !r.inBody:
		return false, malformed("HTTP/2: data before a header")
	}
	if err := h.reply.data(f.Data(), r); err != nil || !f.StreamEnded() {
		return false, err
	}
	return true, h.reply.end(r)
}

// reset ends a reply whose stream the server has reset. The connection goes on.
func (h *http2Conn) reset(f *http2.RSTStreamFrame, r *reply) (ended bool) {
	if r == nil || f.StreamID != h.stream {
		return false
	}
	r.class, r.fault = timeline.Reset, announcedEnd("RST_STREAM "+f.ErrCode.String())
	return true
}

// leaving notes a GOAWAY. The error is that of an open request which the server does not process.
func (h *http2Conn) leaving(f *http2.GoAwayFrame, open bool) error {
	h.goAway = announcedEnd("GOAWAY " + f.ErrCode.String())
	if debug := f.DebugData(); len(debug) > 0 {
		h.goAway += announcedEnd(fmt.Sprintf(" %q", debug[:min(len(debug), 80)]))
	}
	if open && f.LastStreamID < h.stream {
		return h.goAway + ": the request was not processed"
	}
	return nil
}

func (h *http2Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
		h.peers = int64(window)
	}
	_ = h.framer.WriteSettingsAck()
	return h.flush()
}
