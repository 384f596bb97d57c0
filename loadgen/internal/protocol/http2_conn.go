package protocol

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

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// This file is a connection of HTTP/2, for the protocols on top of it. Frames and header compression are
// golang.org/x/net/http2's; its Transport is not used, because it sends requests again unseen.

const (
	http2FrameSize = 16 << 10 // the least that a peer must take, and what we take, in bytes
	// bytes that a server may send ahead of our WINDOW_UPDATE, per stream and per connection
	http2Window      = 1 << 20
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

// headerBlock compresses fields without the dynamic table, so that no block depends on those before it. Each begins
// with the update of the table's size to 0: a server whose SETTINGS make the table smaller requires one (RFC 9113,
// section 4.3.1), and others allow it (RFC 7541, section 4.2).
func headerBlock(fields []hpack.HeaderField) []byte {
	var block bytes.Buffer
	compress := hpack.NewEncoder(&block)
	compress.SetMaxDynamicTableSize(0)
	for _, field := range fields {
		_ = compress.WriteField(field) // to memory
	}
	return block.Bytes()
}

// Request is as long as each that is written.
func (d *http2Request) Request() []byte {
	var b bytes.Buffer
	d.write(http2.NewFramer(&b, nil), 1)
	return b.Bytes()
}

// write writes the request on a stream.
func (d *http2Request) write(framer *http2.Framer, stream uint32) {
	first, rest := cutAt(d.block, http2FrameSize)
	_ = framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      stream,
		BlockFragment: first,
		EndStream:     len(d.body) == 0,
		EndHeaders:    len(rest) == 0,
	}) // to memory
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

// A http2Reply reads the replies of a stream, one after the other: it is what a protocol makes of frames. Its errors
// are as of [Codec]'s Read. What is wrong with a reply that leaves its stream well is the reply's fault.
type http2Reply interface {
	Another() http2Reply // reads the replies of another stream
	start()
	// the first, and as long as it sets inBody not; one that ends the stream too
	header(*http2.MetaHeadersFrame, *Reply) error
	data(piece []byte, r *Reply) error
	trailer(*http2.MetaHeadersFrame, *Reply) error
	end(*Reply) error
}

// A HTTP2Stream is a request on a connection, and its reply.
type HTTP2Stream struct {
	id     uint32
	Parser http2Reply
	Reply  *Reply
	taken  int   // bytes of data that were not acknowledged by a WINDOW_UPDATE
	Err    error // why the reply is not whole, once it has ended
	Owner  any   // of an engine that opens several: what it keeps with the stream
}

// A http2Input is what a connection's frames are read from. Its read buffer may be another one for each reply: one
// that waits holds none.
type http2Input struct{ *bufio.Reader }

// A HTTP2Conn is a connection after its preface. As a [Dialog], it has one request open at a time, that on the stream
// only. An engine that opens several uses begin, frame, take and giveUp, and sees to it that one goroutine reads, and
// that what is not frame is not called at the same time.
type HTTP2Conn struct {
	http2Request *http2Request
	W            io.Writer
	in           http2Input
	clock        timeline.Clock
	framer       *http2.Framer
	out          bytes.Buffer // what the framer writes

	Only   HTTP2Stream       // of the dialog
	Open   []*HTTP2Stream    // whose replies are awaited, the oldest first
	Ended  []*HTTP2Stream    // by the last frame that was taken
	stream uint32            // of the last request
	next   uint32            // the one after it
	Most   uint32            // how many the peer lets be open
	GoAway wire.AnnouncedEnd // "" if there was none
	Torn   bool              // a frame was read or written in part
	Silent int               // bytes written since the last frame came
	toSend int64             // the connection's window for what we send
	peers  int64             // the window that the peer gives each stream
	taken  int               // bytes of data on the connection that were not acknowledged by a WINDOW_UPDATE
}

// begin sends the preface, and waits for the server's: its SETTINGS (RFC 9113, section 3.4). Only they show
// that it speaks HTTP/2.
func (d *http2Request) begin(c *wire.Conn, parser http2Reply) (Dialog, error) {
	if secure, ok := c.Conn.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return nil, wire.ErrNoHTTP2
	}
	h := newHTTP2Conn(d, parser, c, c.Br)
	h.clock = c.Clock
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

func newHTTP2Conn(d *http2Request, parser http2Reply, w io.Writer, br *bufio.Reader) *HTTP2Conn {
	h := &HTTP2Conn{
		http2Request: d,
		W:            w,
		in:           http2Input{br},
		toSend:       http2FirstWindow,
		peers:        http2FirstWindow,
		next:         1,
		Most:         math.MaxUint32,
	}
	h.Only.Parser = parser
	h.framer = http2.NewFramer(&h.out, &h.in)
	h.framer.SetReuseFrames()
	h.framer.SetMaxReadFrameSize(http2FrameSize)
	h.framer.MaxHeaderListSize = headerLimit
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // the size that holds unless SETTINGS say another
	return h
}

