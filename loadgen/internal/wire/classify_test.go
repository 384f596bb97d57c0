package wire

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
		ph   Phase
		want timeline.Class
	}{
		{errno(syscall.ECONNREFUSED), Connecting, timeline.Refused},
		{errno(syscall.ECONNRESET), Awaiting, timeline.Reset},
		{errno(syscall.ECONNRESET), Receiving, timeline.Reset},
		{errno(syscall.ECONNRESET), Handshaking, timeline.Reset},
		{errno(syscall.EPIPE), Sending, timeline.Reset},
		{errno(syscall.EHOSTUNREACH), Connecting, timeline.Unreachable},
		{errno(syscall.ENETUNREACH), Connecting, timeline.Unreachable},
		{errno(syscall.ETIMEDOUT), Connecting, timeline.TimeoutConnect},
		{errno(syscall.ETIMEDOUT), Awaiting, timeline.TimeoutResponse},
		{errno(syscall.EMFILE), Connecting, timeline.Local},
		{errno(syscall.EMFILE), Resolving, timeline.Local},
		{errno(syscall.EADDRNOTAVAIL), Connecting, timeline.Local},
		{errno(syscall.ENOBUFS), Sending, timeline.Local},
		{errno(syscall.EPERM), Connecting, timeline.Other},
		{os.ErrDeadlineExceeded, Connecting, timeline.TimeoutConnect},
		{context.DeadlineExceeded, Connecting, timeline.TimeoutConnect},
		{os.ErrDeadlineExceeded, Handshaking, timeline.TimeoutResponse},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), Receiving, timeline.TimeoutResponse},
		{io.EOF, Awaiting, timeline.EOF},
		{io.ErrUnexpectedEOF, Awaiting, timeline.EOF},
		{io.EOF, Handshaking, timeline.EOF},
		{ErrTruncated, Receiving, timeline.Body},
		{Malformed("x"), Awaiting, timeline.Body},
		{alert, Handshaking, timeline.TLS},
		{alert, Awaiting, timeline.TLS},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, Handshaking, timeline.TLS},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Handshaking, timeline.TLS},
		{&net.DNSError{IsNotFound: true}, Resolving, timeline.DNS},
		{&net.DNSError{IsTimeout: true}, Resolving, timeline.DNS},
		{&net.DNSError{Err: errno(syscall.EMFILE).Error(), IsTemporary: true}, Resolving, timeline.Local},
		{&net.DNSError{Err: errno(syscall.ECONNREFUSED).Error()}, Resolving, timeline.DNS},
		{&net.DNSError{Err: errno(syscall.EAGAIN).Error()}, Resolving, timeline.Local},
		{&net.DNSError{Err: errno(syscall.EADDRNOTAVAIL).Error()}, Resolving, timeline.DNS},
		{errno(syscall.EADDRNOTAVAIL), Resolving, timeline.DNS},
		{context.DeadlineExceeded, Resolving, timeline.DNS},
		{errno(syscall.ECONNREFUSED), Resolving, timeline.DNS},
		{errors.New("what?"), Awaiting, timeline.Other},
	}
	for _, test := range tests {
		if got := Classify(test.err, test.ph); got != test.want {
			t.Errorf("%v in phase %d is %v, want %v", test.err, test.ph, got, test.want)
		}
	}
}
