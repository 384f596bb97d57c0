package dashboard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

// TestSavedReportOpensFromAFileAndAsksNobody makes a run with failures, saves its page, and opens the file in a
// browser: it shows the windows of timeline.json, breaks none of its own policy, and makes no request.
func TestSavedReportOpensFromAFileAndAsksNobody(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	dir := runWithAWindow(t)
	saved := filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(saved)
	if err != nil {
		t.Fatal(err)
	}
	code := cli.Main(t.Context(), []string{"lapse", "report", dir, "-o", "html"}, file, t.Output())
	if err := file.Close(); err != nil || code == 1 || code == 2 {
		t.Fatalf("lapse report: exit code %d, %v", code, err)
	}

	page := newTab(t, "about:blank")
	var mu sync.Mutex
	var asked, wrong []string
	if err := chromedp.Listen(page.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		case *network.EventWebSocketCreated:
			asked = append(asked, e.URL)
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			wrong = append(wrong, e.Entry.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	page.run(chromedp.Navigate("file://" + saved))
	page.see(incident)
	page.until("shows the windows of every incident", openIncidents)
	shown := eval[[]string](page, `[...document.querySelectorAll('[data-testid="window-row"]')].map((row) => row.dataset.windowId)`)
	slices.Sort(shown)
	if want := windowIDs(t, dir); !slices.Equal(shown, want) {
		t.Errorf("the page shows the windows %q, timeline.json has %q", shown, want)
	}
	page.see(ended)
	mu.Lock()
	defer mu.Unlock()
	asked = slices.DeleteFunc(asked, func(url string) bool { return url == "file://"+saved || strings.HasPrefix(url, "data:") })
	if len(asked) > 0 || len(wrong) > 0 {
		t.Errorf("the page asked for %q, and complained of %q", asked, wrong)
	}
}

// openIncidents opens every incident of a page, and holds when each shows its windows.
const openIncidents = `[...document.querySelectorAll('[data-testid="incident"]')].map((incident) => {
	incident.querySelector('.incident-head .twist[aria-expanded="false"]')?.click();
	return incident.querySelector('[data-testid="window-row"]');
}).every(Boolean)`

// runWithAWindow measures a server that fails for a while, until it is well again, and returns the run's directory.
func runWithAWindow(t *testing.T) string {
	t.Helper()
	var served atomic.Int64
	hold := filepath.Join(t.TempDir(), "hold") // the command reads it: it ends with the writer
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := served.Add(1); {
		case n > 150 && n < 200:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 250:
			go os.WriteFile(hold, nil, 0o600) // until the command reads it
		}
	}))
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "run")
	code := cli.Main(context.Background(), []string{"lapse", "run", server.URL, "--baseline=600ms", "--rate=100", "--timeout=5s",
		"--out=" + dir, "--fail-if=failed>0", "--", "cat", hold}, t.Output(), t.Output())
	if code == 1 || code == 2 {
		t.Fatalf("exit code %d", code)
	}
	return dir
}

// windowIDs are those of a run's timeline.json, as text and sorted as such.
func windowIDs(t *testing.T, dir string) []string {
	t.Helper()
	var ids []string
	for _, w := range runtest.Timeline(t, dir).Windows {
		id, err := json.Marshal(w.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(id))
	}
	if len(ids) == 0 {
		t.Fatal("the run has no window")
	}
	slices.Sort(ids)
	return ids
}
