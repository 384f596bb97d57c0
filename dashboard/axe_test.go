package dashboard_test

import (
	"context"
	"os"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
)

// A violation is what axe-core finds against an element.
type violation struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

func TestThePageIsAccessible(t *testing.T) {
	layer.Real(t)
	axe, err := os.ReadFile("ui/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("the page's accessibility is tested with axe-core: %v\nhint: make ui", err)
	}
	store := dashboard.NewStore()
	if err := publish.To(store).Show(withRoutes(sample.Run(sample.Length)), sample.Length); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, "about:blank")
	// axe-core does what the page itself may not
	p.run(bypassPolicy, chromedp.Navigate(serve(t, store, "127.0.0.1:0").url()))
	p.openIncidents()
	p.see(firstWindow)
	eval[bool](p, string(axe)+"; true")

	check := func(state string) { t.Helper(); check(t, p, state) }
	p.press("]]")
	p.see(`[data-testid="window-row"].selected`)
	check("light")
	p.press("t")
	p.press("t")
	p.until("is dark", `document.documentElement.dataset.theme === "dark"`)
	check("dark")
	p.press("?")
	p.see(`[data-testid="help"][open]`)
	check("help")
}

// bypassPolicy lets a script that the test brings along do what the page's policy forbids.
func bypassPolicy(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, target, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	return chromedp.Void{}, err
}

// check fails the test for what axe-core, which the page has, finds serious.
func check(t *testing.T, p *tab, state string) {
	t.Helper()
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]violation](`axe.run().then((r) => r.violations.map(({id, impact, help, nodes}) =>
		({id, impact, help, nodes: nodes.slice(0, 4).map((n) => n.target.join(" ") + ": " + (n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ""))})))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Errorf("%s: %s (%s): %s\n%q", state, v.ID, v.Impact, v.Help, v.Nodes)
		} else {
			t.Logf("%s: %s (%s): %s %q", state, v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
}
