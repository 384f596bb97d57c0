package integration

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/timeline"
)

// A whole run that waits: a server fails for a while, unannounced. The run has the requests before, those since at the
// full rate, and ends by itself.
func TestAnArmedRunMeasuresWhatBeganUnannounced(t *testing.T) {
	layer.Real(t)
	var failing atomic.Bool
	var asked, failed atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if failing.Load() {
			failed.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(t.Context(), []string{"lapse", "run", server.URL, "--armed", "--rate=200", "--idle-rate=20",
			"--settle=1s", "--target=new", "--out=" + dir}, &stdout, &stderr)
	}()
	runtest.WaitFor(t, "100 requests", func() bool { return asked.Load() > 100 }) // 5 s at the low rate
	failing.Store(true)
	runtest.WaitFor(t, "50 failures", func() bool { return failed.Load() > 50 })
	failing.Store(false)
	if got := <-code; got != 0 && got != 4 {
		t.Fatalf("exit code %d: %s\n%s", got, &stdout, &stderr)
	}
	tl := runtest.Timeline(t, dir)
	if tl.Run.Aborted != "" || tl.Run.Live {
		t.Errorf("it was aborted: %q", tl.Run.Aborted)
	}
	target := tl.Targets[0]
	if target.Kind != timeline.New || target.Rate != 200 || target.Rerated == nil || target.Rerated.From != 20 {
		t.Fatalf("the target is %+v, %+v", target, target.Rerated)
	}
	if int64(target.Failed) != failed.Load() {
		t.Errorf("%d requests failed, the server says %d", target.Failed, failed.Load())
	}
	if len(tl.Windows) == 0 {
		t.Fatal("no window")
	}
	if start := tl.Windows[0].Start; start.Latest-start.Earliest < 40*time.Millisecond || start.Earliest < 3*time.Second {
		t.Errorf("the window began in %+v: it is known to 50 ms", start)
	}
	if after := tl.Run.Duration - tl.Windows[len(tl.Windows)-1].End.Latest; after < 800*time.Millisecond {
		t.Errorf("it ended %v after the last failure", after)
	}
	if text := stderr.String(); !strings.Contains(text, "armed: 20/s to each target") || !strings.Contains(text, "first sign: a request failed (http_5xx)") {
		t.Errorf("it said %s", text)
	}
}
