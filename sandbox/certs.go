package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// The cluster has an authority of its own, and etcd another one: a kubelet's certificate opens the API
// server's door, never etcd's. Certificates last a year, a sandbox hours.

const certLifetime = 365 * 24 * time.Hour

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte
}

// A keyPair is a certificate and its key, in PEM.
type keyPair struct{ Cert, Key []byte }

// An identity is whom a certificate names: a user with groups, and the addresses it may serve on.
type identity struct {
	User   string
	Groups []string
	Hosts  []string // names and addresses; none for a mere client
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: name}, now)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, encodePEM("CERTIFICATE", der)}, err
}

func (a *authority) issue(id identity, now time.Time) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template := certTemplate(pkix.Name{CommonName: id.User, Organization: id.Groups}, now)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range id.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("certificate for %s: %w", id.User, err)
	}
	keyPEM, err := encodeKey(key)
	return keyPair{encodePEM("CERTIFICATE", der), keyPEM}, err
}

func certTemplate(subject pkix.Name, now time.Time) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a clock may be set back
		NotAfter:     now.Add(certLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encodePEM("EC PRIVATE KEY", der), err
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// apiServerHosts returns the names under which the API server is reached: from pods, from nodes, through the relay.
func apiServerHosts() []string {
	return []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
		"localhost", "127.0.0.1", apiServiceAddr, controlPlaneAddr, controlPlaneAddr6,
	}
}

// writeCredentials makes both authorities, every certificate and every kubeconfig.
func (s *sandbox) writeCredentials(now time.Time) error {
	etcd, err := newAuthority("lapse-sandbox-etcd", now)
	if err != nil {
		return err
	}
	cluster, err := newAuthority("lapse-sandbox", now)
	if err != nil {
		return err
	}
	w := &credentialWriter{s: s, now: now, cluster: cluster}
	w.file("etcd-ca.crt", etcd.PEM)
	w.file("ca.crt", cluster.PEM)
	w.pair("etcd", etcd, identity{User: "etcd", Hosts: []string{"localhost", "127.0.0.1"}})
	w.pair("apiserver-etcd-client", etcd, identity{User: "kube-apiserver"})
	w.pair("apiserver", cluster, identity{User: "kube-apiserver", Hosts: apiServerHosts()})
	w.pair("apiserver-kubelet-client", cluster, identity{User: kubeletClient})
	w.serviceAccountKey()
	inside := "https://" + net.JoinHostPort(controlPlaneAddr, apiPort)
	w.kubeconfig(s.kubeconfig(), "https://"+s.Endpoint, identity{User: "admin", Groups: []string{"system:masters"}})
	for component, user := range map[string]string{
		"controller-manager": "system:kube-controller-manager",
		"scheduler":          "system:kube-scheduler",
		"kube-proxy":         "system:kube-proxy",
		"coredns":            coreDNSUser,
		balancerHost.Name:    outerUser,
	} {
		w.kubeconfig(s.config(component+".kubeconfig"), inside, identity{User: user})
	}
	w.kubeconfig(s.config(outsideHost.Name+".kubeconfig"), inside,
		identity{User: "admin", Groups: []string{"system:masters"}})
	for _, n := range s.nodes() {
		id := identity{User: "system:node:" + n.Name, Groups: []string{"system:nodes"}}
		w.kubeconfig(s.config(n.Name+".kubeconfig"), inside, id)
		id.Hosts = []string{n.Name, n.Addr.String(), n.Addr6.String()}
		w.pair(n.Name, cluster, id)
	}
	return w.err
}

// The users that need a role of their own; config/objects.yaml binds them.
const (
	kubeletClient = "lapse:kube-apiserver"
	outerUser     = "lapse:outer" // the load balancer and the ingress
	coreDNSUser   = "lapse:coredns"
)

// credentialWriter keeps the first error, so that the list above reads as a list.
type credentialWriter struct {
	s       *sandbox
	now     time.Time
	cluster *authority
	err     error
}

func (w *credentialWriter) file(name string, data []byte) {
	if w.err == nil {
		w.err = os.WriteFile(w.s.pki(name), data, 0o600)
	}
}

func (w *credentialWriter) issue(by *authority, id identity) keyPair {
	if w.err != nil {
		return keyPair{}
	}
	var pair keyPair
	pair, w.err = by.issue(id, w.now)
	return pair
}

func (w *credentialWriter) pair(name string, by *authority, id identity) {
	pair := w.issue(by, id)
	w.file(name+".crt", pair.Cert)
	w.file(name+".key", pair.Key)
}

func (w *credentialWriter) serviceAccountKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		var pem []byte
		pem, err = encodeKey(key)
		w.file("service-account.key", pem)
	}
	if w.err == nil {
		w.err = err
	}
}

func (w *credentialWriter) kubeconfig(path, server string, id identity) {
	pair := w.issue(w.cluster, id)
	if w.err == nil {
		w.err = os.WriteFile(path, renderKubeconfig(server, w.cluster.PEM, pair), 0o600)
	}
}

func renderKubeconfig(server string, ca []byte, pair keyPair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: lapse-sandbox
clusters:
- name: lapse-sandbox
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: lapse-sandbox
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: lapse-sandbox
  context:
    cluster: lapse-sandbox
    user: lapse-sandbox
`, server, b64(ca), b64(pair.Cert), b64(pair.Key))
}

type kubeUser struct {
	ca   []byte
	cert tls.Certificate
}

// readKubeconfig reads back what renderKubeconfig wrote.
func readKubeconfig(path string) (kubeUser, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return kubeUser{}, err
	}
	field := map[string][]byte{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "-data: "); ok {
			field[key], _ = base64.StdEncoding.DecodeString(value)
		}
	}
	cert, err := tls.X509KeyPair(field["client-certificate"], field["client-key"])
	return kubeUser{field["certificate-authority"], cert}, err
}
