package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lapse/internal/cli"
	"lapse/internal/layer"
)

const (
	live  = `[data-testid="live"][data-live="true"]`
	ended = `[data-testid="live"][data-live="false"]`

	incident = `[data-testid="incident"]`
)

// TestLivePageShowsAnIncidentAndShowsItAgain opens the page of a run that is under way, as a user would.
func TestLivePageShowsAnIncidentAndShowsItAgain(t *testing.T) {
	layer.Real(t)
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	run := filepath.Join(t.TempDir(), "run")
	url, end := start(t, "run", server.URL, "--duration=10m", "--rate=100", "--timeout=5s", "--dashboard=127.0.0.1:0", "--out="+run)
	page := newTab(t, url)
	page.see(live)
	if page.count(incident) != 0 {
		t.Error("the page shows an incident before anything failed")
	}

	// How soon it is shown is in TestAWindowIsShownWithinASecond, in virtual time.
	broken.Store(true)
	page.see(incident)
	broken.Store(false)
	eval[int](page, `window.notReloaded = true, setTimeout(() => location.reload()), 0`) // after the answer
	page.until("is loaded again and shows the incident", `!window.notReloaded && document.querySelector('`+incident+`')`)

	if code := end(); code != 6 {
		t.Errorf("exit code %d, want 6: the run was ended before its time", code)
	}

	// The saved run shows the same on a page of its own.
	saved, _ := start(t, "serve", run, "--dashboard=127.0.0.1:0")
	eval[int](page, fmt.Sprintf(`setTimeout(() => location.assign(%q)), 0`, saved))
	page.see(ended)
	page.see(incident)
}

// start starts lapse with args. It returns its page's address, and a function that ends it and returns its exit code.
func start(t *testing.T, args ...string) (url string, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	talk, stderr := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- cli.Main(ctx, append([]string{"lapse"}, args...), t.Output(), stderr)
		stderr.Close()
	}()
	t.Cleanup(cancel)
	lines := bufio.NewScanner(talk)
	for lines.Scan() {
		if page, ok := strings.CutPrefix(lines.Text(), "page: "); ok {
			go io.Copy(t.Output(), talk)
			return page, func() int { cancel(); return <-exited }
		}
	}
	t.Fatalf("no page, exit code %d", <-exited)
	return "", nil
}
