package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"

	"lapse/internal/hint"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var udpBare = Protocol{
	Scheme:    "udp",
	Example:   "udp://HOST:PORT",
	Options:   []string{"echo", "echo-from", "expect-body"},
	Proves:    func(Probe) Proof { return Proof{Text: "a datagram that begins with the expected text"} },
	Beware:    withoutID,
	datagrams: true,
	compile:   newUDP,
}

// withoutID says what reused sockets do not show without {id}.
func withoutID(p Probe) string {
	if p.Kind != timeline.Reused || strings.Contains(p.Echo, requestID) {
		return ""
	}
	return "without " + requestID +
		" in --echo a reused socket is closed once a reply on it is overdue: what stays wrong for one source port " +
		"shows as single failures"
}

// requestID is what a text to send over UDP may hold. It stands for 8 hexadecimal digits, different ones in each
// request.
const requestID = "{id}"

// longestUDP bounds what is sent to and awaited from a udp:// target, in bytes. More than 1400 is sent in fragments
// on most networks.
const longestUDP = 4000

// udp speaks to udp:// targets: a datagram is sent, and one awaited that begins with the expected text.
//
//	Echo          Reply    a success is
//	"x"           ""       a datagram that begins with x
//	"PING"        "PONG"   one that begins with PONG
//	"PING {id}"   ""       one that begins with PING and the same 8 digits
//	"PING {id}"   "PONG"   one that begins with PONG and holds these 8 digits
//	""            any      refused: to send nothing asks nothing, and to send without an answer proves nothing
//
// A new target sends from another socket, and so from another source port, each time. A reused one keeps its sockets.
// Replies may be late, and UDP does not say to what they reply. With {id} in Echo a reply is the answer to the
// request whose digits it holds, and others are dropped: a socket is kept for the whole run, whatever fails on it.
// Without it a socket on which a reply is overdue is closed, and the next request has a new one. A request is sent
// once.
//
//	what happened                                                   class
//	another text; no or other digits where nothing is overdue       body
//	an ICMP error that the port is closed                           refused
//	an ICMP error that there is no way to the host                  unreachable
//	no reply in time: whether one of the datagrams was lost, or
//	nobody answers, is the same                                     timeout_response
//	the name has no address, there is no route                      dns, unreachable
//
// An ICMP error counts for the datagram that it quotes.
type udp struct {
	send, want template
}

func newUDP(p Probe, _ *url.URL) (Codec, error) {
	switch {
	case p.Echo == "":
		return nil, hint.Errorf(
			"give a text that the server answers, as in --echo ping, or --echo 'ping "+requestID+"'",
			"over UDP nothing is seen unless a text is sent and its answer awaited")
	case len(p.Echo) > longestUDP || len(p.Reply) > longestUDP:
		return nil, fmt.Errorf("the text to send or to await is longer than %d bytes", longestUDP)
	}
	d := &udp{send: newTemplate(p.Echo), want: newTemplate(cmp.Or(p.Reply, p.Echo))}
	if len(d.want.ids) > 0 && len(d.send.ids) == 0 {
		return nil, hint.Errorf("as in --echo 'PING "+requestID+"' --expect-body 'PONG "+requestID+"'",
			"%s in the expected text stands for digits that were sent, and the text to send has none", requestID)
	}
	return d, nil
}

// A template is a text with places for an ID.
type template struct {
	text []byte // with zeros in these places
	ids  []int  // where they begin
}

const idLength = 8

func newTemplate(text string) (t template) {
	for i, piece := range bytes.Split([]byte(text), []byte(requestID)) {
		if i > 0 {
			t.ids = append(t.ids, len(t.text))
			t.text = append(t.text, "00000000"...)
		}
		t.text = append(t.text, piece...)
	}
	return t
}

// fill puts an ID into text, which is t's.
func (t template) fill(text, id []byte) {
	for _, at := range t.ids {
		copy(text[at:], id)
	}
}

// id returns the ID in a text that was made from t; empty if it has none.
func (t template) id(text []byte) []byte {
	if len(t.ids) == 0 || len(text) < t.ids[0]+idLength {
		return nil
	}
	return text[t.ids[0] : t.ids[0]+idLength]
}

func (d *udp) Request() []byte { return nil }

func (d *udp) Awaits() bool { return true }

func (d *udp) Read(*bufio.Reader, *Reply) error { return wire.ErrMalformed }

// Judge: read lets only the expected pass.
func (d *udp) Judge(*Reply) (timeline.Class, error) { return timeline.OK, nil }

// Begin makes a socket of datagrams of the connection. Nothing is sent.
func (d *udp) Begin(c *wire.Conn) (Dialog, error) {
	var m wire.Matching
	if len(d.send.ids) > 0 {
		m.IDEnd = d.send.ids[0] + idLength
		m.Answers = func(sent, datagram []byte) bool { return bytes.Contains(datagram, d.send.id(sent)) }
	}
	wire.NewDatagramSocket(c, m)
	return &udpDialog{udp: d, sent: bytes.Clone(d.send.text), awaited: bytes.Clone(d.want.text)}, nil
}

// A udpDialog is what is said on one socket.
type udpDialog struct {
	*udp
	sent, awaited []byte // of the last request
}

func (d *udpDialog) Request() []byte {
	if len(d.send.ids) > 0 {
		var number [idLength / 2]byte
		var digits [idLength]byte
		binary.BigEndian.PutUint32(number[:], rand.Uint32())
		hex.Encode(digits[:], number[:])
		d.send.fill(d.sent, digits[:])
		d.want.fill(d.awaited, digits[:])
	}
	return d.sent
}

// Read reads the reply, which is one datagram.
func (d *udpDialog) Read(br *bufio.Reader, r *Reply) error {
	r.reset()
	datagram, err := wire.ReadDatagram(br)
	if err != nil {
		return err
	}
	r.InBody = true
	switch {
	case !bytes.HasPrefix(datagram, d.awaited):
		return otherText(datagram)
	case !bytes.Contains(datagram, d.send.id(d.sent)):
		return fmt.Errorf("%w, which has to hold the %s of the request: %q", wire.ErrUnexpected, requestID,
			datagram[:min(len(datagram), 60)])
	}
	r.bodyAsExpected = true
	return nil
}

// Heed: the socket hands on nothing that was not asked for.
func (d *udpDialog) Heed(*bufio.Reader) error { return wire.ErrStray }

func (d *udpDialog) Farewell() []byte { return nil }
