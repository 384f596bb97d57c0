package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var (
	webSocketPlain = Protocol{
		Scheme:  "ws",
		Example: "ws://HOST[:PORT][/PATH]",
		Port:    "80",
		Paths:   true,
		Options: []string{"host", "header", "header-from", "backend-header", "ca-file"},
		Proves:  provenByPong,
		compile: newWebSocket,
	}
	webSocketSecure = webSocketPlain.overTLS("wss", "http/1.1")
)

func provenByPong(Probe) Proof {
	return Proof{Text: "a pong to a ping, whether or not the application sends anything"}
}

// webSocket speaks to ws:// and wss:// targets (RFC 6455): the upgrade, once per connection, and a ping for each
// request, which the server must answer with a pong of the same payload. Other messages of the server are read and
// ignored, and its own pings are answered.
//
//	what happened                                                          class
//	the upgrade is refused with a status of 400 to 499, of 500 to 599      http_4xx, http_5xx
//	it is answered with another status, such as 200, or with no HTTP       body
//	the handshake's answer is not to our key; bytes that are no frames     body
//	a close frame, or the connection's end, instead of the pong            eof, with a close frame's code and reason
//	no pong in time, no answer to the upgrade                              timeout_response
//	no connection, no TLS                                                  refused, reset, tls, …
//
// A close frame while no request is open is no failure: the next request opens another connection.
type webSocket struct {
	url           string
	header        http.Header
	backendHeader string
}

func newWebSocket(p Probe, u *url.URL) (Codec, error) {
	if err := checkHTTP(p); err != nil {
		return nil, err
	}
	header := p.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	ours := []string{"Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions"}
	for _, name := range ours {
		if header.Get(name) != "" {
			return nil, fmt.Errorf("header %s is set by Lapse and cannot be overridden", name)
		}
	}
	header.Set("Host", cmp.Or(header.Get("Host"), p.Host, HostHeader(u)))
	header.Set("User-Agent", cmp.Or(header.Get("User-Agent"), "lapse"))
	backendHeader := cmp.Or(p.BackendHeader, DefaultBackendHeader)
	return &webSocket{url: u.String(), header: header, backendHeader: backendHeader}, nil
}

func (d *webSocket) Request() []byte { return nil }

func (d *webSocket) Awaits() bool { return true }

func (d *webSocket) Read(*bufio.Reader, *Reply) error { return wire.ErrMalformed }

// Judge: read lets only the pong pass.
func (d *webSocket) Judge(*Reply) (timeline.Class, error) { return timeline.OK, nil }

var upgradeBuffers sync.Pool // of gorilla's, which are not needed after the upgrade

// Begin upgrades the connection.
func (d *webSocket) Begin(c *wire.Conn) (Dialog, error) {
	below := &upgrading{Conn: c.Conn, br: c.Br}
	dial := func(context.Context, string, string) (net.Conn, error) { return below, nil }
	upgrade := websocket.Dialer{
		NetDialContext:    dial,
		NetDialTLSContext: dial,
		ReadBufferSize:    1024,
		WriteBufferSize:   1024,
		WriteBufferPool:   &upgradeBuffers,
	}
	_, answer, err := upgrade.Dial(d.url, d.header)
	switch {
	case err == nil:
		return newWebSocketDialog(c, answer.Header.Get(d.backendHeader)), nil
	case answer != nil && answer.StatusCode != http.StatusSwitchingProtocols:
		return nil, refusedUpgrade(answer.StatusCode)
	case answer != nil:
		return nil, wire.Malformed("status 101, but it does not upgrade to WebSocket as asked")
	case below.err != nil:
		return nil, below.err
	}
	return nil, wire.Malformed(err.Error())
}

// refusedUpgrade returns the error of an upgrade that was answered by another status than 101.
func refusedUpgrade(status int) error {
	why := "the upgrade was refused"
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		why += ": a server may want credentials or an Origin, as in --header 'Origin: https://HOST'"
	case status/100 == 2:
		why = "no upgrade: the path serves plain HTTP"
	case status/100 == 3:
		why += ": redirects are not followed"
	}
	return fmt.Errorf("%w: %s", wire.UnexpectedStatus(status), why)
}

// upgrading is a connection in its upgrade. A read ends with a line, so that nothing is taken that follows the header.
type upgrading struct {
	net.Conn
	br  *bufio.Reader
	err error // the connection's own
}

func (u *upgrading) Read(p []byte) (int, error) {
	if _, err := u.br.Peek(1); err != nil {
		u.err = err
		return 0, err
	}
	ahead, _ := u.br.Peek(min(u.br.Buffered(), len(p)))
	if bytes.HasPrefix(ahead, []byte{wire.AlertRecord, 3}) {
		u.err = wire.Malformed("a TLS alert: the server speaks TLS, as in wss://")
		return 0, u.err
	}
	n := bytes.IndexByte(ahead, '\n') + 1
	if n == 0 {
		n = len(ahead)
	}
	copy(p, ahead[:n])
	return u.br.Discard(n)
}

func (u *upgrading) Write(p []byte) (n int, err error) {
	if n, err = u.Conn.Write(p); err != nil {
		u.err = err
	}
	return n, err
}

func (u *upgrading) Close() error                { return nil } // its owner does
func (u *upgrading) SetDeadline(time.Time) error { return nil } // its owner has

