package dashboard_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
)

// Two runs stand one below the other, on one axis that counts from the beginning of each one's command.
func TestTwoRunsShareAnAxis(t *testing.T) {
	layer.Real(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	folder := dashboard.Folder{
		Runs: func() dashboard.Runs {
			return dashboard.Runs{Listed: []dashboard.Listed{{Name: "before"}, {Name: "after"}}}
		},
		Compared: []string{"before", "after"},
		Open: func(name string) (*dashboard.Store, dashboard.Options, error) {
			store, run := dashboard.NewStore(), sample.Run(sample.Length)
			run.Run.ID = name
			return store, dashboard.Options{}, publish.To(store).Show(run, sample.Length)
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := dashboard.ServeFolder(ctx, ln, folder, dashboard.Options{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); served.Wait() })

	page := newTab(t, "http://"+ln.Addr().String()+"/")
	page.see(`[data-testid="differences"]`)
	const ranges = `[...document.querySelectorAll('[data-testid="range"]')].map((e) => e.textContent)`
	page.until("shows two timelines", ranges+`.length === 2 && document.querySelectorAll('[data-testid="strip"] canvas').length > 3`)
	both := eval[[]string](page, ranges)
	if both[0] != both[1] || !strings.Contains(both[0], "+") {
		t.Errorf("the axes show %q", both)
	}
	if text := page.text(`[data-testid="differences"]`); !strings.Contains(text, "before") || !strings.Contains(text, "no-ready-endpoint") {
		t.Errorf("the differences read %q", text)
	}
	page.click(`[data-testid="whole-run"]`)
	page.until("shows the whole of both", ranges+`.every((text) => text.includes("−"))`)
}
