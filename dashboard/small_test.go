package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/dashboard/internal/sample"
	"lapse/internal/layer"
	"lapse/timeline"
)

// These tests are about what a reader could not read.

// On a phone, rows say whose they are: names of targets, and what tells Pods and endpoints apart, stand whole in their
// labels.
func TestNamesAreWholeOnAPhone(t *testing.T) {
	layer.Real(t)
	page := open(t, withHeld(sample.Run(sample.Length)), "")
	page.run(chromedp.EmulateViewport(420, 900))
	page.until("is narrow", `document.querySelector(".plots.narrow")`)
	const names = `[data-testid="strip"] .row-label b, [data-testid="held-row"] b, [data-testid="pod-lane"] b, [data-testid="endpoint-lane"] .row-label > span, [data-testid="latency"] select`
	const cut = `[...document.querySelectorAll('` + names + `')].filter((e) => {
		const range = document.createRange();
		range.selectNodeContents(e);
		const text = e.matches("select") ? e.getBoundingClientRect() : range.getBoundingClientRect(), label = e.closest(".row-label").getBoundingClientRect();
		return text.width < 20 || e.getBoundingClientRect().width < 20 || text.right > label.right;
	}).map((e) => e.textContent).join()`
	if n := page.count(`[data-testid="pod-lane"] b`); n == 0 {
		t.Fatal("no row of a Pod is shown")
	}
	if got := eval[string](page, cut); got != "" {
		t.Errorf("cut off at 420 px: %s", got)
	}
}

// Lines that lead through all rows do not go through the words between them.
func TestNoLineGoesThroughAButton(t *testing.T) {
	layer.Real(t)
	page := open(t, sample.Run(sample.Length), "")
	const over = `[...document.querySelectorAll(".plots .note button, .plots h3")].filter((e) => getComputedStyle(e).backgroundColor === "rgba(0, 0, 0, 0)" || getComputedStyle(e.closest(".note, h3")).position === "static").map((e) => e.textContent).join()`
	if got := eval[string](page, over); got != "" {
		t.Errorf("lines go through %s", got)
	}
}

// The key to the classes of failures fits its row, however many there are.
func TestClassesOfFailuresFitTheirRow(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	series := run.Buckets.Targets["web new"]
	for i, failed := range series.Failed {
		if failed > 4 {
			for _, class := range []string{"http_5xx", "no_slot", "reset"} {
				series.Classes[class] = append(series.Classes[class], i, 1)
			}
			break
		}
	}
	page := open(t, run, "")
	page.until("tells several classes", `document.querySelector('[data-testid="errors"]').textContent.includes("more")`)
	const row = `document.querySelector('[data-testid="errors"]').getBoundingClientRect()`
	const outside = `[...document.querySelectorAll('[data-testid="errors"] .class-key > span')].filter((e) => e.getBoundingClientRect().top < ` + row + `.top || e.getBoundingClientRect().bottom > ` + row + `.bottom + 1).map((e) => e.textContent).join()`
	if got := eval[string](page, outside); got != "" {
		t.Errorf("outside of the row stand %s", got)
	}
}

// withLags adds to the made-up run how so many nodes followed so many changes, the last of them late.
func withLags(tl *model.Timeline, changes, nodes int) *model.Timeline {
	for c := range changes {
		at := model.Instant{Earliest: time.Duration(c) * time.Second, Latest: time.Duration(c)*time.Second + time.Millisecond}
		for n := range nodes {
			lag := time.Duration(100+n) * time.Millisecond
			if n == nodes-1 {
				lag = 3 * time.Second
			}
			tl.Routes = append(tl.Routes, model.Route{
				Change: model.Removal, Service: "shop/web", Pod: fmt.Sprintf("web-5c9d8f7b6-aaa%02d", c), Event: uint32(c + 1), API: at,
				Node: fmt.Sprintf("ip-10-0-1-%d.eu-central-1.compute.internal", n), Lag: model.Length{Min: lag, Max: lag + 40*time.Millisecond},
				Changed: model.Instant{Earliest: at.Latest + lag, Latest: at.Latest + lag + 40*time.Millisecond},
			})
		}
	}
	return tl
}

