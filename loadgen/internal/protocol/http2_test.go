package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A connection whose peer sends nothing at all is not kept for ever: what is written to it must never wait.
func TestSilentHTTP2ConnectionsAreGivenUpAtLast(t *testing.T) {
	var r Reply
	h := newHTTP2Conn(testRequest(t, "h2c://web/"), &httpTwoReply{want: &wanted{}}, io.Discard, bufio.NewReader(iotest.ErrReader(errGone)))
	for written := 0; written <= 2*mostUnanswered; {
		written += len(h.Request())
		if err := h.Read(h.in.Reader, &r); !errors.Is(err, errGone) {
			t.Fatal(err)
		}
		message := h.Cancel()
		if kept := message != nil; kept != (written <= mostUnanswered) {
			t.Fatalf("after %d bytes: kept %v", written, kept)
		}
		written += len(message)
	}
}

func testRequest(t *testing.T, url string) *http2Request {
	t.Helper()
	p := probe(1, timeline.New, url, 10)
	plan, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	switch d := plan.Codec.(type) {
	case *httpTwo:
		return &d.http2Request
	case *grpcUnary:
		return &d.http2Request
	}
	t.Fatalf("%T", plan.Codec)
	return nil
}

func TestHTTP2ProbesAreChecked(t *testing.T) {
	p := probe(1, timeline.New, "h2c://web/", 10)
	for _, name := range []string{"Upgrade", "Connection", "Keep-Alive", "Transfer-Encoding", "Te"} {
		p.Header = http.Header{name: {"x"}}
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Header, p.Method = nil, "CONNECT"
	if err := p.Check(); err == nil {
		t.Error("CONNECT passed")
	}
}

// The streams of a connection have an end.
func TestHTTP2ConnectionsEndWithTheirStreams(t *testing.T) {
	h := newHTTP2Conn(testRequest(t, "h2c://web/"), &httpTwoReply{want: &wanted{}}, io.Discard, bufio.NewReader(strings.NewReader("")))
	for h.next = http2LastStream - 2; !h.Spent(); {
		h.Request()
	}
	if h.stream != http2LastStream {
		t.Errorf("the last stream is %d", h.stream)
	}
}

// Whatever frames come, they are read alike however they arrive, and what passes for a reply is one to net/http2's
// client too.
func FuzzHTTP2RepliesAreReadAsByNetHTTP2(f *testing.F) {
	seed := func(write func(c *loadtest.HTTP2Script)) {
		var out bytes.Buffer
		write(loadtest.NewHTTP2Script(&out, nil))
		f.Add(out.Bytes())
	}
	seed(func(c *loadtest.HTTP2Script) { c.OK(1) })
	seed(func(c *loadtest.HTTP2Script) {
		c.Header(1, false, "status: 103")
		c.Header(1, false, "status: 200", "content-length: 5", "x-pod: pod-a")
		_ = c.WriteDataPadded(1, false, []byte("hel"), make([]byte, 9))
		_ = c.WriteGoAway(1, http2.ErrCodeNo, []byte("bye"))
		_ = c.WriteData(1, false, []byte("lo"))
		c.Header(1, true, "x-sum: 1")
	})
	seed(func(c *loadtest.HTTP2Script) {
		_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		_ = c.WritePing(false, [8]byte{1})
		_ = c.WriteWindowUpdate(0, 5)
		_ = c.WriteRSTStream(1, http2.ErrCodeRefusedStream)
	})
	seed(func(c *loadtest.HTTP2Script) {
		c.Header(1, false, "status: 200", "content-length: 5")
		_ = c.WriteData(1, true, []byte("x"))
	})
	seed(func(c *loadtest.HTTP2Script) { c.Header(3, true, "status: 200") })
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, slow Reply
		err, late := readHTTP2(t, bytes.NewReader(data), &whole), readHTTP2(t, iotest.OneByteReader(bytes.NewReader(data)), &slow)
		if fmt.Sprint(err, whole.Status, whole.Last, whole.fault) != fmt.Sprint(late, slow.Status, slow.Last,
			slow.fault) {
			t.Errorf("%q: %v %+v, and byte by byte %v %+v", data, err, whole, late, slow)
		}
		if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrTruncated) &&
			!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", data, err)
		}
		if err == nil && whole.fault == nil {
			if status, err := netHTTP2Reads(t, data); err != nil || status != whole.Status {
				t.Errorf("%q: %+v, but net/http2 says %d, %v", data, whole, status, err)
			}
		}
	})
}

func readHTTP2(t *testing.T, source io.Reader, r *Reply) error {
	h := newHTTP2Conn(testRequest(t, "h2c://web/"), &httpTwoReply{want: &wanted{backendHeader: "x-pod"}}, io.Discard, bufio.NewReaderSize(source, wire.ReadBuffer))
	h.Request()
	return h.Read(h.in.Reader, r)
}

// netHTTP2Reads returns what net/http2's client reads on its first stream of a server that sends SETTINGS and then
// data.
func netHTTP2Reads(t *testing.T, data []byte) (status int, err error) {
	server := &repliesHTTP2{asked: make(chan struct{}), data: io.MultiReader(strings.NewReader("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), bytes.NewReader(data))}
	c, err := (&http2.Transport{AllowHTTP: true, DisableCompression: true}).NewClientConn(server)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest("GET", "http://web/", nil)
	request.RequestURI = ""
	answer, err := c.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// repliesHTTP2 is a connection to a server that sends data once it was asked for something.
type repliesHTTP2 struct {
	net.Conn
	asked chan struct{}
	once  sync.Once
	data  io.Reader
}

func (c *repliesHTTP2) Write(p []byte) (int, error) {
	if len(p) > http2FrameHeader && http2.FrameType(p[3]) == http2.FrameHeaders {
		c.once.Do(func() { close(c.asked) })
	}
	return len(p), nil
}

func (c *repliesHTTP2) Read(p []byte) (int, error) {
	<-c.asked
	return c.data.Read(p)
}

func (c *repliesHTTP2) Close() error { c.once.Do(func() { close(c.asked) }); return nil }

func (c *repliesHTTP2) SetDeadline(time.Time) error { return nil }

func (c *repliesHTTP2) SetReadDeadline(time.Time) error { return nil }

func (c *repliesHTTP2) SetWriteDeadline(time.Time) error { return nil }
