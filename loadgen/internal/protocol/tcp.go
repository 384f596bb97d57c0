package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"lapse/internal/hint"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// longestEcho bounds what is sent to and awaited from a tcp:// target, in bytes. So much fits into the send buffer of
// any connection: the pacing thread writes it without waiting.
const longestEcho = LongestInlineSend

var (
	tcpBare = Protocol{
		Scheme:     "tcp",
		Example:    "tcp://HOST:PORT",
		Options:    []string{"echo", "echo-from", "expect-body"},
		Persistent: echoes,
		NewOnly:    withoutEcho,
		Proves:     provenBy(tcpAccepted),
		compile:    newTCP,
	}
	tcpSecure = Protocol{
		Scheme:     "tls",
		Example:    "tls://HOST:PORT",
		Options:    []string{"echo", "echo-from", "expect-body", "host", "ca-file"},
		Persistent: echoes,
		NewOnly:    withoutEcho,
		Proves:     provenBy(tlsCompleted),
		secure:     true,
		compile:    newTCP,
	}
)

const (
	withoutEcho = "nothing can be seen on reused ones without --echo"
	tcpAccepted = "somebody accepted a connection, whether or not the application answers on it"

	tlsCompleted = "somebody completed a TLS handshake with a valid certificate, " +
		"whether or not the application answers after it"
)

// provenBy says what a success proves where no text is awaited.
func provenBy(connecting string) func(Probe) Proof {
	return func(p Probe) Proof {
		if p.Echo == "" && p.Reply == "" {
			return Proof{Text: connecting, Blind: true}
		}
		return Proof{Text: "a reply that begins with the expected text"}
	}
}

// echoes reports whether a kept connection can be judged: without an echo it is as silent when its peer has vanished as
// when it is well. Waiting a while for a reset would prove nothing either: a proxy may reset a moment later.
func echoes(p Probe) bool { return p.Echo != "" }

// tcp speaks to tcp:// and tls:// targets: connect, send a text and await one back, both optional.
//
//	Echo    Reply   a success is
//	""      ""      a connection that was established, of tls:// a handshake too; new and direct only
//	"x"     ""      x came back
//	"PING"  "PONG"  PONG came after PING was sent
//	""      "220 "  the server, which speaks first, said "220 "; new and direct only
//
// TCP does not say where a reply ends. On a connection used once, what follows the expected text is left unread. On a
// persistent connection it would pass for the next reply, so there more than was expected is as wrong as something
// else.
//
//	what happened                                                   class
//	another text, too little of it, on a kept connection too much   body
//	closed before anything came                                     eof
//	nothing, or not all of it, in time; a handshake that hangs      timeout_response
//	no TLS spoken, certificate not trusted or of another name,
//	an alert of the server, which may come after the handshake      tls
//	no connection                                                   refused, unreachable, timeout_connect, dns
//
// TLS 1.3 lets the client finish before the server has looked at it: a server that wants a client certificate says so
// after the handshake. Where nothing is awaited that is not seen.
type tcp struct {
	send, want []byte
	whole      bool // nothing may follow want
}

func newTCP(p Probe, _ *url.URL) (Codec, error) {
	persistent := p.Kind == timeline.Reused || p.Kind == timeline.Held || p.Kind == timeline.Control
	switch {
	case len(p.Echo) > longestEcho || len(p.Reply) > longestEcho:
		return nil, fmt.Errorf("the text to send or to await is longer than %d bytes", longestEcho)
	case persistent && p.Echo == "":
		return nil, hint.Errorf("give one, as in --echo ping, or measure new connections only",
			"on a persistent connection nothing is seen unless a text is sent and awaited")
	}
	want := p.Reply
	if want == "" {
		want = p.Echo
	}
	return &tcp{send: []byte(p.Echo), want: []byte(want), whole: persistent}, nil
}

func (d *tcp) Request() []byte { return d.send }

func (d *tcp) Awaits() bool { return len(d.want) > 0 }

// Read reads as many bytes as are expected, or up to the first that is not.
func (d *tcp) Read(br *bufio.Reader, r *Reply) error {
	r.reset()
	for rest := d.want; len(rest) > 0; {
		if _, err := br.Peek(1); err != nil {
			return d.cut(err, r)
		}
		r.InBody = true
		piece, _ := br.Peek(min(br.Buffered(), len(rest)))
		if !bytes.HasPrefix(rest, piece) {
			got, _ := br.Peek(br.Buffered())
			return otherText(slices.Concat(d.want[:len(d.want)-len(rest)], got))
		}
		rest = rest[len(piece):]
		_, _ = br.Discard(len(piece)) // it is buffered
	}
	if d.whole && br.Buffered() > 0 {
		more, _ := br.Peek(br.Buffered())
		return surplus(d.want, more)
	}
	r.bodyAsExpected = true
	return nil
}

// surplus returns the error of a reply that has more than the expected text: on a connection that is kept, the rest
// would count as the next reply.
func surplus(want, more []byte) error {
	noun := "bytes"
	if len(more) == 1 {
		noun = "byte"
	}
	return fmt.Errorf("%w alone: %d %s more came: %s", wire.ErrUnexpected, len(more), noun,
		shown(slices.Concat(want, more)))
}

// otherText returns the error of a reply that begins as got does.
func otherText(got []byte) error {
	if bytes.HasPrefix(got, []byte{wire.AlertRecord, 3}) {
		return fmt.Errorf("%w: a TLS alert: the server speaks TLS, as in tls://", wire.ErrUnexpected)
	}
	return fmt.Errorf("%w: %s", wire.ErrUnexpected, shown(got))
}

// shown quotes a reply, of a longer one the first 60 bytes.
func shown(got []byte) string {
	const most = 60
	if len(got) > most {
		return fmt.Sprintf("%q…", got[:most])
	}
	return fmt.Sprintf("%q", got)
}

// cut returns what the connection's end means: within a reply it is cut short, before it there is none.
func (d *tcp) cut(err error, r *Reply) error {
	if errors.Is(err, io.EOF) && r.InBody {
		return wire.ErrTruncated
	}
	return err
}

// Judge: read lets only the expected pass.
func (d *tcp) Judge(*Reply) (timeline.Class, error) { return timeline.OK, nil }
