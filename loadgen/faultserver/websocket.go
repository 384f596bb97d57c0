package faultserver

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Of the frames of WebSocket (RFC 6455, section 5.2), those that are sent and read here. All are short, and whole.
const (
	finalFrame                       = 0x80
	closeFrame, pingFrame, pongFrame = finalFrame | 8, finalFrame | 9, finalFrame | 10

	longestControl = 125

	closeGoingAway, closeInternalError = 1001, 1011 // section 7.4.1
)

// A webSocket upgrades its connection and answers each ping with a pong. An error is a close frame instead, and a
// last reply is followed by one.
type webSocket struct {
	*http1
	write    func([]byte) (int, error)
	upgraded bool
	ping     []byte // payload of the last one
}

func newWebSocket(c *conn) speech {
	return &webSocket{http1: &http1{requests: c.requests, name: c.name()}, write: c.Write}
}

func (w *webSocket) read() (last bool, err error) {
	if !w.upgraded {
		if err := w.upgrade(); err != nil {
			return false, err
		}
		w.upgraded = true
	}
	for {
		kind, payload, err := readFrame(w.requests)
		switch {
		case err != nil:
			return false, err
		case kind == closeFrame:
			return false, io.EOF
		case kind == pingFrame:
			w.ping = payload
			return false, nil
		}
	}
}

// upgrade answers the request with which a connection begins (RFC 6455, section 4.2.2).
func (w *webSocket) upgrade() error {
	request, err := http.ReadRequest(w.requests)
	if err != nil {
		return err
	}
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // section 1.3
	accept := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + guid))
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
	b.WriteString("Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(accept[:]) + "\r\n")
	if w.name != "" {
		b.WriteString("X-Pod: " + w.name + "\r\n")
	}
	b.WriteString("\r\n")
	_, err = w.write([]byte(b.String()))
	return err
}

// readFrame reads a client's frame, whose payload is masked.
func readFrame(r *bufio.Reader) (kind byte, payload []byte, err error) {
	var head [6]byte // kind, length, mask
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	length := head[1] &^ 0x80
	if length == head[1] || length > longestControl {
		return 0, nil, errors.New("a frame that is not masked, or longer than a ping")
	}
	payload = make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= head[2+i%4]
	}
	return head[0], payload, nil
}

func frame(kind byte, payload []byte) []byte {
	return slices.Concat([]byte{kind, byte(len(payload))}, payload)
}

func closing(code uint16) []byte { return frame(closeFrame, binary.BigEndian.AppendUint16(nil, code)) }

func (w *webSocket) reply(good, last bool) []byte {
	switch {
	case !good:
		return closing(closeInternalError)
	case last:
		return append(frame(pongFrame, w.ping), closing(closeGoingAway)...)
	}
	return frame(pongFrame, w.ping)
}

// cut returns a pong without its last byte.
func (w *webSocket) cut() []byte {
	pong := frame(pongFrame, w.ping)
	return pong[:len(pong)-1]
}
