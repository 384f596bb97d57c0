package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// What a wrong reply was is quoted as far as it had come, and what came beyond the expected text is counted.
func TestTCPRepliesAreQuotedWhole(t *testing.T) {
	for _, test := range []struct {
		want, got, text string
		whole           bool
	}{
		{"+PONG", "+PONG\r\n", `not the expected text alone: 2 bytes more came: "+PONG\r\n"`, true},
		{"+PONG", "-ERR busy, come back later\r\n", `not the expected text: "-ERR busy, come back later\r\n"`, false},
		{"+PONG", "+PINK FLOYD\r\n", `not the expected text: "+PINK FLOYD\r\n"`, true},
		{"+PONG", "+PONG\r\n", "", false},
	} {
		d := &tcp{want: []byte(test.want), whole: test.whole}
		var r Reply
		err := d.Read(bufio.NewReader(strings.NewReader(test.got)), &r)
		if got := fmt.Sprint(err); got != test.text && (err != nil || test.text != "") {
			t.Errorf("%q for %q: %s, want %s", test.got, test.want, got, test.text)
		}
	}
}

func TestTCPReplyInPiecesIsOne(t *testing.T) {
	d := &tcp{want: []byte(strings.Repeat("ping", 2000)), whole: true} // longer than the read buffer
	var r Reply
	if err := d.Read(bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(string(d.want))), wire.ReadBuffer),
		&r); err != nil {
		t.Error(err)
	}
}

func TestTCPProbesAreChecked(t *testing.T) {
	tests := map[string]func(*Probe){
		"names no port":              func(p *Probe) { p.URL = "tcp://web" },
		"more than a host":           func(p *Probe) { p.URL = "tcp://web:1/health" },
		"longer than":                func(p *Probe) { p.Echo = strings.Repeat("x", longestEcho+1) },
		"nothing is seen":            func(p *Probe) { p.Kind = timeline.Reused },
		"text is sent and awaited":   func(p *Probe) { p.Kind, p.Reply = timeline.Reused, "220" },
		`scheme "ftp" is not one of`: func(p *Probe) { p.URL = "ftp://web:1" },
	}
	for want, spoil := range tests {
		p := probe(1, timeline.New, "tcp://web:1", 10)
		spoil(&p)
		if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// However a reply arrives, it is good if it begins with what is expected, and nothing beyond that is taken.
func FuzzTCPRepliesAreComparedByteForByte(f *testing.F) {
	f.Add([]byte("+PONG\r\n"), []byte("+PONG\r\n"), false, false)
	f.Add([]byte("+PONG\r\n+PONG\r\n"), []byte("+PONG\r\n"), true, true)
	f.Add([]byte("+PO"), []byte("+PONG\r\n"), true, false)
	f.Fuzz(func(t *testing.T, data, want []byte, whole, slowly bool) {
		if len(data)+len(want) > 2*longestEcho {
			return
		}
		var source io.Reader = bytes.NewReader(data)
		if slowly {
			source = iotest.OneByteReader(source)
		}
		br := bufio.NewReaderSize(source, wire.ReadBuffer)
		var r Reply
		err := (&tcp{want: want, whole: whole}).Read(br, &r)
		switch begins := bytes.HasPrefix(data, want); {
		case !begins && err == nil:
			t.Errorf("%q passed for %q", data, want)
		case begins && err != nil && (!whole || len(data) == len(want)):
			t.Errorf("%q for %q: %v", data, want, err)
		case begins && err == nil:
			if rest, _ := io.ReadAll(br); len(rest) != len(data)-len(want) {
				t.Errorf("%q for %q: %d bytes are left", data, want, len(rest))
			}
		}
		if err != nil && !errors.Is(err, wire.ErrUnexpected) && !errors.Is(err, wire.ErrTruncated) &&
			(!errors.Is(err, io.EOF) || len(data) > 0) {
			t.Errorf("%q for %q: %v", data, want, err)
		}
	})
}