// Names of nodes stand in the picture, at most widths and lengths of names. Of many nodes the slowest is named, and of
// many changes the axis stands above them too.
func TestNodesOfTheDotPlotAreNamed(t *testing.T) {
	layer.Real(t)
	for _, test := range []struct{ changes, nodes, names, axes int }{{3, 5, 15, 1}, {12, 100, 12, 2}} {
		page := open(t, withLags(sample.Run(sample.Length), test.changes, test.nodes), "")
		for _, width := range []int64{1400, 1024, 420} {
			page.run(chromedp.EmulateViewport(width, 900))
			page.until("has the width", fmt.Sprintf(`document.documentElement.clientWidth === %d`, width))
			page.until("has drawn the dots", `document.querySelector('[data-testid="dot-name"]')`)
			if n := page.count(`[data-testid="dot-name"]`); n != test.names {
				t.Errorf("%d changes, %d nodes, %d px: %d names, want %d", test.changes, test.nodes, width, n, test.names)
			}
			const outside = `[...document.querySelectorAll('[data-testid="dot-name"]')].filter((e) => { const [a, b] = [e.getBoundingClientRect(), e.ownerSVGElement.getBoundingClientRect()]; return a.left < b.left || a.right > b.right; }).map((e) => e.textContent).join()`
			if got := eval[string](page, outside); got != "" {
				t.Errorf("%d changes, %d nodes, %d px: cut off are %s", test.changes, test.nodes, width, got)
			}
		}
		if n := page.count(`[data-testid="dot-axis"]`); n != test.axes {
			t.Errorf("%d changes have %d axes, want %d", test.changes, n, test.axes)
		}
	}
}

// The words of a chart are as large on a phone as elsewhere, and none is cut off.
func TestTheKeepServingChartIsLegible(t *testing.T) {
	layer.Real(t)
	page := open(t, sample.Run(sample.Length), "")
	for _, width := range []int64{1400, 420} {
		page.run(chromedp.EmulateViewport(width, 900))
		page.until("has the width", fmt.Sprintf(`document.documentElement.clientWidth === %d`, width))
		const chart = `document.querySelector('[data-testid="keep-serving"] svg')`
		const fits = chart + `.getBoundingClientRect().right <= ` + chart + `.closest("section").getBoundingClientRect().right`
		page.until("is drawn to scale, for this width", chart+`.getScreenCTM().a === 1 && `+fits)
		const outside = `[...` + chart + `.querySelectorAll("text")].filter((e) => { const [a, b] = [e.getBoundingClientRect(), ` + chart + `.closest("section").getBoundingClientRect()]; return a.left < b.left || a.right > Math.min(b.right, ` + chart + `.getBoundingClientRect().right); }).map((e) => e.textContent).join()`
		if got := eval[string](page, outside); got != "" {
			t.Errorf("cut off at %d px: %s", width, got)
		}
	}
}

// On a phone, the table of Services is scrolled: a cause is not written in a column of single letters.
func TestCausesOfServicesAreLegibleOnAPhone(t *testing.T) {
	layer.Real(t)
	page := open(t, withServices(sample.Run(sample.Length), 5), "")
	page.run(chromedp.EmulateViewport(420, 900))
	page.until("is narrow", `document.querySelector(".plots.narrow")`)
	if tall := eval[float64](page, `document.querySelector('[data-testid="service-row"]').getBoundingClientRect().height`); tall > 60 {
		t.Errorf("a Service takes %.0f px", tall)
	}
}

// Columns of Pods stand only where replies name their Pods.
func TestHeldConnectionsWithoutPodsHaveNoColumnOfPods(t *testing.T) {
	layer.Real(t)
	const heads = `[...document.querySelectorAll('[data-testid="held-windows"] th')].map((e) => e.textContent).join()`
	run := withHeld(sample.Run(sample.Length))
	if got := eval[string](open(t, run, ""), heads); got != "#,First cut,Connections,How,Without warning,Back after,Attempts,Most in one second" {
		t.Errorf("the columns are %s", got)
	}
	run.Held[0].Windows[0].From = map[string]int{"web-1": 4}
	if got := eval[string](open(t, run, ""), heads); got != "#,First cut,Connections,How,Without warning,Back after,Attempts,Most in one second,From,To" {
		t.Errorf("the columns are %s", got)
	}
}

// The instants of a cause's evidence do not run into its words.
func TestEvidenceStandsBesideItsInstants(t *testing.T) {
	layer.Real(t)
	page := open(t, fromNodes(sample.Run(sample.Length)), "")
	page.openWindow(1)
	page.see(`.windows [data-testid="evidence"]`)
	const over = `[...document.querySelectorAll('[data-testid="evidence"]')].filter((li) => { const [at, text] = [...li.children].slice(-2); return at.scrollWidth > at.clientWidth && at.scrollWidth > 92 || at.getBoundingClientRect().left + at.scrollWidth > text.getBoundingClientRect().left; }).map((e) => e.textContent).join()`
	if got := eval[string](page, over); got != "" {
		t.Errorf("one over the other stand %s", got)
	}
}

// A stall says how long it was.
func TestAStallSaysHowLongItWas(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	id := run.Events[len(run.Events)-1].ID + 1
	run.Events = append(run.Events, model.Event{Event: timeline.Event{ID: id, Kind: timeline.ProberStall, Seen: 3 * time.Second}, At: model.Instant{Earliest: 2800 * time.Millisecond, Latest: 3 * time.Second}})
	page := open(t, run, fmt.Sprintf("#event=%d", id))
	row := fmt.Sprintf(`[data-event-id="%d"]`, id)
	page.see(row)
	page.until("says how long", `document.querySelector('`+row+`').textContent.includes("for 200")`)
}
