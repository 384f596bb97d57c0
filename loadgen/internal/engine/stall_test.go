package engine

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A requester asks for the course of its requests, and what a stop may have done is local.
func TestRequestsEndedByAStopAreLocal(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*Requester, *attempt, *protocol.Conn)
		want timeline.Class
	}{
		"a reset while we did not write": {func(q *Requester, a *attempt, _ *protocol.Conn) {
			q.failed(a, loadtest.DialError(syscall.ECONNRESET), wire.Connecting, nil)
		}, timeline.Local},
		"a refusal": {func(q *Requester, a *attempt, _ *protocol.Conn) {
			q.failed(a, loadtest.DialError(syscall.ECONNREFUSED), wire.Connecting, nil)
		}, timeline.Refused},
		"an answer after its time, in a stop": {func(q *Requester, a *attempt, _ *protocol.Conn) { q.answered(a, &protocol.Reply{}) }, timeline.Local},
		"a timeout with an unread answer": {func(q *Requester, a *attempt, c *protocol.Conn) {
			q.failed(a, os.ErrDeadlineExceeded, wire.Awaiting, c)
		}, timeline.Local},
		"a timeout of a reply, none unread": {func(q *Requester, a *attempt, _ *protocol.Conn) {
			q.failed(a, os.ErrDeadlineExceeded, wire.Awaiting, nil)
		}, timeline.TimeoutResponse},
	} {
		t.Run(name, func(t *testing.T) {
			below, theirs := loadtest.TCPPair(t)
			ours := protocol.NewConn(below)
			_, _ = theirs.Write([]byte("HTTP"))
			loadtest.WaitFor(t, "bytes", ours.Waiting)
			synctest.Test(t, func(t *testing.T) {
				target := aRequester(timeline.StartClock(), 100)
				p := probe(1, timeline.New, "tcp://127.0.0.1:80", 100)
				p.Timeout = 1900 * ms
				plan, err := protocol.Compile(p)
				if err != nil {
					t.Fatal(err)
				}
				target.Compiled = plan
				target.Inflight.Opened(0, 0, 0)
				target.Stalls.Beat(1010 * ms)
				target.Stalls.Beat(2999 * ms)
				time.Sleep(3000 * ms)
				test.end(target, &attempt{sent: 1000 * ms, written: 1000 * ms}, ours)
				requests, _, _ := target.Inflight.Take(nil, 0)
				if len(requests) != 1 || requests[0].Class != test.want {
					t.Errorf("%+v, want %v", requests, test.want)
				}
			})
		})
	}
}
