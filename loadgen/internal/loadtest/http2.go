package loadtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// An HTTP2Script is a server's side of an HTTP/2 connection that writes any frames a test wants, valid or not.
type HTTP2Script struct {
	*http2.Framer
	net.Conn
	Block   bytes.Buffer   // what Fields writes to
	Fields  *hpack.Encoder // of headers
	GivenUp []uint32       // streams that the client has reset
}

// NewHTTP2Script returns a script that writes to w and reads from r.
func NewHTTP2Script(w io.Writer, r io.Reader) *HTTP2Script {
	c := &HTTP2Script{Framer: http2.NewFramer(w, r)}
	c.AllowIllegalWrites = true
	c.Fields = hpack.NewEncoder(&c.Block)
	return c
}

// Header writes a header, or a trailer: "status: 200" is a pseudo-header field.
func (c *HTTP2Script) Header(stream uint32, end bool, fields ...string) {
	c.Block.Reset()
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if name == "status" {
			name = ":status"
		}
		_ = c.Fields.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	_ = c.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      stream,
		BlockFragment: c.Block.Bytes(),
		EndStream:     end,
		EndHeaders:    true,
	})
}

// OK ends a stream with status 200 and no body.
func (c *HTTP2Script) OK(stream uint32) { c.Header(stream, true, "status: 200", "x-pod: pod-a") }

// GRPCReply answers a gRPC call with a message, if there is one, and a trailer.
func (c *HTTP2Script) GRPCReply(stream uint32, message []byte, trailer ...string) {
	c.Header(stream, false, "status: 200", "content-type: application/grpc", "x-pod: pod-a")
	if message != nil {
		_ = c.WriteData(stream, false, Framed(message))
	}
	c.Header(stream, true, trailer...)
}

// Framed returns a gRPC message with its prefix: not compressed, and its length.
func Framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// ServingMessage is the health check's answer SERVING.
var ServingMessage = []byte{8, 1}

// RunHTTP2 serves a connection. It calls answer when the n-th request, counted from 1, is whole, and returns when
// answer returns false or the connection ends.
func RunHTTP2(conn net.Conn, answer func(c *HTTP2Script, stream uint32, n int) bool) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	c := NewHTTP2Script(conn, conn)
	c.Conn = conn
	_ = c.WriteSettings()
	for n := 0; ; {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		if settings, ok := f.(*http2.SettingsFrame); ok && !settings.IsAck() {
			_ = c.WriteSettingsAck()
		}
		if f.Header().Type == http2.FrameRSTStream {
			c.GivenUp = append(c.GivenUp, f.Header().StreamID)
		}
		isRequest := f.Header().Type == http2.FrameHeaders || f.Header().Type == http2.FrameData
		if isRequest && f.Header().Flags.Has(http2.FlagDataEndStream) {
			n++
			if !answer(c, f.Header().StreamID, n) {
				return
			}
		}
	}
}
