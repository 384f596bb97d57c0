package loadgen

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

// A phase is how far a request got.
type phase uint8

const (
	resolving   phase = iota // looking the name up
	connecting               // TCP
	handshaking              // TLS
	beginning                // what the protocol begins a connection with
	sending                  // writing the request
	awaiting                 // reading the reply's header
	receiving                // reading the reply's body
)

// What a reply can have wrong with it beyond the errors of its connection.
var (
	errMalformed  = errors.New("malformed reply")
	errTruncated  = errors.New("reply ended within its body")
	errUnexpected = errors.New("not the expected text")
	errNoHTTP2    = errors.New("the server does not choose h2 by ALPN: it speaks no HTTP/2 over TLS, or only HTTP/1.1 as in https://")
)

// classify is the class of a request that ended with err in phase ph.
func classify(err error, ph phase) timeline.Class {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if class, known := errnoClass(errno, ph); known {
			return class
		}
	}
	if status, ok := errors.AsType[unexpectedStatus](err); ok {
		return statusClass(int(status))
	}
	switch {
	case errors.Is(err, errLate):
		return timeline.Local
	case ph == resolving:
		return resolvingClass(err)
	case isTimeout(err):
		return timeoutClass(ph)
	case errors.Is(err, errMalformed), errors.Is(err, errTruncated), errors.Is(err, errUnexpected):
		return timeline.Body
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return eofClass(ph)
	case ph == handshaking, errors.Is(err, errNoHTTP2), isTLS(err):
		return timeline.TLS
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return timeline.DNS
	}
	return timeline.Other
}

// shortages are the system's errors that say that this process or machine ran out of something.
var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.ENOBUFS, syscall.ENOMEM}

// lookUpShortages are those of a look-up, which connects a UDP socket without binding it: EAGAIN says that no local
// port is free (inet_autobind in Linux). EADDRNOTAVAIL is not one of them: it says that there is no route to the name
// server.
var lookUpShortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOBUFS, syscall.ENOMEM}

// resolvingClass: a resolver that could open no socket says nothing about the name. net.DNSError keeps only the text of
// such an error (newDNSError in package net).
func resolvingClass(err error) timeline.Class {
	if failure, ok := errors.AsType[*net.DNSError](err); ok && slices.ContainsFunc(lookUpShortages, func(errno syscall.Errno) bool {
		return strings.HasSuffix(failure.Err, errno.Error())
	}) {
		return timeline.Local
	}
	return timeline.DNS
}

func errnoClass(errno syscall.Errno, ph phase) (_ timeline.Class, known bool) {
	switch {
	case ph != resolving && slices.Contains(shortages, errno), ph == resolving && slices.Contains(lookUpShortages, errno):
		return timeline.Local, true
	case ph == resolving: // an error of the connection to the name server says nothing about the target
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

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// timeoutClass: once the TCP connection is established, it is the answer that is missing.
func timeoutClass(ph phase) timeline.Class {
	if ph <= connecting {
		return timeline.TimeoutConnect
	}
	return timeline.TimeoutResponse
}

// eofClass: a truncated body is a wrong body; before the body, the peer closed the connection.
func eofClass(ph phase) timeline.Class {
	if ph == receiving {
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
	return ok && op.Op == "local error" || isPeersAlert(err)
}

// isPeersAlert reports whether the peer ended TLS by an alert. These come as an OpError around crypto/tls's own
// unexported type.
func isPeersAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

func statusClass(status int) timeline.Class {
	switch status / 100 {
	case 4:
		return timeline.HTTP4xx
	case 5:
		return timeline.HTTP5xx
	}
	return timeline.Body
}

// unexpectedStatus is a status code that is no success.
type unexpectedStatus int

func (s unexpectedStatus) Error() string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", int(s), http.StatusText(int(s))))
}

// An announcedEnd is the end of a connection, or of one exchange on it, in the words of the peer. As an error, it is
// [io.EOF].
type announcedEnd string

func (e announcedEnd) Error() string { return string(e) }
func (e announcedEnd) Unwrap() error { return io.EOF }

// malformed returns an error of what a reply has wrong with it.
func malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }
