package deploy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	"lapse/deploy/agent"
)

// Keys are the keys of one run. By them its coordinator and probers identify each other.
type Keys struct{ Coordinator, Prober agent.KeyPair }

// keySlack extends the validity of certificates: clocks of nodes and workstations may differ, and a run's end is known
// only by its deadline.
const keySlack = 24 * time.Hour

// NewKeys makes the keys of a run that takes at most that long. It does not keep the authority that signs them.
func NewKeys(lasts time.Duration) (Keys, error) {
	a, err := newAuthority(lasts)
	if err != nil {
		return Keys{}, err
	}
	return a.keys(a.cert.NotAfter)
}

// An authority signs the certificates of a run, or of a guard.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
	pem  []byte // the certificate's
}

func newAuthority(lasts time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority of the keys: %w", err)
	}
	a := &authority{key: key, cert: certificate("lapse", time.Now().Add(lasts+keySlack))}
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority of the keys: %w", err)
	}
	a.pem = encodePEM("CERTIFICATE", der)
	return a, nil
}

// certificate returns a certificate, to be signed. Its serial number will be random.
func certificate(name string, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-keySlack), NotAfter: until,
	}
}

// keys makes keys that are valid until then.
func (a *authority) keys(until time.Time) (keys Keys, err error) {
	keys.Coordinator, err = a.pair(agent.CoordinatorName, until, x509.ExtKeyUsageClientAuth)
	if err == nil {
		keys.Prober, err = a.pair(agent.ProberName, until, x509.ExtKeyUsageServerAuth)
	}
	return keys, err
}

// pair makes a key and its certificate for a name.
func (a *authority) pair(name string, until time.Time, use x509.ExtKeyUsage) (agent.KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	cert := certificate(name, until)
	cert.DNSNames = []string{name}
	cert.KeyUsage, cert.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{use}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("sign the key of %s: %w", name, err)
	}
	private, err := encodeKey(key)
	return agent.KeyPair{CA: a.pem, Cert: encodePEM("CERTIFICATE", der), Key: private}, err
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("PRIVATE KEY", private), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