// greeting reads the server's preface.
func (h *HTTP2Conn) greeting() error {
	ahead, err := h.in.Peek(http2FrameHeader)
	part := len(ahead) > 0 && len(ahead) < http2FrameHeader
	if part || err == nil && http2.FrameType(ahead[3]) != http2.FrameSettings {
		return noHTTP2(ahead)
	}
	if errors.Is(err, io.EOF) {
		return wire.AnnouncedEnd("the connection was closed in answer to the preface of HTTP/2: a server that " +
			"speaks TLS, or only HTTP/1.1, may do so")
	}
	if err != nil {
		return err
	}
	f, err := h.Frame()
	if err != nil {
		return h.Take(nil, err)
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return wire.Malformed("HTTP/2 that does not begin with SETTINGS")
	}
	if err := h.settings(settings); err != nil {
		return err
	}
	if h.Most == 0 {
		return fmt.Errorf("%w: the server's SETTINGS allow no request at all", wire.ErrUnexpected)
	}
	if h.peers < int64(len(h.http2Request.body)) {
		return fmt.Errorf("%w: the server's SETTINGS allow messages of %d bytes, and the request's has %d",
			wire.ErrUnexpected, h.peers, len(h.http2Request.body))
	}
	return nil
}

// noHTTP2 returns the error of an answer to the preface that begins as got does.
func noHTTP2(got []byte) error {
	switch {
	case bytes.HasPrefix(got, []byte("HTTP/")):
		return wire.Malformed("the server answers in HTTP/1.1: it does not speak HTTP/2 at once, as in http://")
	case bytes.HasPrefix(got, []byte{wire.AlertRecord, 3}):
		return wire.Malformed("a TLS alert: the server speaks TLS, as in h2:// and grpcs://")
	}
	return wire.Malformed(fmt.Sprintf("no HTTP/2: %q", got))
}

func (h *HTTP2Conn) Request() []byte {
	h.Open = h.Open[:0] // what was given up is not awaited any more
	return h.Begin(&h.Only)
}

// Begin opens s, and returns what is written for it. That is valid until the next call.
func (h *HTTP2Conn) Begin(s *HTTP2Stream) []byte {
	h.stream, h.next = h.next, h.next+2
	s.id, s.taken, s.Err = h.stream, 0, nil
	h.Open = append(h.Open, s)
	h.toSend -= int64(len(h.http2Request.body))
	h.out.Reset()
	h.http2Request.write(h.framer, h.stream)
	h.Silent += h.out.Len()
	return h.out.Bytes()
}

// StartReply readies s for the frames of its reply, which goes into r.
func (s *HTTP2Stream) StartReply(r *Reply) {
	r.reset()
	r.Timed = true
	s.Reply = r
	s.Parser.start()
}

func (h *HTTP2Conn) Farewell() []byte {
	h.out.Reset()
	_ = h.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	return h.out.Bytes()
}

func (h *HTTP2Conn) Cancel() []byte {
	if h.Torn || h.GoAway != "" || h.Silent > mostUnanswered || h.Spent() {
		return nil
	}
	return h.GiveUp(&h.Only)
}

// GiveUp awaits the reply of s no longer, and returns what tells the peer so.
func (h *HTTP2Conn) GiveUp(s *HTTP2Stream) []byte {
	h.Open = slices.DeleteFunc(h.Open, func(open *HTTP2Stream) bool { return open == s })
	h.out.Reset()
	_ = h.framer.WriteRSTStream(s.id, http2.ErrCodeCancel)
	h.Silent += h.out.Len()
	return h.out.Bytes()
}

// Spent reports whether no further request fits: the numbers of streams end, and so do the windows for data.
func (h *HTTP2Conn) Spent() bool {
	return h.next > http2LastStream || min(h.toSend, h.peers) < int64(len(h.http2Request.body))
}

// flush sends what the framer wrote.
func (h *HTTP2Conn) flush() error {
	_, err := h.W.Write(h.out.Bytes())
	h.out.Reset()
	h.Torn = h.Torn || err != nil
	return err
}

func (h *HTTP2Conn) Read(br *bufio.Reader, r *Reply) error {
	h.in.Reader = br
	h.Only.StartReply(r)
	for {
		if err := h.step(); err != nil {
			return h.Cut(err, r)
		}
		if len(h.Ended) > 0 {
			r.Last = h.GoAway != "" || h.Spent()
			return h.Only.Err
		}
	}
}

// Cut returns what the connection's end means within a reply or before it.
func (h *HTTP2Conn) Cut(err error, r *Reply) error {
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case h.GoAway != "":
		return h.GoAway + ", and the connection ended before the reply"
	case r.InBody:
		return wire.ErrTruncated
	}
	return io.EOF
}

func (h *HTTP2Conn) Heed(br *bufio.Reader) error {
	h.in.Reader = br
	err := h.step()
	if err == nil && h.GoAway != "" {
		return h.GoAway
	}
	return err
}

// step reads a frame and does what it asks for.
func (h *HTTP2Conn) step() error {
	if _, err := h.in.Peek(http2FrameHeader); err != nil {
		return err // and no frame is torn
	}
	f, err := h.Frame()
	err = h.Take(f, err)
	h.Torn = h.Torn || err != nil
	return err
}

