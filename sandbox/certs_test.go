package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func credentials(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{stateDir: stateDir{t.TempDir()}, shape: shape{Nodes: 2},
		ProxyMode: "iptables", Endpoint: "127.0.0.1:16443"}
	for _, dir := range []string{"pki", "config"} {
		if err := os.Mkdir(s.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.writeCredentials(time.Now()); err != nil {
		t.Fatal(err)
	}
	return s
}

func parseCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	p.AddCert(parseCert(t, path))
	return p
}

func TestAPIServerIsTrustedUnderEveryNameItIsReachedBy(t *testing.T) {
	s := credentials(t)
	cert := parseCert(t, s.pki("apiserver.crt"))
	for _, host := range []string{"127.0.0.1", "10.96.0.1", "10.200.0.1", "kubernetes.default.svc"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: pool(t, s.pki("ca.crt"))}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// The node authorizer and NodeRestriction go by these names.
func TestKubeletIsTheNodeItServes(t *testing.T) {
	s := credentials(t)
	cert := parseCert(t, s.pki("node2.crt"))
	if cert.Subject.CommonName != "system:node:node2" || cert.Subject.Organization[0] != "system:nodes" {
		t.Errorf("subject %v", cert.Subject)
	}
	if err := cert.VerifyHostname("10.200.0.12"); err != nil {
		t.Error(err)
	}
	if cert.VerifyHostname("10.200.0.11") == nil {
		t.Error("node2 may pass for node1")
	}
}

func TestClusterCertificatesDoNotOpenEtcd(t *testing.T) {
	s := credentials(t)
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for cert, welcome := range map[string]bool{"apiserver-etcd-client.crt": true, "node1.crt": false,
		"apiserver-kubelet-client.crt": false} {
		_, err := parseCert(t, s.pki(cert)).Verify(x509.VerifyOptions{Roots: pool(t, s.pki("etcd-ca.crt")),
			KeyUsages: usage})
		if (err == nil) != welcome {
			t.Errorf("%s at etcd: %v", cert, err)
		}
	}
}

func TestKeysAreForRootOnly(t *testing.T) {
	s := credentials(t)
	keys, _ := filepath.Glob(s.pki("*.key"))
	for _, path := range append(keys, s.kubeconfig()) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if len(keys) < 6 {
		t.Errorf("only %v", keys)
	}
}

// The kubeconfig works with TLS verified both ways.
func TestKubeconfigOpensTheAPIServer(t *testing.T) {
	s := credentials(t)
	serving, err := tls.LoadX509KeyPair(s.pki("apiserver.crt"), s.pki("apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"status":{"conditions":[{"type":"Ready","status":"`+r.TLS.PeerCertificates[0].Subject.Organization[0]+`"}]}}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool(t, s.pki("ca.crt"))}
	server.StartTLS()
	defer server.Close()
	s.Endpoint = server.Listener.Addr().String()
	api, err := s.api()
	if err != nil {
		t.Fatal(err)
	}
	if err := api.nodeReady(t.Context(), "node1"); err == nil || err.Error() != "not ready: " {
		t.Errorf("%v", err)
	}
}

func TestKubeconfigIsReadBack(t *testing.T) {
	s := credentials(t)
	user, err := readKubeconfig(s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := os.ReadFile(s.pki("ca.crt"))
	if !bytes.Equal(user.ca, ca) || user.cert.Leaf.Subject.CommonName != "admin" {
		t.Error("the kubeconfig does not hold what was written")
	}
}
