package engine

import (
	"bufio"
	"errors"

	"lapse/loadgen/internal/polled"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// Polling is what the pools of a prober share whose replies the pacing thread reads. It belongs to that thread.
type Polling struct {
	*polled.Reader
	text  [wire.ReadBuffer]byte
	rest  received
	br    *bufio.Reader
	reply protocol.Reply
}

// NewPolling returns a polling that begins with its reader's Open.
func NewPolling(clock timeline.Clock) *Polling {
	return &Polling{Reader: polled.NewReader(clock), br: bufio.NewReaderSize(nil, wire.ReadBuffer)}
}

// Works reports whether there is polling.
func (y *Polling) Works() bool { return y != nil && y.Reader.Works() }

// errNotYet is the error of reading further than what has arrived.
var errNotYet = errors.New("not arrived yet")

// received is a part of what a connection brings, and how it ends.
type received struct {
	text []byte
	end  error
}

func (r *received) Read(into []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, r.end
	}
	n := copy(into, r.text)
	r.text = r.text[n:]
	return n, nil
}
