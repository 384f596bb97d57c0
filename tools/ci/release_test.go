package ci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const version = "v0.1.0"

// folder is the name of the folder in an archive, as tools/release makes it.
const folder = "lapse-" + version + "-linux-amd64"

// built builds Lapse once, and returns the archive of a release with it.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "lapse")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "lapse")
	build := exec.Command("go", "build", "-o", binary, "./cmd/lapse")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return archive("lapse", content)
})

// archive returns a .tar.gz with a program, and a text beside it.
func archive(name string, program []byte) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	files := tar.NewWriter(zip)
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{"README.txt", 0o644, []byte("Lapse\n")}, {name, 0o755, program}, {"image/linux-arm64/lapse", 0o755, nil}} {
		header := &tar.Header{Name: folder + "/" + file.name, Mode: file.mode, Size: int64(len(file.content))}
		if err := files.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := files.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// serveRelease serves a release with this repository's Lapse, and some with faults below its URL. It also returns the
// archive's SHA-256.
func serveRelease(t *testing.T) (url, sum string) {
	t.Helper()
	lapse, err := built()
	if err != nil {
		t.Fatal(err)
	}
	empty, err := archive("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	const name = folder + ".tar.gz"
	sum = fmt.Sprintf("%x", sha256.Sum256(lapse))
	line := func(sum string) []byte {
		return []byte(strings.Repeat("1", 64) + "  other.tar.gz\n" + sum + "  " + name + "\n")
	}
	served := map[string][]byte{}
	for below, files := range map[string][2][]byte{
		"":            {lapse, line(sum)},
		"/forged":     {lapse, line(strings.Repeat("0", 64))},
		"/incomplete": {lapse, []byte(strings.Repeat("1", 64) + "  other.tar.gz\n")},
		"/bare":       {lapse, nil},
		"/empty":      {empty, line(fmt.Sprintf("%x", sha256.Sum256(empty)))},
	} {
		served[below+"/"+version+"/"+name], served[below+"/"+version+"/checksums.txt"] = files[0], files[1]
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if content := served[r.URL.Path]; content != nil {
			_, _ = w.Write(content)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, sum
}

// serve serves what is measured.
func serve(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL + "/"
}
