package protocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func TestDNSProbesAreChecked(t *testing.T) {
	for u, want := range map[string]string{
		"dns://10.96.0.10":               "no name to look up",
		"dns://10.96.0.10/.":             "no name to look up",
		"dns://10.96.0.10/web?type=X":    "record type \"X\" is not known",
		"dns://10.96.0.10/web?class=CH":  "more than a name and a type",
		"dns://10.96.0.10/web#x":         "more than a name and a type",
		"dns://10.96.0.10/web..shop":     "cannot be looked up",
		"dns://10.96.0.10/a/b":           "cannot be looked up",
		"dns://10.96.0.10/b%C3%BCcher":   "cannot be looked up",
		"dns:///web":                     "names no host",
		"dns://10.96.0.10/" + long("a."): "cannot be looked up",
		"dns://10.96.0.10/" + long("a"):  "cannot be looked up",
	} {
		if _, err := Compile(probe(1, timeline.New, u, 10)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", u, err, want)
		}
	}
}

func long(label string) string { return strings.Repeat(label, 300) }

// Whatever bytes come, they are judged, and good only if they are an answer to this query with records.
func FuzzDNSAnswers(f *testing.F) {
	u, err := url.Parse("dns://10.96.0.10/web.shop")
	if err != nil {
		f.Fatal(err)
	}
	codec, err := newDNS(Probe{}, u)
	if err != nil {
		f.Fatal(err)
	}
	d := codec.(*dns)
	query := string(d.packed)
	for _, change := range []func(*dnsmessage.Message){loadtest.Having("10.0.0.1"), loadtest.Having(), loadtest.Having("fd00::1"), loadtest.Having(loadtest.Addresses(60)...), func(m *dnsmessage.Message) { m.RCode = 3 }, func(m *dnsmessage.Message) { m.Truncated = true }} {
		f.Add([]byte(loadtest.AnswerTo(f, query, change)))
	}
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		if len(datagram) > wire.LongestDatagram {
			return
		}
		dialog := &dnsDialog{dns: d, sent: bytes.Clone(d.packed)}
		framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(datagram))), datagram...)
		var r Reply
		err := dialog.Read(bufio.NewReaderSize(bytes.NewReader(framed), wire.ReadBuffer), &r)
		_, isDNS := errors.AsType[*net.DNSError](err)
		switch {
		case err == nil && (len(dialog.Found()) == 0 || len(r.Backend) == 0 || !r.bodyAsExpected):
			t.Errorf("%q is good: %+v", datagram, r)
		case err == nil:
			var m dnsmessage.Parser
			header, err := m.Start(datagram)
			if err != nil || header.ID != 0 || !header.Response || header.RCode != dnsmessage.RCodeSuccess ||
				header.Truncated {
				t.Errorf("%q is good", datagram)
			}
		case !isDNS && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrUnexpected):
			t.Errorf("%q: %v", datagram, err)
		}
		if class := wire.Classify(err, wire.Receiving); err != nil && class != timeline.DNS && class != timeline.Body {
			t.Errorf("%q: %v is %v", datagram, err, class)
		}
	})
}
