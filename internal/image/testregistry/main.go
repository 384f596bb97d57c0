// Command testregistry is a container registry with TLS and a login, for the end-to-end tests: me, with the password
// secret. At -plain it has another one without both. It makes its certificate itself, writes it to -ca, prints "ready",
// and then a line for each request with a login, with the client's address, the method and the path.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("listen", "127.0.0.1:5000", "IP address and port to listen on")
	plain := flag.String("plain", "127.0.0.1:5001", "address to listen on without TLS and login")
	ca := flag.String("ca", "ca.pem", "file to write the certificate to")
	flag.Parse()
	go func() { log.Fatal(http.ListenAndServe(*plain, newRegistry())) }()
	log.Fatal(serve(*address, *ca))
}

func newRegistry() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

func serve(address, ca string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	certificate, err := newCertificate(net.ParseIP(host))
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	if err := os.WriteFile(ca, text, 0o644); err != nil {
		return err
	}
	// Over HTTP/2, an upload that waits for the registry's lock would fill the connection's window, which the one that
	// has the lock needs.
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	listener, err := tls.Listen("tcp", address, config)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(listener, withLogin(newRegistry()))
}

// withLogin lets only me in, and prints what is asked.
func withLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Println(client, r.Method, r.URL.Path)
		next.ServeHTTP(w, r)
	})
}

// newCertificate returns a certificate for an address, which is its own authority.
func newCertificate(address net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{address},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