// Frame reads the next frame. It is valid until the next call.
func (h *HTTP2Conn) Frame() (http2.Frame, error) { return h.framer.ReadFrame() }

// Take does what a frame asks for, or an error instead of one. What streams it ends is in ended until the next call.
// The error concerns the whole connection.
func (h *HTTP2Conn) Take(f http2.Frame, err error) error {
	h.Ended = h.Ended[:0]
	h.out.Reset()
	if broken, ok := errors.AsType[http2.StreamError](err); ok {
		h.end(h.find(broken.StreamID), wire.Malformed("HTTP/2: "+cmp.Or(text(broken.Cause), "bad header fields")))
		h.Silent = 0
		return nil
	}
	if _, ok := errors.AsType[http2.ConnectionError](err); ok {
		return wire.Malformed("HTTP/2: " + cmp.Or(text(h.framer.ErrorDetail()), err.Error()))
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return wire.Malformed("HTTP/2: a frame longer than agreed on")
	}
	if err != nil {
		return err
	}
	h.Silent = 0
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
		return wire.Malformed("HTTP/2: a push, which was switched off")
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
func (h *HTTP2Conn) end(s *HTTP2Stream, err error) {
	if s == nil {
		return
	}
	s.Err = err
	h.Open = slices.DeleteFunc(h.Open, func(open *HTTP2Stream) bool { return open == s })
	h.Ended = append(h.Ended, s)
}

// find returns the open stream of a number; nil if there is none.
func (h *HTTP2Conn) find(id uint32) *HTTP2Stream {
	i, found := slices.BinarySearchFunc(h.Open, id,
		func(s *HTTP2Stream, id uint32) int { return cmp.Compare(s.id, id) })
	if !found {
		return nil
	}
	return h.Open[i]
}

// awaited returns the open stream that a frame belongs to. Frames of a request that was given up may still come: they
// belong to none.
func (h *HTTP2Conn) awaited(id uint32) (*HTTP2Stream, error) {
	if id%2 == 0 || id > h.stream {
		return nil, wire.Malformed("HTTP/2: a frame on a stream that was never opened")
	}
	return h.find(id), nil
}

func (h *HTTP2Conn) headers(f *http2.MetaHeadersFrame) error {
	s, err := h.awaited(f.StreamID)
	if err != nil || s == nil {
		return err
	}
	if s.Reply.Began == 0 && !f.Truncated {
		s.Reply.Began = h.clock.Now()
	}
	switch {
	case f.Truncated:
		err = wire.Malformed("header too large")
	case !s.Reply.InBody:
		err = s.Parser.header(f, s.Reply)
	case !f.StreamEnded():
		err = wire.Malformed("HTTP/2: a second header that does not end the stream")
	case len(f.PseudoFields()) > 0:
		err = wire.Malformed("HTTP/2: a trailer with pseudo-header fields")
	default:
		err = s.Parser.trailer(f, s.Reply)
	}
	h.went(s, err, f.StreamEnded())
	return nil
}

// went ends a stream after a frame that could not be taken, or was the last.
func (h *HTTP2Conn) went(s *HTTP2Stream, err error, last bool) {
	switch {
	case err != nil:
		h.end(s, err)
	case last:
		h.end(s, s.Parser.end(s.Reply))
	}
}

// data takes a piece of a body, and lets the server send as much again once half of a window is used up.
func (h *HTTP2Conn) data(f *http2.DataFrame) error {
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
	case !s.Reply.InBody:
		err = wire.Malformed("HTTP/2: data before a header")
	default:
		err = s.Parser.data(f.Data(), s.Reply)
	}
	h.went(s, err, f.StreamEnded())
	return nil
}

// reset ends a stream that the server has reset. The connection goes on.
func (h *HTTP2Conn) reset(f *http2.RSTStreamFrame) {
	if s := h.find(f.StreamID); s != nil {
		s.Reply.class, s.Reply.fault = timeline.Reset, wire.AnnouncedEnd("RST_STREAM "+f.ErrCode.String())
		h.end(s, nil)
	}
}

// leaving notes a GOAWAY. Requests above its last stream are not processed, and end; the others may finish (RFC 9113,
// section 6.8).
func (h *HTTP2Conn) leaving(f *http2.GoAwayFrame) {
	h.GoAway = wire.AnnouncedEnd("GOAWAY " + f.ErrCode.String())
	if debug := f.DebugData(); len(debug) > 0 {
		h.GoAway += wire.AnnouncedEnd(fmt.Sprintf(" %q", debug[:min(len(debug), 80)]))
	}
	for last := len(h.Open) - 1; last >= 0 && h.Open[last].id > f.LastStreamID; last-- {
		h.end(h.Open[last], h.GoAway+": the request was not processed")
	}
}

func (h *HTTP2Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
		h.peers = int64(window)
	}
	if most, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		h.Most = most
	}
	_ = h.framer.WriteSettingsAck()
	return h.flush()
}
