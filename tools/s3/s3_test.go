// Package s3 tests with a real S3 server how runs are put into a bucket.
package s3

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lapse/internal/bucket"
)

const (
	key    = "AKIAEXAMPLE"
	secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// serve starts versitygw with a bucket named runs, and returns its URL. flags say who has which rights; without any,
// there is one key, which may do all.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	start(t, "tcp", address, append(append([]string{"--port", address}, flags...), "posix", root)...)
	return "http://" + address
}

// start runs versitygw until the test ends, and returns when it listens at an address.
func start(t *testing.T, network, address string, args ...string) {
	t.Helper()
	program, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "github.com/versity/versitygw/cmd/versitygw").Output()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), strings.TrimSpace(string(program)), args...)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+key, "ROOT_SECRET_KEY="+secret)
	server.Stdout, server.Stderr = t.Output(), t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() })
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, location, endpoint, key, secret string) *bucket.Bucket {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	b, err := bucket.Open(location, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A real server takes the signatures of each request, and lists and returns what it was given: more than one page, an
// empty object, and one of 20 MB. It refuses a wrong key, a wrong secret and a bucket that it does not have, each in words.
func TestARealServerTakesWhatIsPut(t *testing.T) {
	endpoint := serve(t)
	b := open(t, "s3://runs/prod/a_b.c=d", endpoint, key, secret)
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789abcdef", 20<<20/16)
	put := map[string]string{bucket.FileKey("lapse-1", "facts.lapse"): large, bucket.FileKey("lapse-2", "facts.lapse"): ""}
	var keys []string
	for i := range 1100 {
		k := bucket.LinesKey(fmt.Sprintf("lapse-%04d", i), time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC))
		keys, put[k] = append(keys, k), fmt.Sprintf("{%d}\n", i)
	}
	for k, text := range put {
		if err := b.Put(t.Context(), k, strings.NewReader(text)); err != nil {
			t.Fatalf("%s: %v", k, err)
		}
	}
	if got, err := b.List(t.Context(), bucket.HistoryDir); err != nil || strings.Join(got, " ") != strings.Join(keys, " ") {
		t.Errorf("it lists %d of %d keys: %v", len(got), len(keys), err)
	}
	n := 0
	if err := b.GetAll(t.Context(), keys, func(k string, text io.Reader) error {
		got, err := io.ReadAll(text)
		if k != keys[n] || string(got) != put[k] {
			t.Errorf("%s: %q", k, got)
		}
		n++
		return err
	}); err != nil || n != len(keys) {
		t.Errorf("%d read: %v", n, err)
	}
	for _, run := range []string{"lapse-1", "lapse-2"} {
		body, err := b.Get(t.Context(), bucket.FileKey(run, "facts.lapse"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != put[bucket.FileKey(run, "facts.lapse")] {
			t.Errorf("%s: %d bytes, %v", run, len(got), err)
		}
		body.Close()
	}
	for _, tt := range []struct{ location, key, secret, says string }{
		{"s3://runs", "AKIAOTHER", secret, "No user exists with the provided access key ID"},
		{"s3://runs", key, secret + "x", "the secret access key is wrong"},
		{"s3://none", key, secret, "there is no such bucket"},
	} {
		err := open(t, tt.location, endpoint, tt.key, tt.secret).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s with %s: %v, want %s", tt.location, tt.key, err, tt.says)
		}
	}
}
