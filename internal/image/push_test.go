package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"lapse/internal/hint"
)

// fast waits next to nothing before a second attempt.
var fast = remote.Backoff{Duration: time.Millisecond, Steps: 1}

func newRegistry() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

// serve serves a registry over HTTP, and returns its host and port. A write is first given to answer.
func serve(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	images := newRegistry()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == nil || !answer(w, r) {
			images.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// writes answers only requests that write.
func writes(status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	}
}

// noCredentials hides those of whoever runs the test.
func noCredentials(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} {
		t.Setenv(folder, t.TempDir())
	}
	t.Setenv("REGISTRY_AUTH_FILE", "")
}

func tagOf(t *testing.T, text string) name.Tag {
	t.Helper()
	tag, err := Tag(text, "v1.2.3", false)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func TestPushedTwiceIsTheSameDigest(t *testing.T) {
	noCredentials(t)
	called := serve(t, nil) + "/tools/lapse"
	var names [2]string
	for i := range names {
		var err error
		if names[i], err = (Registry{backoff: fast}).Push(t.Context(), bothPlatforms(t), tagOf(t, called)); err != nil {
			t.Fatal(err)
		}
	}
	if names[0] != names[1] || !strings.HasPrefix(names[0], called+"@sha256:") {
		t.Errorf("names %q", names)
	}
	for _, reference := range []string{names[0], called + ":v1.2.3"} { // the tag is the version
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		pulled, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		holdsBothPlatforms(t, pulled)
	}
}

func TestDockersCredentialsAreUsed(t *testing.T) {
	noCredentials(t)
	host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "me" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	logIn := func(password string) {
		text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
		if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	push := func() error {
		_, err := Registry{backoff: fast}.Push(t.Context(), bothPlatforms(t), tagOf(t, host+"/lapse"))
		return err
	}
	for _, before := range []func(){func() {}, func() { logIn("wrong") }} {
		before()
		err := push()
		if err == nil || !strings.Contains(err.Error(), "the login is missing or wrong") || !strings.Contains(hint.Of(err), "docker login "+host) {
			t.Errorf("error %v, hint %q", err, hint.Of(err))
		}
	}
	logIn("secret")
	if err := push(); err != nil {
		t.Error(err)
	}
}

func TestARefusedPushSaysWhatToTry(t *testing.T) {
	noCredentials(t)
	for _, test := range []struct {
		name       string
		answer     func(http.ResponseWriter, *http.Request) bool
		want, hint string
	}{
		{"read-only", writes(http.StatusMethodNotAllowed, `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`), "the registry is read-only", "another registry"},
		{"denied", writes(http.StatusForbidden, `{"errors":[{"code":"DENIED","message":"requested access is denied"}]}`), "may not push here", "docker login"},
		{"full, said by its status", writes(http.StatusInsufficientStorage, ""), "disk is full", "free space"},
		{"full, said by its text", writes(http.StatusInternalServerError, `{"errors":[{"code":"UNKNOWN","message":"write /var/lib/registry/x: no space left on device"}]}`), "disk is full", "free space"},
		{"broken", writes(http.StatusBadGateway, "<html>\n<h1>502</h1>\n"+strings.Repeat("x", 1000)), "the registry failed", "log"},
		{"no repository", writes(http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN","message":"no"}]}`), "no such repository", "tools/lapse"},
		{"small proxy", writes(http.StatusRequestEntityTooLarge, ""), "too large", "proxy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Registry{backoff: fast}.Push(t.Context(), bothPlatforms(t), tagOf(t, serve(t, test.answer)+"/tools/lapse"))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(hint.Of(err), test.hint) {
				t.Fatalf("error %v, hint %q", err, hint.Of(err))
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("not a line: %q", err)
			}
		})
	}
}

func TestARegistryThatIsNotReachedSaysWhatToTry(t *testing.T) {
	noCredentials(t)
	plain := httptest.NewServer(newRegistry())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(newRegistry())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that a client does not trust it
	secure.StartTLS()
	t.Cleanup(secure.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	// to returns a transport of which every connection goes to a server, whatever it is called.
	to := func(server *httptest.Server, roots *x509.CertPool) *http.Transport {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}
		transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}}
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	nowhere := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true}}
	}}
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	for _, test := range []struct {
		name       string
		over       *http.Transport
		insecure   bool
		want, hint string // empty: it is pushed
	}{
		{name: "TLS", over: to(secure, trusted)},
		{name: "no TLS, and none demanded", over: to(plain, nil), insecure: true},
		{name: "no TLS", over: to(plain, nil), want: "does not speak TLS", hint: "--insecure"},
		{name: "unknown authority", over: to(secure, x509.NewCertPool()), want: "certificate is not trusted", hint: "SSL_CERT_FILE"},
		{name: "unknown host", over: nowhere, want: "no such host", hint: "before the first slash"},
		{name: "nobody listens", over: to(closed, nil), want: "does not answer", hint: "running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tag, err := Tag("example.com/lapse", "v1", test.insecure)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Registry{Insecure: test.insecure, transport: test.over, backoff: fast}.Push(t.Context(), bothPlatforms(t), tag)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(hint.Of(err), test.hint)):
				t.Errorf("error %v, hint %q", err, hint.Of(err))
			}
		})
	}
}

// At an address of this machine or a private one, go-containerregistry also asks over HTTP. It must not hide why TLS
// failed, and the login must not be sent without TLS to another machine.
func TestAPrivateAddressIsAskedOverTLSOnly(t *testing.T) {
	noCredentials(t)
	plain := httptest.NewServer(newRegistry())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(newRegistry())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, test := range []struct {
		name     string
		server   *httptest.Server
		host     string
		insecure bool
		want     string // empty: it is pushed
	}{
		{"this machine, over HTTP", plain, "127.0.0.1:5000", false, ""},
		{"a private address, over HTTP", plain, "10.1.2.3:5000", false, "does not speak TLS"},
		{"a private address, over HTTP as demanded", plain, "10.1.2.3:5000", true, ""},
		{"this machine, unknown authority", secure, "127.0.0.1:5000", false, "certificate is not trusted"},
		{"a private address, unknown authority", secure, "10.1.2.3:5000", false, "certificate is not trusted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tag, err := Tag(test.host+"/lapse", "v1", test.insecure)
			if err != nil {
				t.Fatal(err)
			}
			to := func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, test.server.Listener.Addr().String())
			}
			over := &http.Transport{DialContext: to}
			t.Cleanup(over.CloseIdleConnections)
			registry := Registry{Insecure: test.insecure, transport: over, backoff: fast}
			if _, err = registry.Push(t.Context(), bothPlatforms(t), tag); test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestNamesOfImages(t *testing.T) {
	for text, want := range map[string]string{
		"ghcr.io/you/lapse": "ghcr.io/you/lapse:v1", "localhost:5000/lapse:x": "localhost:5000/lapse:x", "you/lapse": "docker.io/you/lapse:v1", "lapse": "docker.io/library/lapse:v1",
	} {
		tag, err := Tag(text, "v1", false)
		if err != nil || inFull(tag.Name()) != want {
			t.Errorf("%s is %s, %v, want %s", text, inFull(tag.Name()), err, want)
		}
	}
	for _, bad := range []string{"", "ghcr.io/You/lapse", "ghcr.io/you/lapse:", "ghcr.io/you/lapse@sha256:0", "https://ghcr.io/you/lapse"} {
		if tag, err := Tag(bad, "v1", false); err == nil || hint.Of(err) == "" {
			t.Errorf("%q is %s, %v", bad, tag, err)
		}
	}
}
