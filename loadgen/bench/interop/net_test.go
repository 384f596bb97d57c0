package interop

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// writePair writes a certificate and its key in PEM.
func writePair(t *testing.T, pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lastFree is the port that freeAddr gave last. Ports below 32768 the kernel gives to no client
// (ip_local_port_range), of which there are many here: one could take the port before the server that is to listen
// there has started.
var lastFree atomic.Int64

func init() { lastFree.Store(15000 + rand.Int64N(10000)) }

// freeAddr is an address of the loopback interface where nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lastFree.Add(1)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// listens reports whether somebody does at addr.
func listens(addr string) func() bool {
	return func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		c.Close()
		return true
	}
}
