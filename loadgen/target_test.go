package loadgen

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/timeline"
)

// stoppedTarget is a target of a prober that was stopped from since to seen, and has run from then until now.
func stoppedTarget(clock timeline.Clock, since, seen, now time.Duration) *target {
	t, _ := newSink(clock, 100)
	t.book.opened(0, 0, 0)
	t.pulse.last.Store(int64(now))
	t.pulse.since.Store(int64(since))
	t.pulse.seen.Store(int64(seen))
	t.pulse.total.Store(int64(seen - since))
	return t
}

// class is how t's only request so far ended.
func class(tt *testing.T, t *target) timeline.Class {
	tt.Helper()
	return only(tt, t).Class
}

// only is the one request that ended.
func only(tt *testing.T, t *target) timeline.Request {
	tt.Helper()
	requests, _, _ := t.book.take(nil, 0)
	if len(requests) != 1 {
		tt.Fatalf("%d requests", len(requests))
	}
	return requests[0]
}

// dialError is what package net makes of an errno.
func dialError(errno syscall.Errno) error { return &net.OpError{Op: "dial", Err: errno} }

func TestFailureIsOursOnlyWhereAStopMayHaveMadeIt(t *testing.T) {
	const sent = 1000 * ms // the timeout is 5 s
	noAnswer := &net.DNSError{Err: "i/o timeout", Name: "web.test", IsTimeout: true}
	noName := &net.DNSError{Err: "no such host", Name: "web.test", IsNotFound: true}
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(90)}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	tests := []struct {
		name        string
		since, seen time.Duration // of a stop
		judged      time.Duration // when the error was noticed
		ph          phase
		held        time.Duration // of the stop, what was before the request was written
		err         error
		want        timeline.Class
	}{
		{"the look-up's time ended in a stop", 1050 * ms, 6500 * ms, 6500 * ms, resolving, 0, noAnswer, timeline.Local},
		{"the resolver's own time limit ended in a stop", 1050 * ms, 4000 * ms, 4000 * ms, resolving, 0, noAnswer, timeline.Local},
		{"the name server is silent, stop or not", 1050 * ms, 1500 * ms, 6000 * ms, resolving, 0, noAnswer, timeline.DNS},
		{"the look-up waited for all its time, and a short stop was at its end", 5990 * ms, 6011 * ms, 6011 * ms, resolving, 0, noAnswer, timeline.DNS},
		{"the look-up waited for all its time, and its end was noticed a little late", 0, 0, 6017 * ms, resolving, 0, noAnswer, timeline.DNS},
		{"the look-up's end was noticed much too late", 0, 0, 9000 * ms, resolving, 0, noAnswer, timeline.Local},
		{"the name server is silent", 0, 0, 6000 * ms, resolving, 0, noAnswer, timeline.DNS},
		{"the name server says there is no such name", 1050 * ms, 3000 * ms, 3000 * ms, resolving, 0, noName, timeline.DNS},

		{"reset as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, handshaking, 0, reset, timeline.Local},
		{"reset before we knew of the connection", 1050 * ms, 3000 * ms, 3000 * ms, connecting, 0, dialError(syscall.ECONNRESET), timeline.Local},
		{"closed as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, handshaking, 0, io.EOF, timeline.Local},
		{"an alert as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, handshaking, 0, alert, timeline.Local},
		{"reset as we did not write", 1050 * ms, 3000 * ms, 3000 * ms, sending, 0, reset, timeline.Local},
		{"reset as we wrote late", 1050 * ms, 3000 * ms, 3001 * ms, awaiting, 1950 * ms, reset, timeline.Local},
		{"closed as we wrote late", 1050 * ms, 3000 * ms, 3001 * ms, awaiting, 1950 * ms, io.EOF, timeline.Local},

		{"reset with the request", 1050 * ms, 3000 * ms, 3000 * ms, awaiting, 0, reset, timeline.Reset},
		{"closed with the request", 1050 * ms, 3000 * ms, 3000 * ms, awaiting, 0, io.EOF, timeline.EOF},
		{"reset within the reply", 1050 * ms, 3000 * ms, 3001 * ms, receiving, 1950 * ms, reset, timeline.Reset},
		{"refused", 1001 * ms, 3000 * ms, 3000 * ms, connecting, 0, dialError(syscall.ECONNREFUSED), timeline.Refused},
		{"unreachable", 1001 * ms, 3000 * ms, 3000 * ms, connecting, 0, dialError(syscall.EHOSTUNREACH), timeline.Unreachable},
		{"wrong certificate", 1001 * ms, 3000 * ms, 3000 * ms, handshaking, 0, &tls.CertificateVerificationError{Err: io.ErrNoProgress}, timeline.TLS},
		{"cut short", 1001 * ms, 3000 * ms, 3000 * ms, receiving, 0, errTruncated, timeline.Body},
		{"reset after a stop too short to tire anyone", 1001 * ms, 1090 * ms, 1091 * ms, handshaking, 0, reset, timeline.Reset},
		{"reset after a stop, and more time in which we ran", 1050 * ms, 3000 * ms, 5000 * ms, handshaking, 0, reset, timeline.Reset},
		{"reset without a stop", 0, 0, 3000 * ms, handshaking, 0, reset, timeline.Reset},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := timeline.StartClock()
				target := stoppedTarget(clock, test.since, test.seen, test.judged)
				target.timeout = 5 * time.Second
				time.Sleep(test.judged)
				target.failed(&attempt{sent: sent, written: sent, held: test.held}, test.err, test.ph, nil)
				if got := class(t, target); got != test.want {
					t.Errorf("%v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestAnswerThatAStopMayHaveDelayedSaysSo(t *testing.T) {
	const sent = 1000 * ms // the timeout is 10 s
	tests := []struct {
		name        string
		since, seen time.Duration // of a stop
		written     time.Duration
		held        time.Duration // of the stop, what was before that
		came        time.Duration // when its first byte was read
		done        time.Duration
		want        timeline.Class
		delayed     bool
	}{
		{"never stopped", 0, 0, sent, 0, 3240 * ms, 3240 * ms, timeline.OK, false},
		{"stopped before it was sent", 500 * ms, 900 * ms, sent, 0, 1001 * ms, 1001 * ms, timeline.OK, false},
		{"found after a stop", 1010 * ms, 3000 * ms, sent, 0, 3001 * ms, 3001 * ms, timeline.OK, true},
		{"found among many after a stop", 1010 * ms, 3000 * ms, sent, 0, 3200 * ms, 3200 * ms, timeline.OK, true},
		{"found after a hiccup", 1000 * ms, 1020 * ms, sent, 0, 1020 * ms, 1020 * ms, timeline.OK, true},
		{"found after a hiccup that is little beside what it took", 1250 * ms, 1270 * ms, sent, 0, 1270 * ms, 1270 * ms, timeline.OK, false},
		{"found after a hiccup as short as our precision", 1000 * ms, 1010 * ms, sent, 0, 1010 * ms, 1010 * ms, timeline.OK, false},
		{"came well after a hiccup", 1010 * ms, 1060 * ms, sent, 0, 1080 * ms, 1080 * ms, timeline.OK, false},
		{"came well after a stop", 1010 * ms, 3000 * ms, sent, 0, 4000 * ms, 4000 * ms, timeline.OK, false},
		{"came well after a stop in which it was not written yet", 1010 * ms, 3000 * ms, 3001 * ms, 1990 * ms, 4000 * ms, 4000 * ms, timeline.OK, true},
		{"stopped within the reply", 1100 * ms, 3000 * ms, sent, 0, 1050 * ms, 3001 * ms, timeline.OK, true},
		{"found after a stop, when its time was over", 1010 * ms, 11_002 * ms, sent, 0, 11_003 * ms, 11_003 * ms, timeline.Local, false},
		{"found long after its time was over", 0, 0, sent, 0, 11_020 * ms, 11_020 * ms, timeline.Local, false},
		{"came when its time was just over", 0, 0, sent, 0, 11_001 * ms, 11_001 * ms, timeline.TimeoutResponse, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := timeline.StartClock()
				target := stoppedTarget(clock, test.since, test.seen, test.done)
				target.dialogue, target.timeout = &tcp{}, 10*time.Second
				time.Sleep(test.done)
				a := &attempt{sent: sent, written: test.written, held: test.held}
				a.outcome.FirstByte = timeline.MicrosOf(test.came - test.written)
				target.answered(a, &reply{})
				if got := only(t, target); got.Class != test.want || got.Delayed != test.delayed {
					t.Errorf("%v, delayed %v, want %v, %v", got.Class, got.Delayed, test.want, test.delayed)
				}
			})
		})
	}
}
