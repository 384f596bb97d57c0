package protocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func TestUDPProbesAreChecked(t *testing.T) {
	tests := map[string]func(*Probe){
		"names no port":         func(p *Probe) { p.URL = "udp://web" },
		"more than a host":      func(p *Probe) { p.URL = "udp://web:1/health" },
		"nothing is seen":       func(p *Probe) { p.Echo = "" },
		"its answer awaited":    func(p *Probe) { p.Echo, p.Reply = "", "220" },
		"longer than":           func(p *Probe) { p.Echo = strings.Repeat("x", longestUDP+1) },
		"the text to send has ": func(p *Probe) { p.Echo, p.Reply = "ping", "pong {id}" },
	}
	for want, spoil := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			p := probe(1, kind, "udp://web:1", 10)
			p.Echo = "ping"
			spoil(&p)
			if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}

// A reply is good if it begins with what is expected, in which the digits are those sent, and holds them.
func FuzzUDPRepliesAreComparedWithTheirRequest(f *testing.F) {
	f.Add("ping {id}", "", []byte("ping 01234567"), true)
	f.Add("a {id}{id}", "b {id}", []byte("b 01234567, and more"), false)
	f.Add("ping", "pong", []byte("pong"), false)
	f.Fuzz(func(t *testing.T, echo, want string, datagram []byte, sendBack bool) {
		codec, err := newUDP(Probe{Echo: echo, Reply: want}, nil)
		if err != nil {
			return
		}
		d := codec.(*udp)
		dialog := &udpDialog{udp: d, sent: slices.Clone(d.send.text), awaited: slices.Clone(d.want.text)}
		sent := bytes.Clone(dialog.Request())
		id := d.send.id(sent)
		if string(sent) != strings.ReplaceAll(echo, requestID, string(id)) {
			t.Fatalf("sent %q for %q", sent, echo)
		}
		if sendBack {
			datagram = sent
		}
		datagram = datagram[:min(len(datagram), wire.LongestDatagram)]
		framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(datagram))), datagram...)
		var r Reply
		err = dialog.Read(bufio.NewReaderSize(bytes.NewReader(framed), wire.ReadBuffer), &r)
		awaited := strings.ReplaceAll(want, requestID, string(id))
		if want == "" {
			awaited = string(sent)
		}
		if good := bytes.HasPrefix(datagram, []byte(awaited)) && bytes.Contains(datagram, id); good != (err == nil) ||
			good != r.bodyAsExpected {
			t.Errorf("%q for %q, which awaits %q: %v", datagram, sent, awaited, err)
		}
		if err != nil && !errors.Is(err, wire.ErrUnexpected) {
			t.Error(err)
		}
	})
}
