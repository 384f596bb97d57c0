package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/dashboard/internal/sample"
	"lapse/internal/layer"
)

// savedReport writes a run into a document of its own, as a report does: the page's files and the data inside, and a
// policy that allows nothing else.
func savedReport(t *testing.T, run *model.Timeline) string {
	t.Helper()
	script := strings.ReplaceAll(read(t, "dist/page.js"), "</script", `<\/script`)
	style := read(t, "dist/page.css")
	var zipped bytes.Buffer
	zipper := gzip.NewWriter(&zipped)
	if err := json.NewEncoder(zipper).Encode(map[string]any{"timeline": run}); err != nil {
		t.Fatal(err)
	}
	zipper.Close()
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	path := filepath.Join(t.TempDir(), "report.html")
	document := fmt.Sprintf(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Lapse</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src %s; style-src %s; require-trusted-types-for 'script'; trusted-types 'none'">
<style>%s</style></head><body><div id="page"></div>
<script type="application/json+gzip-base64" id="lapse-run">%s</script><script type="module">%s</script></body></html>`,
		hash(script), hash(style), style, base64.StdEncoding.EncodeToString(zipped.Bytes()), script)
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestARunInTheDocumentIsShownWithoutAnyServer(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	url := savedReport(t, run)
	p := newTab(t, "about:blank")
	var mu sync.Mutex
	var requests []string
	err := chromedp.Listen(p.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			requests = append(requests, e.Request.URL)
		case *network.EventWebSocketCreated:
			requests = append(requests, e.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.run(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		return chromedp.Void{}, err
	}, chromedp.Navigate(fmt.Sprintf("%s#window=%d", url, outage(t, run).ID)))
	p.see(`[data-testid="connection"][data-phase="saved"]`)
	p.see(why(outage(t, run).ID))
	p.openIncidents()
	p.see(firstWindow)
	if n := p.count(`[data-testid="window-row"]`); n != len(run.Windows) {
		t.Errorf("%d windows, the timeline has %d", n, len(run.Windows))
	}
	if text := p.text(`[data-testid="event-count"]`); text != fmt.Sprint(len(run.Events)) {
		t.Errorf("%s events, the timeline has %d", text, len(run.Events))
	}
	ids := eval[[]string](p, `[...document.querySelectorAll('[data-testid="strip"]')].map((s) => s.dataset.id)`)
	if len(ids) != len(run.Targets) {
		t.Errorf("strips %q, the timeline has %d targets", ids, len(run.Targets))
	}
	p.until("has drawn its strips", `((c) => (c.scrollIntoView({block: "nearest"}), c.width > 300))(document.querySelector('[data-testid="strip"] canvas'))`)
	if href := eval[string](p, `document.querySelector('[data-testid="download"]').href`); !strings.HasPrefix(href, "blob:") {
		t.Errorf("timeline.json is at %s", href)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(requests) != 1 || !strings.HasPrefix(requests[0], url) {
		t.Errorf("requests %q, want none but the document itself", requests)
	}
}

func TestADamagedReportSaysSo(t *testing.T) {
	layer.Real(t)
	url := savedReport(t, sample.Run(sample.Length))
	path := strings.TrimPrefix(url, "file://")
	text := read(t, path)
	at := strings.Index(text, `id="lapse-run">`) + 2000
	if err := os.WriteFile(path, []byte(text[:at]+"AAAAAAAA"+text[at+8:]), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, url)
	p.see(`[data-testid="connection"][data-phase="refused"]`)
	if text := p.text("main"); !strings.Contains(text, "cannot be read") {
		t.Errorf("the page says %q", text)
	}
}

// On paper the run is light whatever the screen was, whole, and without what only a screen can do.
func TestThePagePrints(t *testing.T) {
	layer.Real(t)
	p := openSample(t, fmt.Sprintf("#window=%d", outage(t, sample.Run(sample.Length)).ID))
	p.run(preferDark)
	p.until("is dark", `document.documentElement.dataset.theme === "dark"`)
	eval[bool](p, `addEventListener("beforeprint", () => Promise.resolve().then(() => new Promise((done) => queueMicrotask(done))).then(() => {
		window.paper = [document.documentElement.dataset.theme, document.querySelector('[data-testid="plots"]').scrollWidth];
	})), true`)
	pdf, err := chromedp.Run(p.ctx, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, target, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: new(true), PreferCSSPageSize: new(true)})
		return r.Data, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "page.pdf"), pdf, 0o644); err != nil {
		t.Fatal(err)
	}
	if theme := eval[string](p, "String(window.paper?.[0])"); theme != "light" {
		t.Errorf("the page is printed in the theme %q, want light", theme)
	}
	if !bytes.HasPrefix(pdf, []byte("%PDF")) || len(pdf) < 50_000 {
		t.Errorf("a PDF of %d bytes", len(pdf))
	}
}
