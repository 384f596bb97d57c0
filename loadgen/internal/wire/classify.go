package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"lapse/timeline"
)

// A Phase is how far a request got.
type Phase uint8

const (
	Resolving   Phase = iota // looking the name up
	Connecting               // TCP
	Handshaking              // TLS
	Beginning                // what the protocol begins a connection with
	Sending                  // writing the request
	Awaiting                 // reading the reply's header
	Receiving                // reading the reply's body
)

// What a reply can have wrong with it beyond the errors of its connection.
var (
	ErrMalformed  = errors.New("malformed reply")
	ErrTruncated  = errors.New("reply ended within its body")
	ErrUnexpected = errors.New("not the expected text")
	ErrNoHTTP2    = errors.New("the server does not choose h2 by ALPN: " +
		"it speaks no HTTP/2 over TLS, or only HTTP/1.1 as in https://")
)

// errLate: this process was so slow that an address had no time to accept a connection.
var errLate = errors.New("no time was left for it: the prober was slow")

// Classify returns the class of a request that ended with err in phase ph.
func Classify(err error, ph Phase) timeline.Class {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if class, known := errnoClass(errno, ph); known {
			return class
		}
	}
	if status, ok := errors.AsType[UnexpectedStatus](err); ok {
		return StatusClass(int(status))
	}
	switch {
	case errors.Is(err, errLate):
		return timeline.Local
	case ph == Resolving:
		return resolvingClass(err)
	case IsTimeout(err):
		return timeoutClass(ph)
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrTruncated), errors.Is(err, ErrUnexpected):
		return timeline.Body
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return eofClass(ph)
	case ph == Handshaking, errors.Is(err, ErrNoHTTP2), isTLS(err):
		return timeline.TLS
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return timeline.DNS
	}
	return timeline.Other
}

// shortages are the system's errors that say that this process or machine ran out of something.
var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE,
	syscall.ENOBUFS, syscall.ENOMEM}

// lookUpShortages are the shortages of a look-up, which connects a UDP socket without binding it: EAGAIN says that no
// local port is free (inet_autobind in Linux). EADDRNOTAVAIL is no shortage: it says that there is no route to the name
// server.
var lookUpShortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOBUFS, syscall.ENOMEM}

// resolvingClass: a resolver that could open no socket says nothing about the name. net.DNSError keeps only the text of
// such an error (newDNSError in package net).
func resolvingClass(err error) timeline.Class {
	failure, ok := errors.AsType[*net.DNSError](err)
	short := func(errno syscall.Errno) bool { return strings.HasSuffix(failure.Err, errno.Error()) }
	if ok && slices.ContainsFunc(lookUpShortages, short) {
		return timeline.Local
	}
	return timeline.DNS
}

func errnoClass(errno syscall.Errno, ph Phase) (_ timeline.Class, known bool) {
	switch {
	case ph != Resolving && slices.Contains(shortages, errno):
		return timeline.Local, true
	case ph == Resolving && slices.Contains(lookUpShortages, errno):
		return timeline.Local, true
	case ph == Resolving: // an error of the connection to the name server says nothing about the target
		return timeline.DNS, true
	}
	switch errno {
	case syscall.ECONNREFUSED:
		return timeline.Refused, true
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return timeline.Reset, true
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN:
		return timeline.Unreachable, true
	case syscall.ETIMEDOUT:
		return timeoutClass(ph), true
	}
	return timeline.Other, false
}

func IsTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// timeoutClass: once the TCP connection is established, it is the answer that is missing.
func timeoutClass(ph Phase) timeline.Class {
	if ph <= Connecting {
		return timeline.TimeoutConnect
	}
	return timeline.TimeoutResponse
}

// eofClass: a truncated body is a wrong body; before the body, the peer closed the connection.
func eofClass(ph Phase) timeline.Class {
	if ph == Receiving {
		return timeline.Body
	}
	return timeline.EOF
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "local error" || IsPeersAlert(err)
}

// IsPeersAlert reports whether the peer ended TLS by an alert. These come as an OpError around crypto/tls's own
// unexported type.
func IsPeersAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

func StatusClass(status int) timeline.Class {
	switch status / 100 {
	case 4:
		return timeline.HTTP4xx
	case 5:
		return timeline.HTTP5xx
	}
	return timeline.Body
}

// UnexpectedStatus is a status code that is no success.
type UnexpectedStatus int

func (s UnexpectedStatus) Error() string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", int(s), http.StatusText(int(s))))
}

// An AnnouncedEnd is the end of a connection, or of one exchange on it, in the words of the peer. As an error, it is
// [io.EOF].
type AnnouncedEnd string

func (e AnnouncedEnd) Error() string { return string(e) }
func (e AnnouncedEnd) Unwrap() error { return io.EOF }

// Malformed returns an error of what a reply has wrong with it.
func Malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }
