package protocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// answered makes the answer to a query of what change makes of a good one without records.
func answerTo(t testing.TB, query string, change func(*dnsmessage.Message)) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack([]byte(query)); err != nil {
		t.Errorf("a query that is none: %v", err)
		return ""
	}
	m.Response, m.Additionals = true, nil
	change(&m)
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return string(packed)
}

// having returns an answer with these addresses.
func having(addrs ...string) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		for _, text := range addrs {
			r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}}
			if addr := netip.MustParseAddr(text); addr.Is4() {
				r.Body = &dnsmessage.AResource{A: addr.As4()}
			} else {
				r.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
			}
			m.Answers = append(m.Answers, r)
		}
	}
}

func many(n int) (addrs []string) {
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("10.244.%d.%d", i/250, i%250+1))
	}
	return addrs
}

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
	for _, change := range []func(*dnsmessage.Message){having("10.0.0.1"), having(), having("fd00::1"), having(many(60)...), func(m *dnsmessage.Message) { m.RCode = 3 }, func(m *dnsmessage.Message) { m.Truncated = true }} {
		f.Add([]byte(answerTo(f, query, change)))
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
