package faultserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A speech is a protocol as it is spoken on one connection, with one request at a time.
type speech interface {
	// read reads a request, and tells whether it asks for the connection to be closed.
	read() (last bool, err error)
	// reply is a whole reply to that request, a good one or an error; last says that the connection ends with it.
	reply(good, last bool) []byte
	// cut is a good reply without its end.
	cut() []byte
	// left reads what the client sends while it waits for the reply, until the deadline for reading: is it gone, or
	// has it given up this request?
	left() (gone, gaveUp bool)
}

// speeches are those there are, by Config.Protocol.
var speeches = map[string]func(*conn) speech{
	"":     newHTTP1,
	"sse":  newEvents,
	"h2c":  func(c *conn) speech { return newHTTP2(c, false) },
	"grpc": func(c *conn) speech { return newHTTP2(c, true) },
	"ws":   newWebSocket,
	"tcp":  newEcho,
}

// http1 speaks HTTP/1.1, and sends a text or an event stream.
type http1 struct {
	requests *bufio.Reader
	name     string
	events   bool
}

func newHTTP1(c *conn) speech { return &http1{requests: c.requests, name: c.name()} }
func newEvents(c *conn) speech {
	return &http1{requests: c.requests, name: c.name(), events: true}
}

func (h *http1) read() (last bool, err error) { return readRequest(h.requests) }

func (h *http1) left() (gone, gaveUp bool) {
	_, err := h.requests.Peek(1)
	return !errors.Is(err, os.ErrDeadlineExceeded), false
}

func (h *http1) cut() []byte {
	whole := h.reply(true, false)
	return whole[:len(whole)-len(body)/2]
}

func (h *http1) reply(good, last bool) []byte {
	status := "200 OK"
	if !good {
		status = "503 Service Unavailable"
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	if h.events && good {
		b.WriteString("Content-Type: text/event-stream\r\n") // which ends with the connection
	} else {
		b.WriteString("Content-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	if h.name != "" {
		b.WriteString("X-Pod: " + h.name + "\r\n")
	}
	if last {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if h.events && good {
		b.WriteString("data: " + body + "\n")
	} else {
		b.WriteString(body)
	}
	return []byte(b.String())
}

// An http2Speech speaks HTTP/2 with prior knowledge, and lets one request be open on a connection at a time: frames
// are x/net's, and requests are not looked at beyond where they end. Of gRPC it answers every method as the health
// check: SERVING, or UNAVAILABLE.
type http2Speech struct {
	requests *bufio.Reader
	framer   *http2.Framer
	out      bytes.Buffer
	name     string
	grpc     bool
	greeted  bool
	stream   uint32   // of the request that was read last
	ahead    []uint32 // of the requests that came while that one waited: a client may write the next before it gives up
	write    func([]byte) (int, error)
}

func newHTTP2(c *conn, grpc bool) speech {
	h := &http2Speech{requests: c.requests, name: c.name(), grpc: grpc, write: c.Write}
	h.framer = http2.NewFramer(&h.out, c.requests)
	return h
}

func (h *http2Speech) read() (last bool, err error) {
	if !h.greeted {
		if _, err := io.ReadFull(h.requests, make([]byte, len(http2.ClientPreface))); err != nil {
			return false, err
		}
		h.greeted = true
		h.out.Reset()
		_ = h.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}) // to memory
		if _, err := h.write(h.out.Bytes()); err != nil {
			return false, err
		}
	}
	for len(h.ahead) == 0 {
		f, err := h.frame()
		switch {
		case err != nil:
			return false, err
		case f.Header().Type == http2.FrameGoAway:
			return false, io.EOF
		case endsRequest(f):
			h.ahead = append(h.ahead, f.Header().StreamID)
		}
	}
	h.stream, h.ahead = h.ahead[0], h.ahead[1:]
	return false, nil
}

// endsRequest reports whether a frame is the last of a request. DATA and HEADERS have the same bit for it.
func endsRequest(f http2.Frame) bool {
	head := f.Header()
	return (head.Type == http2.FrameHeaders || head.Type == http2.FrameData) && head.Flags.Has(http2.FlagDataEndStream)
}

// frame reads a frame, and says what SETTINGS and PING want.
func (h *http2Speech) frame() (http2.Frame, error) {
	f, err := h.framer.ReadFrame()
	if err != nil {
		return nil, err
	}
	h.out.Reset()
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			_ = h.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = h.framer.WritePing(true, f.Data)
		}
	}
	if h.out.Len() > 0 {
		_, err = h.write(h.out.Bytes())
	}
	return f, err
}

func (h *http2Speech) left() (gone, gaveUp bool) {
	for {
		if _, err := h.requests.Peek(9); err != nil { // nothing of a frame is taken before the deadline
			return !errors.Is(err, os.ErrDeadlineExceeded), false
		}
		f, err := h.frame()
		if err != nil {
			return true, false
		}
		switch {
		case f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == h.stream:
			return false, true
		case endsRequest(f):
			h.ahead = append(h.ahead, f.Header().StreamID)
		}
	}
}

// grpcMessage is the health check's SERVING, after its length.
const grpcMessage = "\x00\x00\x00\x00\x02\x08\x01"

func (h *http2Speech) cut() []byte {
	h.out.Reset()
	h.header(true, false)
	content := h.content()
	_ = h.framer.WriteData(h.stream, false, content[:len(content)/2])
	return bytes.Clone(h.out.Bytes())
}

func (h *http2Speech) content() []byte {
	if h.grpc {
		return []byte(grpcMessage)
	}
	return []byte(body)
}

// reply of a last request follows a GOAWAY that lets this request finish.
func (h *http2Speech) reply(good, last bool) []byte {
	h.out.Reset()
	if last {
		_ = h.framer.WriteGoAway(h.stream, http2.ErrCodeNo, nil)
	}
	h.header(good, h.grpc && !good)
	switch {
	case h.grpc && good:
		_ = h.framer.WriteData(h.stream, false, h.content())
		h.fields(true, "grpc-status", "0")
	case !h.grpc:
		_ = h.framer.WriteData(h.stream, true, h.content())
	}
	return bytes.Clone(h.out.Bytes())
}

func (h *http2Speech) header(good, end bool) {
	fields := []string{":status", "200"}
	switch {
	case h.grpc:
		fields = append(fields, "content-type", "application/grpc")
		if !good {
			fields = append(fields, "grpc-status", "14", "grpc-message", "as scheduled")
		}
	default:
		if !good {
			fields[1] = "503"
		}
		fields = append(fields, "content-length", strconv.Itoa(len(body)))
	}
	if h.name != "" {
		fields = append(fields, "x-pod", h.name)
	}
	h.fields(end, fields...)
}

// fields writes a header, or a trailer, of names and values.
func (h *http2Speech) fields(end bool, fields ...string) {
	var block bytes.Buffer
	compress := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		field := hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true} // so it enters no table
		_ = compress.WriteField(field)
	}
	_ = h.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      h.stream,
		BlockFragment: block.Bytes(),
		EndStream:     end,
		EndHeaders:    true,
	})
}
