package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lapse/correlate"
)

// patience is how long a test waits on a machine that has much else to do.
const patience = 60 * time.Second

// attempts is how often a test tries what must not take long.
const attempts = 5

// TestLivePageShowsAWindowAndShowsItAgain opens the page of a run that is under way, as a user would.
func TestLivePageShowsAWindowAndShowsItAgain(t *testing.T) {
	var broken atomic.Bool
	var answered atomic.Int64 // while not broken
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answered.Add(1)
	}))
	t.Cleanup(server.Close)
	run := filepath.Join(t.TempDir(), "run")
	url, end := start(t, "run", server.URL, "--duration=10m", "--rate=100", "--dashboard=127.0.0.1:0", "--out="+run)
	tab := openTab(t, url)
	until(t, tab, `document.querySelector('[data-testid="live"][data-live="true"]')`)
	if seen(t, tab, `document.querySelectorAll('[data-testid="window-row"]').length`) != 0 {
		t.Error("the page shows a window before anything failed")
	}

	// On a machine that has much else to do, one window of several appears in time: each outage has two, of new and of reused.
	for outage := 1; ; outage++ {
		begun := time.Now()
		broken.Store(true)
		until(t, tab, fmt.Sprintf(`document.querySelectorAll('[data-testid="window-row"]').length > %d`, 2*(outage-1)))
		late := time.Since(begun)
		broken.Store(false)
		if late <= time.Second {
			break
		}
		if outage == attempts {
			t.Errorf("the window of none of %d outages appeared within 1 s after requests began to fail, the last one's after %v", attempts, late)
			break
		}
		until(t, tab, fmt.Sprintf(`document.querySelectorAll('[data-testid="window-row"]').length === %d`, 2*outage))
		well := answered.Load() + 2*3*100 // of both targets for 3 s: more than --join
		waitFor(t, "the outage to be over", func() bool { return answered.Load() >= well })
	}
	seen(t, tab, `location.reload(), 0`)
	until(t, tab, `document.querySelector('[data-testid="window-row"]')`)

	if code := end(); code != 6 {
		t.Errorf("exit code %d, want 6: the run was ended before its time", code)
	}

	// The saved run shows the same on a page of its own.
	saved, _ := start(t, "serve", run, "--dashboard=127.0.0.1:0")
	seen(t, tab, fmt.Sprintf(`location.assign(%q), 0`, saved))
	until(t, tab, `document.querySelector('[data-testid="live"][data-live="false"]')`)
	until(t, tab, `document.querySelector('[data-testid="window-row"]')`)
}

// Every chunk of a series tells of the classes of its own failures, and of no others.
func TestChunksTellTheClassesOfTheirSlots(t *testing.T) {
	const slots = 3*chunkSlots + 7
	series := correlate.BucketSeries{
		Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots), Latency: make([]correlate.Histogram, slots),
		Classes: map[string]correlate.SparseCounts{},
	}
	for i := range slots {
		series.Sent[i] = 9
		if i%3 == 0 {
			class := []string{"refused", "eof"}[i/chunkSlots%2]
			series.Failed[i] = 1 + i%5
			series.Classes[class] = append(series.Classes[class], i, series.Failed[i])
		}
	}
	p := newPage()
	p.show(&correlate.Timeline{Buckets: correlate.Buckets{Width: 100 * time.Millisecond, Targets: map[string]correlate.BucketSeries{"web new": series}}}, 0)
	chunks := 0
	for key, value := range p.store.Snapshot().Entries {
		if !strings.HasPrefix(key, "bucket/") {
			continue
		}
		chunks++
		var c chunk
		if err := json.Unmarshal(value, &c); err != nil {
			t.Fatal(err)
		}
		told := make([]int, len(c.Sent))
		for _, pairs := range c.Classes {
			for i := 0; i < len(pairs); i += 2 {
				told[pairs[i]-c.Start] += pairs[i+1]
			}
		}
		if !slices.Equal(told, c.Failed) {
			t.Errorf("%s tells the classes of %v failures, there are %v", key, told, c.Failed)
		}
	}
	if chunks != 4 {
		t.Errorf("%d chunks, want 4", chunks)
	}
}

// start starts lapse with args, and returns its page's address and how to end it, which returns its exit code.
func start(t *testing.T, args ...string) (url string, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	talk, stderr := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- lapse(ctx, append([]string{"lapse"}, args...), t.Output(), stderr)
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

func openTab(t *testing.T, url string) context.Context {
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
