package loadtest

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// AnswerTo returns an answer to a DNS query. change completes a good answer without records.
func AnswerTo(t testing.TB, query string, change func(*dnsmessage.Message)) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack([]byte(query)); err != nil {
		t.Errorf("a query that is none: %v", err)
		return ""
	}
	m.Response, m.Additionals = true, nil
	change(&m)
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return string(packed)
}

// Having returns a change for [AnswerTo] that adds addresses.
func Having(addrs ...string) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		for _, text := range addrs {
			header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}
			r := dnsmessage.Resource{Header: header}
			if addr := netip.MustParseAddr(text); addr.Is4() {
				r.Body = &dnsmessage.AResource{A: addr.As4()}
			} else {
				r.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
			}
			m.Answers = append(m.Answers, r)
		}
	}
}

// Addresses returns n addresses.
func Addresses(n int) (addrs []string) {
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("10.244.%d.%d", i/250, i%250+1))
	}
	return addrs
}
