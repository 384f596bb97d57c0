package deploy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/layer"
)

// renewedKeys returns the keys of a prober and a coordinator, and later ones of the same authority.
func renewedKeys(t *testing.T) (before, after Keys) {
	t.Helper()
	a, err := newAuthority(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []*Keys{&before, &after} {
		if keys.Coordinator, err = a.pair(agent.CoordinatorName, a.cert.NotAfter, x509.ExtKeyUsageClientAuth); err != nil {
			t.Fatal(err)
		}
		if keys.Prober, err = a.pair(agent.ProberName, a.cert.NotAfter, x509.ExtKeyUsageServerAuth); err != nil {
			t.Fatal(err)
		}
	}
	return before, after
}

func writeKeys(t *testing.T, dir string, pair agent.KeyPair) {
	t.Helper()
	for name, content := range map[string][]byte{"ca.crt": pair.CA, "prober.crt": pair.Cert, "prober.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// connect makes a handshake, and returns the prober's certificate, or why it fails.
func connect(t *testing.T, prober *tls.Config, coordinator agent.KeyPair) (cert []byte, err error) {
	t.Helper()
	config, err := coordinator.Client()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", prober)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		served <- conn.(*tls.Conn).Handshake()
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), config)
	if refused := <-served; err == nil {
		err = refused // its verdict comes after the client's handshake
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return encodePEM("CERTIFICATE", conn.ConnectionState().PeerCertificates[0].Raw), nil
}

func TestNextHandshakeUsesTheKeysThatAreThere(t *testing.T) {
	layer.Real(t)
	before, after := renewedKeys(t)
	dir := t.TempDir()
	writeKeys(t, dir, before.Prober)
	var log strings.Builder
	prober, err := ProberKeysIn(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, coordinator, want agent.KeyPair) {
		t.Helper()
		if cert, err := connect(t, prober, coordinator); err != nil || !bytes.Equal(cert, want.Cert) {
			t.Errorf("%s: %v, certificate\n%s\nwant\n%s", what, err, cert, want.Cert)
		}
	}
	check("at first", before.Coordinator, before.Prober)
	writeKeys(t, dir, after.Prober)
	check("renewed, the coordinator not yet", before.Coordinator, after.Prober)
	check("both renewed", after.Coordinator, after.Prober)

	writeKeys(t, dir, agent.KeyPair{CA: after.Prober.CA, Cert: before.Prober.Cert, Key: after.Prober.Key})
	check("half renewed", after.Coordinator, after.Prober)
	check("half renewed", after.Coordinator, after.Prober)
	if n := strings.Count(log.String(), "private key does not match"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	check("the authority is gone", after.Coordinator, after.Prober)
	if !strings.Contains(log.String(), "ca.crt: no such file") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}

	others, _ := renewedKeys(t)
	writeKeys(t, dir, others.Prober)
	check("another authority", others.Coordinator, others.Prober)
	if _, err := connect(t, prober, after.Coordinator); err == nil {
		t.Error("a coordinator of the former authority is accepted")
	}
	strange := agent.KeyPair{CA: others.Prober.CA, Cert: after.Coordinator.Cert, Key: after.Coordinator.Key}
	if _, err := connect(t, prober, strange); err == nil {
		t.Error("a certificate of the former authority is accepted")
	}
	strange = agent.KeyPair{CA: others.Prober.CA, Cert: others.Prober.Cert, Key: others.Prober.Key}
	if _, err := connect(t, prober, strange); err == nil {
		t.Error("another prober is accepted")
	}
}

func TestKeysThatCannotBeUsedAreNamed(t *testing.T) {
	good, other := renewedKeys(t)
	for want, pair := range map[string]agent.KeyPair{
		"private key does not match public key":  {CA: good.Prober.CA, Cert: good.Prober.Cert, Key: other.Prober.Key},
		"the authority: no certificate in it":    {CA: []byte("none"), Cert: good.Prober.Cert, Key: good.Prober.Key},
		"failed to find any PEM data in certifi": {CA: good.Prober.CA, Key: good.Prober.Key},
	} {
		dir := t.TempDir()
		writeKeys(t, dir, pair)
		_, err := ProberKeysIn(dir, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir+" (LAPSE_KEY_DIR)") {
			t.Errorf("%s: %v", want, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "none")
	_, err := ProberKeysIn(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "ca.crt: no such file") || hint.Of(err) == "" {
		t.Errorf("error is %v, hint %q", err, hint.Of(err))
	}
}
