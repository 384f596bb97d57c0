package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lapse/internal/layer"
)

// patience is how long a test waits on a machine that has much else to do.
const patience = 60 * time.Second

// incidentShown holds in a page that shows an incident.
const incidentShown = `document.querySelector('[data-testid="incident"]')`

// openIncidents opens every incident of a page, and holds when each shows its windows.
const openIncidents = `[...document.querySelectorAll('[data-testid="incident"]')].map((incident) => {
	incident.querySelector('.incident-head .twist[aria-expanded="false"]')?.click();
	return incident.querySelector('[data-testid="window-row"]');
}).every(Boolean)`

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
	tab := openTab(t, url)
	until(t, tab, `document.querySelector('[data-testid="live"][data-live="true"]')`)
	if seen(t, tab, `document.querySelectorAll('[data-testid="incident"]').length`) != 0 {
		t.Error("the page shows an incident before anything failed")
	}

	// How soon it is shown is in TestAWindowIsShownWithinASecond, in virtual time.
	broken.Store(true)
	until(t, tab, incidentShown)
	broken.Store(false)
	seen(t, tab, `window.notReloaded = true, setTimeout(() => location.reload()), 0`) // after the answer
	until(t, tab, `!window.notReloaded && `+incidentShown)

	if code := end(); code != 6 {
		t.Errorf("exit code %d, want 6: the run was ended before its time", code)
	}

	// The saved run shows the same on a page of its own.
	saved, _ := start(t, "serve", run, "--dashboard=127.0.0.1:0")
	seen(t, tab, fmt.Sprintf(`setTimeout(() => location.assign(%q)), 0`, saved))
	until(t, tab, `document.querySelector('[data-testid="live"][data-live="false"]')`)
	until(t, tab, incidentShown)
}

// start starts lapse with args, and returns its page's address and how to end it, which returns its exit code.
func start(t *testing.T, args ...string) (url string, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	talk, stderr := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- Main(ctx, append([]string{"lapse"}, args...), t.Output(), stderr)
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

func openTab(t testing.TB, url string) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the page is tested in a real browser: %v\nhint: apt-get install chromium", err)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience))...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	return tab
}

// until waits for an expression to hold in the page, also across a reload of it.
func until(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	wait := chromedp.Evaluate[bool](fmt.Sprintf(
		`new Promise((done) => { const look = () => (%s) ? done(true) : setTimeout(look, 10); look(); })`, expression), chromedp.EvalAwaitPromise)
	var err error
	for ctx.Err() == nil {
		if _, err = chromedp.Run(ctx, wait); err == nil {
			return
		}
	}
	t.Fatalf("waiting for %s: %v", expression, err)
}

// seen is a number the page tells.
func seen(t *testing.T, tab context.Context, expression string) int {
	t.Helper()
	n, err := chromedp.Run(tab, chromedp.Evaluate[int](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return n
}
