package stall

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func TestStopIsKnownFromEitherSide(t *testing.T) {
	var d Detector
	check := func(now, wantSince, wantSeen time.Duration) {
		t.Helper()
		if got := d.Latest(now); got != (Stop{wantSince, wantSeen}) {
			t.Errorf("at %v: stopped %v, want from %v to %v", now, got, wantSince, wantSeen)
		}
	}
	check(50*ms, 0, 0)
	d.Beat(100 * ms)
	check(102*ms, 0, 0)
	check(600*ms, 100*ms, 600*ms) // the pacing thread has not run yet
	d.Beat(601 * ms)
	d.Beat(602 * ms)
	check(603*ms, 100*ms, 601*ms)
	if got := d.Stopped(603 * ms); got != 501*ms {
		t.Errorf("stopped for %v in all, want 501 ms", got)
	}
	if got := d.Stopped(640 * ms); got != 539*ms {
		t.Errorf("stopped for %v in all before the pacing thread ran again, want 539 ms", got)
	}
}

func TestFailureIsOursOnlyWhereAStopMayHaveMadeIt(t *testing.T) {
	const sent, timeout = 1000 * ms, 5000 * ms
	noAnswer := &net.DNSError{Err: "i/o timeout", Name: "web.test", IsTimeout: true}
	noName := &net.DNSError{Err: "no such host", Name: "web.test", IsNotFound: true}
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(90)}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	tests := []struct {
		name        string
		since, seen time.Duration // of a stop
		judged      time.Duration // when the error was noticed
		ph          wire.Phase
		held        time.Duration // of the stop, what was before the request was written
		err         error
		want        timeline.Class
	}{
		{"the look-up's time ended in a stop", 1050 * ms, 6500 * ms, 6500 * ms, wire.Resolving, 0, noAnswer, timeline.Local},
		{"the resolver's own time limit ended in a stop", 1050 * ms, 4000 * ms, 4000 * ms, wire.Resolving, 0, noAnswer, timeline.Local},
		{"the name server is silent, stop or not", 1050 * ms, 1500 * ms, 6000 * ms, wire.Resolving, 0, noAnswer, timeline.DNS},
		{"the look-up waited for all its time, and a short stop was at its end", 5990 * ms, 6011 * ms, 6011 * ms, wire.Resolving, 0, noAnswer, timeline.DNS},
		{"the look-up waited for all its time, and its end was noticed a little late", 0, 0, 6017 * ms, wire.Resolving, 0, noAnswer, timeline.DNS},
		{"the look-up's end was noticed much too late", 0, 0, 9000 * ms, wire.Resolving, 0, noAnswer, timeline.Local},
		{"the name server is silent", 0, 0, 6000 * ms, wire.Resolving, 0, noAnswer, timeline.DNS},
		{"the name server says there is no such name", 1050 * ms, 3000 * ms, 3000 * ms, wire.Resolving, 0, noName, timeline.DNS},

		{"reset as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, wire.Handshaking, 0, reset, timeline.Local},
		{"reset before we knew of the connection", 1050 * ms, 3000 * ms, 3000 * ms, wire.Connecting, 0, loadtest.DialError(syscall.ECONNRESET), timeline.Local},
		{"closed as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, wire.Handshaking, 0, io.EOF, timeline.Local},
		{"an alert as we did not shake hands", 1050 * ms, 3000 * ms, 3000 * ms, wire.Handshaking, 0, alert, timeline.Local},
		{"reset as we did not write", 1050 * ms, 3000 * ms, 3000 * ms, wire.Sending, 0, reset, timeline.Local},
		{"reset as we wrote late", 1050 * ms, 3000 * ms, 3001 * ms, wire.Awaiting, 1950 * ms, reset, timeline.Local},
		{"closed as we wrote late", 1050 * ms, 3000 * ms, 3001 * ms, wire.Awaiting, 1950 * ms, io.EOF, timeline.Local},

		{"reset with the request", 1050 * ms, 3000 * ms, 3000 * ms, wire.Awaiting, 0, reset, timeline.Reset},
		{"closed with the request", 1050 * ms, 3000 * ms, 3000 * ms, wire.Awaiting, 0, io.EOF, timeline.EOF},
		{"reset within the reply", 1050 * ms, 3000 * ms, 3001 * ms, wire.Receiving, 1950 * ms, reset, timeline.Reset},
		{"refused", 1001 * ms, 3000 * ms, 3000 * ms, wire.Connecting, 0, loadtest.DialError(syscall.ECONNREFUSED), timeline.Refused},
		{"unreachable", 1001 * ms, 3000 * ms, 3000 * ms, wire.Connecting, 0, loadtest.DialError(syscall.EHOSTUNREACH), timeline.Unreachable},
		{"wrong certificate", 1001 * ms, 3000 * ms, 3000 * ms, wire.Handshaking, 0, &tls.CertificateVerificationError{Err: io.ErrNoProgress}, timeline.TLS},
		{"cut short", 1001 * ms, 3000 * ms, 3000 * ms, wire.Receiving, 0, wire.ErrTruncated, timeline.Body},
		{"reset after a stop too short to tire anyone", 1001 * ms, 1090 * ms, 1091 * ms, wire.Handshaking, 0, reset, timeline.Reset},
		{"reset after a stop, and more time in which we ran", 1050 * ms, 3000 * ms, 5000 * ms, wire.Handshaking, 0, reset, timeline.Reset},
		{"reset without a stop", 0, 0, 3000 * ms, wire.Handshaking, 0, reset, timeline.Reset},
	}
	for _, test := range tests {
		c := Course{
			Sent: sent, Written: sent, Deadline: sent + timeout, Now: test.judged,
			Held: test.held, Stopped: test.seen - test.since, Latest: Stop{test.since, test.seen},
		}
		class := wire.Classify(test.err, test.ph)
		if c.BlamesUs(class, test.err, test.ph) {
			class = timeline.Local
		}
		if class != test.want {
			t.Errorf("%s: %v, want %v", test.name, class, test.want)
		}
	}
}

func TestTimeoutIsOursOnlyWhereWeCouldNotKnow(t *testing.T) {
	const sent, timeout = 1000 * ms, 800 * ms // so the deadline is at 1.8 s
	tests := []struct {
		name        string
		since, seen time.Duration // of a stop
		judged      time.Duration // when the timeout was noticed
		ph          wire.Phase
		written     time.Duration
		answered    bool
		want        bool
	}{
		{"never stopped", 0, 0, 1800 * ms, wire.Connecting, 0, false, false},
		{"never stopped, and an answer came just after the deadline", 0, 0, 1801 * ms, wire.Awaiting, sent, true, false},
		{"stopped for most of the time", 1010 * ms, 1700 * ms, 1800 * ms, wire.Connecting, 0, false, true},
		{"stopped in between", 1100 * ms, 1650 * ms, 1800 * ms, wire.Connecting, 0, false, false},
		{"stopped at the deadline", 1700 * ms, 1804 * ms, 1804 * ms, wire.Connecting, 0, false, true},
		{"stopped at the deadline, before the request was written", 1700 * ms, 1804 * ms, 1804 * ms, wire.Sending, 0, false, true},
		{"stopped at the deadline, and an answer is there", 1700 * ms, 1804 * ms, 1804 * ms, wire.Awaiting, sent, true, true},
		{"stopped at the deadline, and no answer is there", 1700 * ms, 1804 * ms, 1804 * ms, wire.Awaiting, sent, false, false},
		{"stopped at the deadline and before, and the answer lies there since", 1200 * ms, 1300 * ms, 1801 * ms, wire.Awaiting, sent, true, true},
		{"stopped before it was written", 1001 * ms, 1300 * ms, 1800 * ms, wire.Awaiting, 1300 * ms, false, true},
		{"stopped before it was written, but waited for since", 1001 * ms, 1300 * ms, 2000 * ms, wire.Awaiting, 1300 * ms, false, false},
		{"stopped shortly, and written late because it took long to connect", 1500 * ms, 1512 * ms, 1800 * ms, wire.Awaiting, 1450 * ms, false, false},
		{"stopped shortly before it was written", 1001 * ms, 1051 * ms, 1800 * ms, wire.Awaiting, 1250 * ms, false, false},
		{"stopped shortly at the deadline", 1790 * ms, 1802 * ms, 1802 * ms, wire.Connecting, 0, false, false},
		{"noticed a little too late", 0, 0, 1815 * ms, wire.Connecting, 0, false, false},
		{"noticed too late", 0, 0, 1900 * ms, wire.Connecting, 0, false, true},
		{"noticed too late, and an answer is there", 0, 0, 1900 * ms, wire.Receiving, sent, true, true},
		{"noticed too late, and no answer is there", 0, 0, 1900 * ms, wire.Awaiting, sent, false, false},
	}
	for _, test := range tests {
		c := Course{
			Sent: sent, Written: test.written, Deadline: sent + timeout, Now: test.judged,
			Stopped: test.seen - test.since, Latest: Stop{test.since, test.seen}, Unread: test.answered,
		}
		if got := c.BlamesUs(wire.Classify(os.ErrDeadlineExceeded, test.ph), os.ErrDeadlineExceeded,
			test.ph); got != test.want {
			t.Errorf("%s: ours: %v", test.name, got)
		}
	}
}

func TestAnswerThatAStopMayHaveDelayedSaysSo(t *testing.T) {
	const sent, timeout = 1000 * ms, 10 * time.Second
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
		c := Course{
			Sent: sent, Written: test.written, Answered: test.came, Deadline: sent + timeout, Now: test.done,
			Held: test.held, Latest: Stop{test.since, test.seen},
		}
		if test.seen > sent {
			c.Stopped = test.seen - test.since
		}
		if class, delayed := c.Answer(); class != test.want || delayed != test.delayed {
			t.Errorf("%s: %v, delayed %v, want %v, %v", test.name, class, delayed, test.want, test.delayed)
		}
	}
}

// An address is not blamed for time in which the prober stood still.
func TestOwnStopsAreNoFailuresOfAnAddress(t *testing.T) {
	const begun, over = 1000 * ms, 1400 * ms
	for _, test := range []struct {
		name        string
		since, seen time.Duration
		want        bool
	}{
		{"never", 0, 0, false},
		{"before it", 500 * ms, 1000 * ms, false},
		{"after it", 1400 * ms, 1900 * ms, false},
		{"for a little of its time", 1100 * ms, 1200 * ms, false},
		{"for most of its time", 1050 * ms, 1300 * ms, true},
		{"when it was given up", 1350 * ms, 1450 * ms, true},
		{"until just before", 1350 * ms, 1399 * ms, true},
	} {
		if got := (Stop{test.since, test.seen}).Excuses(begun, over); got != test.want {
			t.Errorf("stopped %s: %v", test.name, got)
		}
	}
}
