package faultserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"
)

// A client over TLS that trusts the certificate has its line back, and meets the faults for what they are.
func TestEchoIsWhatItSays(t *testing.T) {
	tests := []struct {
		kind Kind
		text string
		err  error
	}{
		{"", "ping\n", nil},
		{Error, "another line than ping\n", nil},
		{Truncate, "ping", io.EOF},
		{EOF, "", io.EOF},
		{Reset, "", syscall.ECONNRESET},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			config, ca, err := Certify()
			if err != nil {
				t.Fatal(err)
			}
			s, err := Start(Config{Protocol: "tcp", TLS: config, Faults: []Fault{{Kind: test.kind, To: time.Hour}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(ca) {
				t.Fatal("no certificate")
			}
			c, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: roots})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "ping\n"); err != nil {
				t.Fatal(err)
			}
			text := make([]byte, len(test.text))
			if _, err := io.ReadFull(c, text); err != nil || string(text) != test.text {
				t.Errorf("%q, %v", text, err)
			}
			if test.err != nil {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, test.err) {
					t.Errorf("it ends with %v", err)
				}
			}
		})
	}
}
