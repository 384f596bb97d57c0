package protocol

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gorilla/websocket"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var errGone = errors.New("gone")

func TestWebSocketProbesAreChecked(t *testing.T) {
	p := probe(1, timeline.New, "ws://web/chat", 10)
	for _, name := range []string{"Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version",
		"Sec-WebSocket-Extensions"} {
		p.Header = http.Header{}
		p.Header.Set(name, "x")
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), "cannot be overridden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Header = http.Header{"Sec-Websocket-Protocol": {"graphql-transport-ws"}, "Cookie": {"a=b"}}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// What the server sends right after the upgrade, in the same segment, is not lost.
func TestWebSocketUpgradeTakesNothingBeyondIt(t *testing.T) {
	codec, err := newWebSocket(probe(1, timeline.New, "ws://web/", 10), &url.URL{Scheme: "ws", Host: "web"})
	if err != nil {
		t.Fatal(err)
	}
	server := &upgradedTo{data: []byte("\x88\x0f\x03\xf4out of memory")}
	c := &wire.Conn{Conn: server, Br: bufio.NewReaderSize(server, wire.ReadBuffer)}
	d, err := codec.(Stateful).Begin(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Heed(c.Br); err == nil || err.Error() != "closed by the server: 1012: out of memory" {
		t.Errorf("%v", err)
	}
}

// Whatever bytes come, a request succeeds exactly if gorilla's client, too, sees the pong to its ping before anything
// that ends the connection.
func FuzzWebSocketFramesAreReadAsByGorilla(f *testing.F) {
	const pong = "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x01"
	f.Add([]byte(pong), false)
	f.Add([]byte("\x81\x05hello\x89\x02hi\x8a\x00"+pong), true)
	f.Add([]byte("\x01\x7e\x00\x80"+strings.Repeat("x", 128)+"\x80\x7f\x00\x00\x00\x00\x00\x00\x00\x01y"+pong), true)
	f.Add([]byte("\x88\x06\x03\xe9gone"+pong), false)
	f.Add([]byte("\x8a\x88abcd\x00\x00\x00\x00\x00\x00\x00\x01"), false)
	f.Fuzz(func(t *testing.T, data []byte, slowly bool) {
		var source io.Reader = bytes.NewReader(data)
		if slowly {
			source = iotest.OneByteReader(source)
		}
		d := newWebSocketDialog(io.Discard, "pod-a")
		ping := bytes.Clone(d.Request())
		var r Reply
		ours := d.Read(bufio.NewReaderSize(source, wire.ReadBuffer), &r)
		theirs := gorillaSeesPong(t, data, ping)
		if (ours == nil) != theirs {
			t.Errorf("%q: we say %v, gorilla %v", data, ours, theirs)
		}
		if ours != nil && !errors.Is(ours, wire.ErrMalformed) && !errors.Is(ours, io.EOF) &&
			!errors.Is(ours, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", data, ours)
		}
	})
}

// gorillaSeesPong reports whether gorilla's client, whose server sends data after the upgrade, gets to a pong of that
// ping's payload.
func gorillaSeesPong(t *testing.T, data, ping []byte) (seen bool) {
	t.Helper()
	var payload [8]byte
	for i := range payload {
		payload[i] = ping[6+i] ^ ping[2+i%4]
	}
	server := &upgradedTo{data: data}
	dial := func(context.Context, string, string) (net.Conn, error) { return server, nil }
	c, _, err := (&websocket.Dialer{NetDialContext: dial}).Dial("ws://web/", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetPongHandler(func(got string) error {
		if seen = got == string(payload[:]); seen {
			return io.EOF
		}
		return nil
	})
	loadtest.AnswerPings(c)
	return seen
}

// upgradedTo is a connection to a server that agrees to the upgrade and sends data.
type upgradedTo struct {
	net.Conn
	data   []byte
	answer io.Reader
}

func (u *upgradedTo) Write(p []byte) (int, error) {
	if u.answer != nil {
		return len(p), nil // pongs, and a close
	}
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p)))
	if err != nil {
		return 0, err
	}
	key := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(key[:]) + "\r\n\r\n"
	u.answer = io.MultiReader(strings.NewReader(head), bytes.NewReader(u.data))
	return len(p), nil
}

func (u *upgradedTo) Read(p []byte) (int, error) { return u.answer.Read(p) }

func (u *upgradedTo) Close() error { return nil }

func (u *upgradedTo) SetDeadline(time.Time) error { return nil }

func (u *upgradedTo) SetReadDeadline(time.Time) error { return nil }

func (u *upgradedTo) SetWriteDeadline(time.Time) error { return nil }
