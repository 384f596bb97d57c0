package loadgen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"lapse/timeline"
)

func TestErrorsAreClassified(t *testing.T) {
	errno := func(e syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", e)}
	}
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(40)}
	tests := []struct {
		err  error
		ph   phase
		want timeline.Class
	}{
		{errno(syscall.ECONNREFUSED), connecting, timeline.Refused},
		{errno(syscall.ECONNRESET), awaiting, timeline.Reset},
		{errno(syscall.ECONNRESET), receiving, timeline.Reset},
		{errno(syscall.ECONNRESET), handshaking, timeline.Reset},
		{errno(syscall.EPIPE), sending, timeline.Reset},
		{errno(syscall.EHOSTUNREACH), connecting, timeline.Unreachable},
		{errno(syscall.ENETUNREACH), connecting, timeline.Unreachable},
		{errno(syscall.ETIMEDOUT), connecting, timeline.TimeoutConnect},
		{errno(syscall.ETIMEDOUT), awaiting, timeline.TimeoutResponse},
		{errno(syscall.EMFILE), connecting, timeline.Local},
		{errno(syscall.EMFILE), resolving, timeline.Local},
		{errno(syscall.EADDRNOTAVAIL), connecting, timeline.Local},
		{errno(syscall.ENOBUFS), sending, timeline.Local},
		{errno(syscall.EPERM), connecting, timeline.Other},
		{os.ErrDeadlineExceeded, connecting, timeline.TimeoutConnect},
		{context.DeadlineExceeded, connecting, timeline.TimeoutConnect},
		{os.ErrDeadlineExceeded, handshaking, timeline.TimeoutResponse},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), receiving, timeline.TimeoutResponse},
		{io.EOF, awaiting, timeline.EOF},
		{io.ErrUnexpectedEOF, awaiting, timeline.EOF},
		{io.EOF, handshaking, timeline.EOF},
		{errTruncated, receiving, timeline.Body},
		{malformed("x"), awaiting, timeline.Body},
		{alert, handshaking, timeline.TLS},
		{alert, awaiting, timeline.TLS},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, handshaking, timeline.TLS},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, handshaking, timeline.TLS},
		{&net.DNSError{IsNotFound: true}, resolving, timeline.DNS},
		{&net.DNSError{IsTimeout: true}, resolving, timeline.DNS},
		{&net.DNSError{Err: errno(syscall.EMFILE).Error(), IsTemporary: true}, resolving, timeline.Local},
		{&net.DNSError{Err: errno(syscall.ECONNREFUSED).Error()}, resolving, timeline.DNS},
		{&net.DNSError{Err: errno(syscall.EAGAIN).Error()}, resolving, timeline.Local},
		{&net.DNSError{Err: errno(syscall.EADDRNOTAVAIL).Error()}, resolving, timeline.DNS},
		{errno(syscall.EADDRNOTAVAIL), resolving, timeline.DNS},
		{context.DeadlineExceeded, resolving, timeline.DNS},
		{errno(syscall.ECONNREFUSED), resolving, timeline.DNS},
		{errors.New("what?"), awaiting, timeline.Other},
	}
	for _, test := range tests {
		if got := classify(test.err, test.ph); got != test.want {
			t.Errorf("%v in phase %d is %v, want %v", test.err, test.ph, got, test.want)
		}
	}
}

func TestRefusalBlamesWhoKeptWhomWaiting(t *testing.T) {
	if got := refusal(10, 10); got != timeline.NoSlot {
		t.Errorf("all wait for the target: %v", got)
	}
	if got := refusal(9, 10); got != timeline.NotSent {
		t.Errorf("one was not sent yet: %v", got)
	}
}
