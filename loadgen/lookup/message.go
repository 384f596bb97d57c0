package lookup

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// packed returns a query on the wire.
func packed(id uint16, asked dnsmessage.Question) []byte {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	// None of these fails: the name was checked, and the message is short.
	if b.StartQuestions() != nil || b.Question(asked) != nil {
		return nil
	}
	message, err := b.Finish()
	if err != nil {
		return nil
	}
	return message
}

// An outcome is what came of a query.
type outcome struct {
	done  time.Duration
	why   string       // it was not answered; empty: it was
	addrs []netip.Addr // lowest first
	ttl   time.Duration
}

// parse reads a reply. It is none to what was asked if it is malformed, or its question another. An answer that was
// cut short is none: what it lacks is not known. That the name does not exist is one, without addresses.
func parse(message []byte, asked dnsmessage.Question) (id uint16, o outcome, isReply bool) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || !header.Response {
		return 0, o, false
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 || questions[0].Type != asked.Type || questions[0].Class != asked.Class ||
		!SameName(questions[0].Name, asked.Name) {
		return 0, o, false
	}
	switch {
	case header.Truncated:
		return header.ID, outcome{why: "truncated"}, true
	case header.RCode == dnsmessage.RCodeNameError:
		return header.ID, o, true
	case header.RCode != dnsmessage.RCodeSuccess:
		return header.ID, outcome{why: CodeName(header.RCode)}, true
	}
	answers, err := p.AllAnswers()
	if err != nil {
		return 0, o, false
	}
	for _, a := range answers {
		var addr netip.Addr
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			addr = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			addr = netip.AddrFrom16(body.AAAA)
		}
		if !addr.IsValid() || a.Header.Type != asked.Type || !SameName(a.Header.Name, asked.Name) {
			continue
		}
		ttl := time.Duration(a.Header.TTL) * time.Second
		if len(o.addrs) == 0 || ttl < o.ttl { // a resolver keeps the whole answer no longer
			o.ttl = ttl
		}
		o.addrs = append(o.addrs, addr)
	}
	slices.SortFunc(o.addrs, netip.Addr.Compare)
	o.addrs = slices.Compact(o.addrs)
	return header.ID, o, true
}

// SameName reports whether two names are equal, in whatever letters they are written.
func SameName(a, b dnsmessage.Name) bool {
	return bytes.EqualFold(a.Data[:a.Length], b.Data[:b.Length])
}

// CodeName returns the usual name of a response code (RFC 1035, section 4.1.1, and RFC 2136).
func CodeName(code dnsmessage.RCode) string {
	switch code {
	case dnsmessage.RCodeServerFailure:
		return "SERVFAIL"
	case dnsmessage.RCodeRefused:
		return "REFUSED"
	case dnsmessage.RCodeFormatError:
		return "FORMERR"
	case dnsmessage.RCodeNotImplemented:
		return "NOTIMP"
	}
	return fmt.Sprintf("response code %d", code)
}

// reason returns why nothing could be sent or received, in few words.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
