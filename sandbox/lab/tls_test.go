package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheCertificateOfWebIsTrustedByTheFileThatLapseGets(t *testing.T) {
	p := &play{namespace: "lab", vars: map[string]string{}}
	s := Scenario{Manifest: "kind: Service\n", Flags: []string{"--scheme", "h2", "--ca-file", "$ca"}}
	manifest, err := p.withCertificate(s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(manifest, "kind: Service\n---\n") || !strings.Contains(manifest, "metadata: {name: lab-tls}") {
		t.Errorf("manifest %q", manifest)
	}
	next := &play{namespace: "lab", vars: map[string]string{}}
	if again, err := next.withCertificate(s, t.TempDir()); err != nil || again != manifest {
		t.Errorf("the next scenario of the namespace gets another Secret: %q, %v", again, err)
	}
	trusted, err := os.ReadFile(p.vars["ca"])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		t.Fatalf("no certificate in %s", p.vars["ca"])
	}
	certificate, key, err := certify(time.Now(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		t.Error(err)
	}
	block, _ := pem.Decode(trusted)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: "web.lab.svc.cluster.local"}); err != nil {
		t.Error(err)
	}
}

func TestAScenarioWithoutTLSGetsNoCertificate(t *testing.T) {
	p := &play{vars: map[string]string{}}
	manifest, err := p.withCertificate(Scenario{Manifest: "kind: Service\n"}, t.TempDir())
	if err != nil || manifest != "kind: Service\n" || len(p.vars) > 0 || p.overTLS {
		t.Errorf("%q, %v, %v", manifest, p.vars, err)
	}
}
