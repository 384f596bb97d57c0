package dashboard

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/internal/layer"
)

func get(h http.Handler, host, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = host
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOnlyKnownHostsAreServed(t *testing.T) {
	h := Handler(NewStore(), Options{Hosts: []string{"lapse.shop.example"}})
	for host, want := range map[string]int{
		"127.0.0.1:7070":            200,
		"localhost:7070":            200,
		"LOCALHOST":                 200,
		"[::1]:7070":                200,
		"[::1]":                     200,
		"lapse.shop.example":        200,
		"lapse.shop.example:80":     200,
		"evil.example":              403, // whose address may well be 127.0.0.1
		"evil.example:7070":         403,
		"127.0.0.1.evil.example":    403,
		"localhost.evil.example":    403,
		"10.0.0.1":                  403,
		"":                          403,
		"evil.example@127.0.0.1:80": 403,
	} {
		for _, path := range []string{"/", "/api/v1/snapshot", "/api/v1/stream"} {
			code := get(h, host, path).Code
			if refused := code == 403; refused != (want == 403) {
				t.Errorf("host %q, %s: status %d, want %d", host, path, code, want)
			}
		}
	}
}

func TestAnswersProtectThePageInTheBrowser(t *testing.T) {
	h := Handler(NewStore(), Options{})
	for _, path := range []string{"/", "/page.js", "/api/v1/snapshot", "/not-there"} {
		header := get(h, "localhost", path).Header()
		policy := header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", path, header)
		}
	}
}

func TestPageIsServedWithItsFiles(t *testing.T) {
	h := Handler(NewStore(), Options{})
	for path, contentType := range map[string]string{
		"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css",
	} {
		w := get(h, "localhost", path)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), contentType) {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if again := get(h, "localhost", path, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d, want 304", path, again.Code)
		}
	}
	for _, path := range []string{"/dist", "/doc.go", "/../doc.go", "/index.html/x", "/timeline.json", "/api/v1/"} {
		if code := get(h, "localhost", path).Code; code == 200 {
			t.Errorf("%s: served", path)
		}
	}
}

func TestPageHasNoInlineScriptAndNoForeignHost(t *testing.T) {
	var size int
	for path, file := range pageFiles() {
		size += len(file.body)
		text := string(file.body)
		if strings.HasSuffix(path, ".html") && strings.Contains(text, "<script>") {
			t.Errorf("%s holds an inline script", path)
		}
		for _, foreign := range []string{"src=\"http", "href=\"http", "@import", "url(http", "url(//"} {
			if strings.Contains(text, foreign) {
				t.Errorf("%s refers to a foreign host: %s", path, foreign)
			}
		}
	}
	if size == 0 || size > 200_000 {
		t.Errorf("the built page takes %d bytes, want some and at most 200 kB", size)
	}
}

func TestSnapshotHoldsEverything(t *testing.T) {
	store := NewStore()
	put(t, store, "window/1", map[string]string{"target": "web new"})
	put(t, store, "gone", 1)
	store.Delete("gone")
	h := Handler(store, Options{})
	var plain, zipped Snapshot
	decode(t, get(h, "localhost", "/api/v1/snapshot").Body, &plain)
	w := get(h, "localhost", "/api/v1/snapshot", "Accept-Encoding", "br, gzip")
	unzip, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, unzip, &zipped)
	for _, snap := range []Snapshot{plain, zipped} {
		if snap.Protocol != Protocol || snap.Epoch != store.epoch || snap.Seq != 3 || len(snap.Entries) != 1 ||
			string(snap.Entries["window/1"]) != `{"target":"web new"}` {
			t.Errorf("snapshot = %+v", snap)
		}
	}
}

func decode(t *testing.T, r io.Reader, into any) {
	t.Helper()
	if err := json.NewDecoder(r).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func TestTimelineIsADownload(t *testing.T) {
	h := Handler(NewStore(), Options{Timeline: func(w io.Writer) error {
		_, err := io.WriteString(w, `{"schemaVersion":1}`)
		return err
	}})
	w := get(h, "localhost", "/timeline.json")
	if w.Body.String() != `{"schemaVersion":1}` || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("timeline = %s %v", w.Body, w.Header())
	}
}

func TestAFailedTimelineIsAnErrorAndNotHalfAFile(t *testing.T) {
	h := Handler(NewStore(), Options{Timeline: func(w io.Writer) error {
		_, _ = io.WriteString(w, `{"schema`)
		return errors.New("the run's record is damaged")
	}})
	w := get(h, "localhost", "/timeline.json")
	if w.Code != 500 || strings.Contains(w.Body.String(), "schema") || w.Header().Get("Content-Disposition") != "" {
		t.Errorf("timeline = %d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestSinceMustBeANumber(t *testing.T) {
	if code := get(Handler(NewStore(), Options{}), "localhost", "/api/v1/stream?epoch=x&since=-1").Code; code != 400 {
		t.Errorf("status %d, want 400", code)
	}
}

func TestNothingButReading(t *testing.T) {
	h := Handler(NewStore(), Options{})
	for _, path := range []string{"/", "/api/v1/snapshot", "/api/v1/stream"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", path, nil)
		r.Host = "localhost"
		h.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", path, w.Code)
		}
	}
}

// A client that sends its request byte by byte, or not at all, is cut off, and its place is free again.
func TestSlowRequestsAreCutOff(t *testing.T) {
	inBubble(t, Options{MaxConns: 1}, func(t *testing.T, b *bubble) {
		start := time.Now()
		slow := b.dial()
		if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		var trickle sync.WaitGroup
		trickle.Go(func() {
			for {
				if _, err := io.WriteString(slow, "a"); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		_, _ = io.Copy(io.Discard, slow)
		waited := time.Since(start)
		trickle.Wait()
		if waited != 5*time.Second {
			t.Errorf("a request that trickles in was cut off after %v, want 5 s", waited)
		}
		conn := b.dial() // there is one place only
		if _, err := io.WriteString(conn, "GET /not-there HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(status, "404") {
			t.Errorf("the next client got %q, %v", status, err)
		}
		conn.Close()
	})
}

// More connections than there are places, each with half a request, do not keep a browser from the page.
func TestHalfOpenConnectionsLockNobodyOut(t *testing.T) {
	layer.Real(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, NewStore(), Options{}) }()
	for range 300 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\n")
	}
	client := &http.Client{Timeout: 4 * time.Second} // half a request is cut off after 5 s
	if resp, err := client.Get("http://" + ln.Addr().String() + "/not-there"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("behind 300 half-open connections: %v, %v", resp, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Who keeps the store up to date is called before anything is read, and when it was.
func TestLookingIsToldWhileItLasts(t *testing.T) {
	var told []string
	store := NewStore()
	handler := Handler(store, Options{
		Timeline: func(w io.Writer) error { told = append(told, "read"); return nil },
		Looked: func(context.Context) func() {
			told = append(told, "looks")
			put(t, store, "now", 1)
			return func() { told = append(told, "stopped") }
		},
		Opened: func() { told = append(told, "opened") },
	})
	for _, path := range []string{"/", "/page.js", "/timeline.json", "/api/v1/snapshot"} {
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if path == "/api/v1/snapshot" && !strings.Contains(reply.Body.String(), `"now":1`) {
			t.Errorf("%s", reply.Body)
		}
	}
	if want := []string{"opened", "looks", "read", "stopped", "looks", "stopped"}; !slices.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
}
