package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"lapse/internal/hint"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var (
	eventsPlain = Protocol{
		Scheme:     "sse",
		Example:    "sse://HOST[:PORT][/PATH]",
		Port:       "80",
		Paths:      true,
		Options:    []string{"host", "header", "header-from", "expect-body", "backend-header", "ca-file"},
		Persistent: neverPersistent,
		NewOnly:    streamsGoOn,
		Proves:     provenByEvent,
		compile:    newEvents,
	}
	eventsSecure = eventsPlain.overTLS("sses", "http/1.1")
)

const streamsGoOn = "an event stream does not end, and its connection carries no second request"

func neverPersistent(Probe) bool { return false }

func provenByEvent(Probe) Proof { return Proof{Text: "the first event of a stream"} }

// events speaks to sse:// and sses:// targets: server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) over HTTP/1.1. A request opens a stream on a
// connection of its own, and is good when the first event has come, or the first that has the expected text in its
// data. Then the connection is closed. Comments are no events: a proxy's keepalive proves nothing of the application.
//
// It is a protocol of its own and no option of http://, because there a reply is good when it has ended, and a stream
// does not end.
//
//	what happened                                                             class
//	a status other than 200                                                   http_4xx, http_5xx, else body
//	another content-type than text/event-stream; a reply that is no HTTP      body
//	the stream ends, or the connection, before such an event has come         body
//	the connection ends before the header                                     eof, reset
//	no such event in time                                                     timeout_response
//	no connection, no TLS                                                     as everywhere: refused, reset, tls, …
type events struct {
	text []byte
	want wanted
	part []byte // of an event's data
}

func newEvents(p Probe, u *url.URL) (Codec, error) {
	p.Method = ""
	if err := checkHTTP(p); err != nil {
		return nil, err
	}
	if p.Kind == timeline.Reused || p.Kind == timeline.Control {
		return nil, hint.Errorf("measure new connections only", "%s", streamsGoOn)
	}
	p.Header = p.Header.Clone()
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set("Accept", cmp.Or(p.Header.Get("Accept"), "text/event-stream"))
	want := wantedOf(p)
	want.body, want.kind = nil, true
	return &events{text: formatRequest(p, u), want: want, part: []byte(p.ExpectBody)}, nil
}

func (d *events) Request() []byte { return d.text }

func (d *events) Awaits() bool { return true }

func (d *events) Read(br *bufio.Reader, r *Reply) error {
	in := replyReader{br: br, want: &d.want, reply: r, budget: headerLimit}
	if err := in.finalHeader(); err != nil {
		return err
	}
	r.Last = true
	switch kind, _, _ := strings.Cut(in.kind, ";"); {
	case r.Status != http.StatusOK:
		r.class, r.fault = wire.StatusClass(r.Status), wire.UnexpectedStatus(r.Status)
		return nil
	case !strings.EqualFold(strings.TrimSpace(kind), "text/event-stream"):
		return wire.Malformed(fmt.Sprintf("no event stream: its content-type is %q", in.kind))
	}
	return d.await(in.stream())
}

// stream returns the body, however it is framed.
func (in *replyReader) stream() io.Reader {
	switch {
	case in.chunked:
		return httputil.NewChunkedReader(in.br)
	case in.length >= 0:
		return io.LimitReader(in.br, in.length)
	}
	return in.br
}

// await reads up to the event that is awaited.
func (d *events) await(stream io.Reader) error {
	var parser eventParser
	piece := make([]byte, 512)
	for total := 0; total < searchedBytes; {
		n, err := stream.Read(piece)
		for _, b := range piece[:n] {
			if data, complete := parser.take(b); complete && bytes.Contains(data, d.part) {
				return nil
			}
		}
		total += n
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: the stream ended before the event", wire.ErrTruncated)
		case err != nil && (wire.IsTimeout(err) || wire.Classify(err, wire.Receiving) != timeline.Other):
			return err
		case err != nil:
			return wire.Malformed(err.Error()) // of its chunks
		}
	}
	return wire.Malformed("no such event in the first MiB of the stream")
}

// Judge: read lets only the awaited event pass, or a status.
func (d *events) Judge(r *Reply) (timeline.Class, error) {
	if r.fault != nil {
		return r.class, r.fault
	}
	return timeline.OK, nil
}

// An eventParser reads an event stream byte by byte.
type eventParser struct {
	line    []byte
	data    []byte // of the event so far, a newline after each line
	afterCR bool   // the last line ended with CR: an LF belongs to it
	begun   bool   // a line was read: no byte order mark follows
}

// take takes a byte. It reports whether it completes an event, and what data that has. An event without data is none.
func (p *eventParser) take(b byte) (data []byte, complete bool) {
	afterCR := p.afterCR
	p.afterCR = b == '\r'
	switch {
	case b == '\n' && afterCR:
		return nil, false
	case b != '\n' && b != '\r':
		p.line = append(p.line, b)
		return nil, false
	}
	if !p.begun {
		p.begun = true
		p.line = bytes.TrimPrefix(p.line, []byte("\ufeff"))
	}
	if len(p.line) == 0 {
		data, p.data = p.data, nil
		return bytes.TrimSuffix(data, []byte("\n")), len(data) > 0
	}
	name, value, _ := bytes.Cut(p.line, []byte(":"))
	if string(name) == "data" {
		p.data = append(append(p.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
	}
	p.line = p.line[:0]
	return nil, false
}
