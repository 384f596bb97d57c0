package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// caVar is the variable of a file with whom to trust. A scenario that has it in its flags is given a certificate for
// web, in the Secret that Pods mount.
const caVar = "ca"

const tlsSecret = "lab-tls"

// overTLS reports whether web's Pods speak TLS on their port of HTTP.
func (s Scenario) overTLS() bool { return slices.Contains(s.Flags, "$"+caVar) }

// withCertificate adds the Secret to the manifest of a scenario that needs it, and leaves whom to trust in a folder.
func (p *play) withCertificate(s Scenario, dir string) (manifest string, err error) {
	if !s.overTLS() {
		return s.Manifest, nil
	}
	if s.GoodFor > 0 {
		return p.withExpiring(s, dir)
	}
	certificate, key, err := certificateOf(p.namespace)
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return "", err
	}
	p.vars[caVar], p.overTLS = file, true
	return strings.TrimRight(s.Manifest, "\n") + "\n---\n" + secretOf(certificate, key),
		os.WriteFile(file, certificate, 0o644)
}

// withExpiring is withCertificate for a certificate that expires while Lapse measures. The Secret has a name of its
// own, for the reason that certificates gives. Lapse also trusts the certificate that `renew certificate` puts in its
// place.
func (p *play) withExpiring(s Scenario, dir string) (manifest string, err error) {
	certificate, key, err := certify(time.Now(), s.GoodFor, namesOfWeb(p.namespace)...)
	if err != nil {
		return "", err
	}
	renewed, renewedKey, err := certify(time.Now(), aDay, namesOfWeb(p.namespace)...)
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%d", tlsSecret, time.Now().Unix())
	rename := func(text string) string { return strings.ReplaceAll(text, tlsSecret, name) }
	p.vars[caVar], p.overTLS, p.renewed = file, true, rename(secretOf(renewed, renewedKey))
	return rename(strings.TrimRight(s.Manifest, "\n") + "\n---\n" + secretOf(certificate, key)),
		os.WriteFile(file, append(certificate, renewed...), 0o644)
}

func parseRenew(w words) (action, bool) {
	return func(ctx context.Context, p *play) error { return p.apply(ctx, p.renewed) }, w.is("certificate")
}

// certificates holds web's certificate in each namespace. A kubelet may give a Pod what the Secret of that name held in
// an earlier scenario: so it stays the same.
var certificates = struct {
	sync.Mutex
	of map[string][2][]byte
}{of: map[string][2][]byte{}}

// certificateOf makes the certificate of web in a namespace when it is first asked for.
func certificateOf(namespace string) (certificate, key []byte, err error) {
	certificates.Lock()
	defer certificates.Unlock()
	if made, ok := certificates.of[namespace]; ok {
		return made[0], made[1], nil
	}
	certificate, key, err = certify(time.Now(), aDay, namesOfWeb(namespace)...)
	if err == nil {
		certificates.of[namespace] = [2][]byte{certificate, key}
	}
	return certificate, key, err
}

const aDay = 24 * time.Hour

func namesOfWeb(namespace string) []string {
	return []string{"web." + namespace + ".svc.cluster.local", "web." + namespace + ".svc", "web." + namespace, "web"}
}

func secretOf(certificate, key []byte) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/tls\ndata:\n"+
		"  tls.crt: %s\n  tls.key: %s\n",
		tlsSecret, base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))
}

// certify makes a certificate for some names that is its own authority, valid for the time given.
func certify(now time.Time, good time.Duration, names ...string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(good),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:        true,

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	var c, k bytes.Buffer
	_ = pem.Encode(&c, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	_ = pem.Encode(&k, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return c.Bytes(), k.Bytes(), nil
}
