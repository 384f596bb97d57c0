package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func TestEventStreamsAreForNewConnections(t *testing.T) {
	p := probe(1, timeline.Reused, "sse://web/news", 10)
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), streamsGoOn) {
		t.Error(err)
	}
}

// Whatever comes, it is read alike however it arrives, and an event is one to a parser that reads line by line.
func FuzzEventsAreReadAsByLines(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", ": a\r\n\r\nid\rdata\rdata:b\r\r", "\ufeffdata:tea\n\n",
		"data: a\ndata: tea\n\nmore", "data\n\n", "data: \n\n", "DATA: tea\n\n"} {
		f.Add(seed, "tea")
	}
	f.Fuzz(func(t *testing.T, stream, part string) {
		if strings.ContainsAny(part, "\r\x00") || len(stream) >= searchedBytes {
			return
		}
		text := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream
		p := probe(1, timeline.New, "sse://web/", 10)
		p.ExpectBody = part
		codec, err := newEvents(p, &url.URL{Scheme: "sse", Host: "web"})
		if err != nil {
			t.Fatal(err)
		}
		var whole, slow Reply
		ours := codec.Read(bufio.NewReaderSize(strings.NewReader(text), wire.ReadBuffer), &whole)
		late := codec.Read(bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), wire.ReadBuffer), &slow)
		if fmt.Sprint(ours) != fmt.Sprint(late) || (ours == nil) != hasEvent(stream, part) {
			t.Errorf("%q with %q: %v, byte by byte %v, by lines %v", stream, part, ours, late, hasEvent(stream, part))
		}
		if ours != nil && !errors.Is(ours, wire.ErrTruncated) {
			t.Error(ours)
		}
	})
}

// hasEvent reports whether a stream has an event with part in its data.
func hasEvent(stream, part string) bool {
	stream = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(stream, "\ufeff"), "\r\n", "\n"), "\r", "\n")
	var data bytes.Buffer
	for line := range strings.Lines(stream) {
		text, whole := strings.CutSuffix(line, "\n")
		name, value, _ := strings.Cut(text, ":")
		switch {
		case !whole:
			return false
		case text == "" && data.Len() > 0:
			if strings.Contains(strings.TrimSuffix(data.String(), "\n"), part) {
				return true
			}
			data.Reset()
		case text != "" && name == "data":
			data.WriteString(strings.TrimPrefix(value, " ") + "\n")
		}
	}
	return false
}
