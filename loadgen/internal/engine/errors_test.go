package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/timeline"
)

func TestErrorTextsLoseWhatDiffersPerConnection(t *testing.T) {
	end := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 43210}
	for want, err := range map[string]error{
		"socket: too many open files":                     &net.OpError{Op: "dial", Net: "tcp", Addr: end, Err: fmt.Errorf("socket: %w", syscall.EMFILE)},
		"remote error: tls: bad certificate":              &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},
		"x509: certificate signed by unknown authority":   &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"first record does not look like a TLS handshake": tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"lookup web on 10.0.0.2:53: no such host":         &net.DNSError{Err: "no such host", Name: "web", Server: "10.0.0.2:53"},
		"lookup web: read udp 10.0.0.2:53: i/o timeout":   &net.DNSError{Err: "read udp 10.0.0.1:43210->10.0.0.2:53: i/o timeout", Name: "web"},
		"not \uFFFD UTF-8":                                errors.New("not \xff UTF-8"),
		strings.Repeat("x", longestText) + "…":            errors.New(strings.Repeat("x", longestText+1)),
	} {
		if got := errorText(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestFewErrorTextsAreToldPerTargetAndClass(t *testing.T) {
	var e errorTexts
	failed := func(class timeline.Class) timeline.Request {
		return timeline.Request{Sent: ms, Done: 2 * ms, Outcome: timeline.Outcome{Class: class}}
	}
	for range 2 {
		for i := range 9 {
			err := fmt.Errorf("certificate expired: not %d", i)
			e.record("new", failed(timeline.TLS), err)
			e.record("reused", failed(timeline.TLS), err)
		}
		e.record("new", failed(timeline.Other), io.ErrNoProgress)
		e.record("new", failed(timeline.Refused), syscall.ECONNREFUSED)
		e.record("new", failed(timeline.OK), nil)
	}
	told := e.Take()
	if len(told) != 2*maxTexts+1 {
		t.Errorf("%d texts: %v", len(told), told)
	}
	first := timeline.Event{
		Kind: timeline.RequestError, Since: ms, Seen: 2 * ms, To: "tls", Detail: "certificate expired: not 0",
		Object: timeline.Object{Kind: "Target", Name: "new"},
	}
	if !reflect.DeepEqual(told[0], first) {
		t.Errorf("%+v, want %+v", told[0], first)
	}
	if more := e.Take(); more != nil {
		t.Errorf("told twice: %v", more)
	}
}

// The texts of a disruption are told, though an earlier one had them.
func TestErrorTextsAreToldOfEachDisruption(t *testing.T) {
	var e errorTexts
	for _, at := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Minute, 2*time.Minute + textsFor} {
		r := timeline.Request{Sent: at, Done: at + ms, Outcome: timeline.Outcome{Class: timeline.DNS}}
		e.record("new", r, io.ErrNoProgress)
	}
	var told []time.Duration
	for _, event := range e.Take() {
		told = append(told, event.Since)
	}
	if want := []time.Duration{time.Second, 2 * time.Minute}; !slices.Equal(told, want) {
		t.Errorf("told at %v, want %v", told, want)
	}
}

// A text with the time of day, or a request's own ID, is the same text each time. Other texts are told beside it, and
// those with other statuses are other texts.
func TestTextsThatDifferInTimesAndIdentifiersAreOne(t *testing.T) {
	for name, texts := range map[string][]string{
		"time":       {"down since 2026-11-25T16:30:00.123Z", "down since 2026-11-25T16:30:01.4Z", "down since 2026-11-26T06:30:01Z"},
		"HTTP date":  {"Wed, 25 Nov 2026 16:30:00 GMT: busy", "Wed, 25 Nov 2026 16:30:07 GMT: busy"},
		"duration":   {"gave up after 1.52s", "gave up after 803ms"},
		"identifier": {"request 9f86d081884c7d65 failed", "request 60303ae22b998861 failed"},
		"UUID":       {"id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417400f"},
		"counter":    {"attempt 100234", "attempt 100235"},
	} {
		var e errorTexts
		for range 5 {
			for _, text := range texts {
				e.record("new", timeline.Request{Outcome: timeline.Outcome{Class: timeline.HTTP5xx}}, errors.New(text))
			}
		}
		e.record("new", timeline.Request{Outcome: timeline.Outcome{Class: timeline.HTTP5xx}}, errors.New("status 502"))
		e.record("new", timeline.Request{Outcome: timeline.Outcome{Class: timeline.HTTP5xx}}, errors.New("status 503"))
		if told := e.Take(); len(told) != 3 || told[0].Detail != texts[0] {
			t.Errorf("%s: %d texts, want 3, the first as it came: %v", name, len(told), told)
		}
	}
}
