package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
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
	var keys Keys
	if keys.Coordinator, err = a.pair(2, agent.CoordinatorName, x509.ExtKeyUsageClientAuth); err == nil {
		keys.Prober, err = a.pair(3, agent.ProberName, x509.ExtKeyUsageServerAuth)
	}
	return keys, err
}

// An authority signs the certificates of a run.
type authority struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	pem   []byte
	until time.Time
}

func newAuthority(lasts time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the run's authority: %w", err)
	}
	a := &authority{key: key, until: time.Now().Add(lasts + keySlack)}
	a.cert = a.template(1, "lapse")
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the run's authority: %w", err)
	}
	a.pem = encodePEM("CERTIFICATE", der)
	return a, nil
}

func (a *authority) template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-keySlack), NotAfter: a.until,
	}
}

// pair makes a key and its certificate for a name.
func (a *authority) pair(serial int64, name string, use x509.ExtKeyUsage) (agent.KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	cert := a.template(serial, name)
	cert.DNSNames = []string{name}
	cert.KeyUsage, cert.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{use}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("sign the key of %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	return agent.KeyPair{CA: a.pem, Cert: encodePEM("CERTIFICATE", der), Key: encodePEM("PRIVATE KEY", private)}, nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
