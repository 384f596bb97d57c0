package interop

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen"
	"lapse/timeline"
)

// outcomes collects what a prober hands on of one target.
type outcomes struct {
	mu       sync.Mutex
	requests []timeline.Request
	backends map[uint16]string
	texts    []string
}

func (o *outcomes) take(fact timeline.Fact) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch fact := fact.(type) {
	case timeline.Batch:
		o.requests = append(o.requests, fact.Requests...)
	case timeline.Backend:
		o.backends[fact.ID] = fact.Name
	case timeline.Event:
		if fact.Kind == timeline.RequestError && fact.To != timeline.Local.String() {
			o.texts = append(o.texts, fact.To+": "+fact.Detail)
		}
	}
}

// count counts requests of a class.
func (o *outcomes) count(class timeline.Class) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.requests {
		if r.Class == class {
			n++
		}
	}
	return n
}

// observed counts requests that say something of the server.
func (o *outcomes) observed() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.requests {
		if r.Class.Observed() {
			n++
		}
	}
	return n
}

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[string]int{}
	for _, r := range o.requests {
		n[r.Class.String()]++
	}
	return fmt.Sprintf("%v %q", n, o.texts)
}

// probe is patient: a busy machine is no failure of the server.
func probe(kind timeline.TargetKind, url string) loadgen.Probe {
	return loadgen.Probe{Target: timeline.Target{ID: 1, Name: "web", Kind: kind, URL: url, Rate: 50, Timeout: 10 * time.Second}, Connections: 4}
}

// measure measures p while during runs.
func measure(t *testing.T, p loadgen.Probe, during func(*outcomes)) *outcomes {
	t.Helper()
	o := &outcomes{backends: map[uint16]string{}}
	prober := loadgen.New(loadgen.Config{Clock: timeline.StartClock(), Source: 1, Sink: o.take})
	if err := prober.Start(p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := prober.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	during(o)
	cancel()
	running.Wait()
	return o
}

// until waits for as long as a test may take.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still no %s", what)
		}
	}
}

// allAre complains unless every observed request to p has a class, and the text of its failures has says.
func allAre(t *testing.T, p loadgen.Probe, class timeline.Class, says string) {
	t.Helper()
	o := measure(t, p, func(o *outcomes) {
		until(t, "20 observed requests", func() bool { return o.observed() >= 20 })
	})
	if o.count(class) != o.observed() || !strings.Contains(strings.Join(o.texts, "; "), says) || says == "" && len(o.texts) > 0 {
		t.Errorf("%v, want %v: %q", o, class, says)
	}
}

// certificate is one for example.com and 127.0.0.1, in PEM files, and the pool that trusts it.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, server.TLS.Certificates[0], certFile, keyFile)
	return certFile, keyFile, roots
}

// start starts a server and waits until it serves at addr; it is ended with the test.
func start(t *testing.T, serves func() bool, name string, args ...string) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it ends its workers
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		end()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = cmd.Wait() // by a signal
	})
	until(t, name, serves)
}

// unpacking is held while a package is: two tests use the same.
var unpacking sync.Mutex

// debians is the path of a program of a Debian package: as installed, else unpacked into the cache.
func debians(t *testing.T, pkg, path string) string {
	t.Helper()
	unpacking.Lock()
	defer unpacking.Unlock()
	if found, err := exec.LookPath(filepath.Base(path)); err == nil {
		return found
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "lapse-interop", pkg) // whole, or not there
	if program := filepath.Join(dir, path); exists(program) {
		return program
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	download := t.TempDir()
	if err := apt(download, "download", pkg); err != nil {
		err = apt(download, "update")
		if err == nil {
			err = apt(download, "download", pkg)
		}
		if err != nil {
			t.Fatalf("%s is needed: install it, or let apt-get download it: %v", pkg, err)
		}
	}
	packages, _ := filepath.Glob(filepath.Join(download, "*.deb"))
	unpacked, err := os.MkdirTemp(filepath.Dir(dir), pkg)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg-deb", append([]string{"-x"}, append(slices.Clone(packages), unpacked)...)...).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", pkg, err, out)
	}
	_ = os.RemoveAll(dir) // of one that was not unpacked to its end
	if err := os.Rename(unpacked, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func apt(dir string, args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-q", "-o", "Acquire::Retries=3"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
