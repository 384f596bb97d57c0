package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
	"lapse/timeline"
)

// fromManyNodes makes what one prober of the made-up run measured into what so many nodes measured, of which the last
// saw no window.
func fromManyNodes(tl *model.Timeline, nodes int) *model.Timeline {
	var targets []model.Target
	var windows []model.Window
	for _, t := range tl.Targets {
		if !t.Kind.Judged() {
			targets = append(targets, t)
			continue
		}
		for i := range nodes {
			from := t
			from.Node = fmt.Sprintf("node-%03d", i)
			from.ID, from.Name, from.Source = t.ID+timeline.TargetID(100*(i+1)), t.Name+" from "+from.Node, "prober-"+from.Node
			targets = append(targets, from)
			tl.Buckets.Targets[from.Name] = tl.Buckets.Targets[t.Name]
		}
		delete(tl.Buckets.Targets, t.Name)
	}
	for _, t := range targets {
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{ID: uint32(10_000 + t.ID), Kind: timeline.TargetChanged, To: "measuring", Object: timeline.Object{Kind: "Target", Name: t.Name}}})
	}
	for _, w := range tl.Windows {
		if w.Kind != model.Slow {
			w.ID, w.Target = len(windows)+1, w.Target+" from node-000"
			windows = append(windows, w)
		}
	}
	tl.Targets, tl.Windows, tl.Incidents, tl.Unobserved = targets, windows, nil, nil
	return tl
}

// first is the size of the state that a viewer gets first.
func first(t *testing.T, nodes int) int {
	t.Helper()
	store := dashboard.NewStore()
	if err := publish.To(store).Show(fromManyNodes(sample.Run(sample.Length), nodes), sample.Length); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(store.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// What a viewer gets first does not grow with the targets of a run that has many.
func TestTheFirstMessageDoesNotGrowWithTargets(t *testing.T) {
	layer.Real(t)
	few, many := first(t, 120), first(t, 1200)
	if float64(many) > 1.05*float64(few) {
		t.Errorf("the first message has %d bytes of 240 targets, and %d of 2400", few, many)
	}
}

// Of many targets the page shows groups; the targets of one come when it is opened, and only the rows in view are in
// the document.
func TestOnlyTargetsInViewAreInTheDocument(t *testing.T) {
	layer.Real(t)
	const nodes = 300
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(fromManyNodes(sample.Run(sample.Length), nodes), sample.Length); err != nil {
		t.Fatal(err)
	}
	of := func(kind string) string { return fmt.Sprintf(`[data-testid="strip"][data-id^="web %s from "]`, kind) }
	group := `[data-testid="strip-group"][data-id="web reused"]`
	page.see(group)
	page.see(of("new")) // one node saw what the others did not: the group is open
	if text := strings.ReplaceAll(page.text(group), "\u00a0", " "); !strings.Contains(text, "300 nodes") {
		t.Errorf("the row of the group reads %q", text)
	}
	if n := page.count(of("new")); n >= nodes/3 {
		t.Errorf("%d rows of %d targets are in the document", n, nodes)
	}
	page.until("has drawn a target's series", `(() => {
		const c = document.querySelector('`+of("new")+` canvas');
		return c.width > 300 && c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[3] > 0;
	})()`)
	last := fmt.Sprintf(`[data-testid="strip"][data-id="web new from node-%03d"]`, nodes-1)
	if page.count(last) != 0 {
		t.Error("the last target's row is in the document before it is scrolled to")
	}
	eval[bool](page, `(() => { const box = document.querySelector('`+of("new")+`').closest(".lanes"); box.scrollTop = box.scrollHeight; return true; })()`)
	page.see(last)
	page.see(`[data-testid="strip"][data-id^="web direct "]`)
	page.run(chromedp.ScrollIntoView(chromedp.CSS(`[data-row][data-testid="latency"]`)))
	page.until("has drawn a latency", `document.querySelector('[data-testid="latency"] canvas')?.width > 300`)
	page.until("loads nothing more", `!document.querySelector('[data-testid="loading"]')`)
}

// Details that the server does not give are not only missing: the page says so, asks again, and shows them once they
// come.
func TestThePageSaysThatDetailsFailed(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	if err := publish.To(store).Show(fromManyNodes(sample.Run(sample.Length), 120), sample.Length); err != nil {
		t.Fatal(err)
	}
	page, failing := dashboard.Handler(store, dashboard.Options{}), atomic.Bool{}
	failing.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.URL.Path == "/api/v1/details" {
			http.Error(w, "too many downloads", http.StatusServiceUnavailable)
			return
		}
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	browser := newTab(t, server.URL)
	failed, member := `[data-testid="details-failed"]`, `[data-testid="strip"][data-id^="web new from "]`
	browser.see(failed)
	if text := browser.text(failed); !strings.Contains(text, "503") || !strings.Contains(text, "too many downloads") {
		t.Errorf("of details that failed the page says %q", text)
	}
	if n := browser.count(member); n != 0 {
		t.Errorf("%d rows of targets are shown that have not come", n)
	}
	failing.Store(false)
	browser.see(member)
	browser.until("says no more that details failed", `!document.querySelector('`+failed+`')`)
}

// Of a run with many targets, rows far from what is on the screen are not drawn.
func TestOnlyRowsNearTheScreenAreDrawn(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(withServices(fromManyNodes(sample.Run(sample.Length), 150), 150), sample.Length); err != nil {
		t.Fatal(err)
	}
	button := `[data-testid="all-ready"]`
	page.see(button)
	page.click(button)
	page.see(button + `[aria-pressed="true"]`)
	ready := `document.querySelectorAll('[data-testid="ready-endpoints"]')`
	page.until("has a row for each Service", ready+`.length === 150`)
	eval[bool](page, ready+`[0].scrollIntoView(), true`)
	page.until("has drawn the first", ready+`[0].querySelector("canvas").width > 400`)
	// The last rows may have been near the screen as well: they are above the button that was clicked.
	if eval[bool](page, ready+`[75].querySelector("canvas").width > 400`) {
		t.Error("row 75 of 150 is drawn, and was never near the screen")
	}
	eval[bool](page, ready+`[75].scrollIntoView(), true`)
	page.until("has drawn row 75", ready+`[75].querySelector("canvas").width > 400`)
}

// Of a run of the usual size all rows are drawn at once: a picture of the whole page has them.
func TestAllRowsOfASmallRunAreDrawn(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(sample.Run(sample.Length), sample.Length); err != nil {
		t.Fatal(err)
	}
	page.see(`[data-testid="verdict"][data-result]`)
	page.run(chromedp.EmulateViewport(1200, 500))
	rows := `[...document.querySelectorAll('[data-row] canvas')]`
	page.until("has rows below the screen", rows+`.some((c) => c.getBoundingClientRect().top > innerHeight + 500)`)
	// 300: what a canvas has on which nothing was drawn
	page.until("has drawn them all", rows+`.every((c) => c.width !== 300)`)
}
