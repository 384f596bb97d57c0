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
	p := &play{scope: scope{namespace: "lab"}, vars: map[string]string{}}
	s := Scenario{Manifest: "kind: Service\n", Flags: []string{"--scheme", "h2", "--ca-file", "$ca"}}
	manifest, err := p.withCertificate(s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(manifest, "kind: Service\n---\n") ||
		!strings.Contains(manifest, "metadata: {name: lab-tls}") {
		t.Errorf("manifest %q", manifest)
	}
	next := &play{scope: scope{namespace: "lab"}, vars: map[string]string{}}
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
	certificate, key, err := certify(time.Now(), aDay, "web")
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

func TestACertificateThatExpiresHasASecretOfItsOwn(t *testing.T) {
	p := &play{scope: scope{namespace: "lab"}, vars: map[string]string{}}
	s := Scenario{Manifest: "secretName: lab-tls\n", Flags: []string{"--ca-file", "$ca"}, GoodFor: 75 * time.Second}
	manifest, err := p.withCertificate(s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Fields(manifest)[1]
	if name == tlsSecret || !strings.Contains(manifest, "metadata: {name: "+name+"}") ||
		!strings.Contains(p.renewed, "metadata: {name: "+name+"}") || p.renewed == manifest {
		t.Errorf("manifest %q, renewed %q", manifest, p.renewed)
	}
	trusted, err := os.ReadFile(p.vars["ca"])
	if err != nil {
		t.Fatal(err)
	}
	var left []time.Duration
	for block, rest := pem.Decode(trusted); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, certificate.NotAfter.Sub(certificate.NotBefore)-time.Hour)
	}
	if len(left) != 2 || left[0] != 75*time.Second || left[1] != aDay {
		t.Errorf("Lapse trusts certificates that are good for %v, want 75s and a day", left)
	}
}