// Frames and their lengths (RFC 6455, sections 5.2 and 5.5).
const (
	finalBit, reservedBits, maskBit = 0x80, 0x70, 0x80

	continuationFrame, textFrame, binaryFrame = 0, 1, 2
	closeFrame, pingFrame, pongFrame          = 8, 9, 10

	longestControl = 125
	lengthIn16     = 126
	lengthIn64     = 127
)

// A webSocketDialog is a connection after its upgrade.
type webSocketDialog struct {
	w         io.Writer
	backend   string
	asked     [8]byte // the payload of the last ping: their number
	out       []byte  // the last frame written
	head      [8]byte
	control   [longestControl]byte
	fragments bool // the message read last goes on
}

func newWebSocketDialog(w io.Writer, backend string) *webSocketDialog {
	return &webSocketDialog{w: w, backend: backend}
}

func (d *webSocketDialog) Request() []byte {
	binary.BigEndian.PutUint64(d.asked[:], binary.BigEndian.Uint64(d.asked[:])+1)
	return d.masked(pingFrame, d.asked[:])
}

func (d *webSocketDialog) Farewell() []byte {
	return d.masked(closeFrame, binary.BigEndian.AppendUint16(nil, websocket.CloseNormalClosure))
}

// masked returns a control frame as clients send it.
func (d *webSocketDialog) masked(kind byte, payload []byte) []byte {
	var mask [4]byte
	binary.BigEndian.PutUint32(mask[:], rand.Uint32())
	d.out = append(d.out[:0], finalBit|kind, maskBit|byte(len(payload)))
	d.out = append(d.out, mask[:]...)
	for i, b := range payload {
		d.out = append(d.out, b^mask[i%len(mask)])
	}
	return d.out
}

func (d *webSocketDialog) Read(br *bufio.Reader, r *Reply) error {
	r.reset()
	r.Backend = append(r.Backend, d.backend...)
	for {
		if pong, err := d.frame(br); err != nil || bytes.Equal(pong, d.asked[:]) {
			return err
		}
	}
}

func (d *webSocketDialog) Heed(br *bufio.Reader) error {
	_, err := d.frame(br)
	return err
}

// frame reads a frame and does what it asks for. It returns the payload of a pong.
func (d *webSocketDialog) frame(br *bufio.Reader) (pong []byte, err error) {
	kind, length, err := d.header(br)
	if err != nil {
		return nil, err
	}
	if kind < closeFrame {
		return nil, skip(br, length)
	}
	payload := d.control[:length]
	if _, err := io.ReadFull(br, payload); err != nil {
		return nil, err
	}
	switch kind {
	case pingFrame:
		_, err = d.w.Write(d.masked(pongFrame, payload))
		return nil, err
	case pongFrame:
		return payload, nil
	}
	return nil, closedBy(payload)
}

// header reads a frame up to its payload.
func (d *webSocketDialog) header(br *bufio.Reader) (kind byte, length uint64, err error) {
	if _, err := io.ReadFull(br, d.head[:2]); err != nil {
		return 0, 0, err
	}
	first, second := d.head[0], d.head[1]
	kind, length = first&0xf, uint64(second&^maskBit)
	final := first&finalBit != 0
	switch {
	case first&reservedBits != 0:
		return 0, 0, wire.Malformed("a WebSocket frame of an extension that was not agreed on")
	case second&maskBit != 0:
		return 0, 0, wire.Malformed("a masked WebSocket frame from a server")
	case kind >= closeFrame && kind <= pongFrame:
		if !final || length > longestControl {
			return 0, 0, wire.Malformed("a WebSocket control frame in fragments, or too long")
		}
		return kind, length, nil
	case kind > binaryFrame, (kind == continuationFrame) != d.fragments:
		return 0, 0, wire.Malformed("a WebSocket frame of an unknown kind, or out of order")
	}
	d.fragments = !final
	length, err = d.extended(br, length)
	return kind, length, err
}

// extended returns a length that may follow in further bytes.
func (d *webSocketDialog) extended(br *bufio.Reader, length uint64) (uint64, error) {
	switch length {
	case lengthIn16:
		_, err := io.ReadFull(br, d.head[:2])
		return uint64(binary.BigEndian.Uint16(d.head[:2])), err
	case lengthIn64:
		_, err := io.ReadFull(br, d.head[:8])
		length = binary.BigEndian.Uint64(d.head[:8])
		if err == nil && length >= 1<<63 {
			err = wire.Malformed("a WebSocket frame of a negative length")
		}
		return length, err
	}
	return length, nil
}

func skip(br *bufio.Reader, length uint64) error {
	for length > 0 {
		n, err := br.Discard(int(min(length, 1<<30)))
		if err != nil {
			return err
		}
		length -= uint64(n)
	}
	return nil
}

// closedBy returns the error of a close frame: "closed by the server: 1001 going away: deploy".
func closedBy(payload []byte) error {
	if len(payload) < 2 {
		return wire.AnnouncedEnd("closed by the server, without a code")
	}
	text := (&websocket.CloseError{Code: int(binary.BigEndian.Uint16(payload)), Text: string(payload[2:])}).Error()
	return wire.AnnouncedEnd("closed by the server: " + strings.TrimPrefix(text, "websocket: close "))
}
