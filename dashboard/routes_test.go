package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
	"lapse/timeline"
)

// withRoutes adds to the made-up run how three nodes followed the first two Pods that left: node-c the first of them
// late, and the second as no one knows.
func withRoutes(tl *model.Timeline) *model.Timeline {
	left := 0
	for _, e := range tl.Events {
		if e.Kind != timeline.EndpointChanged || e.From != timeline.EndpointReady || left == 2 {
			continue
		}
		left++
		for i, node := range []string{"node-a", "node-b", "node-c"} {
			lag := time.Duration(i*i*700+80) * time.Millisecond
			if left == 2 && i == 2 {
				continue
			}
			tl.Routes = append(tl.Routes, model.Route{
				Change: model.Removal, Service: "shop/web", Pod: e.Object.Name, PodUID: e.Object.UID, Node: node, Target: "web new from " + node, Event: e.ID, API: e.At,
				Changed: model.Instant{Earliest: e.At.Latest + lag, Latest: e.At.Latest + lag + 40*time.Millisecond}, Lag: model.Length{Min: lag, Max: lag + 40*time.Millisecond},
			})
		}
	}
	tl.Late = []model.LateRoutes{{Of: model.LateNode, Name: "node-c", Changes: 1, Known: 1, Text: "node-c followed 1 of 1 change late"}}
	return tl
}

// fromNodes makes what one prober of the made-up run measured into what three nodes measured, of which the last saw
// none of the windows.
func fromNodes(tl *model.Timeline) *model.Timeline {
	var targets []model.Target
	var windows []model.Window
	for _, t := range tl.Targets {
		if !t.Kind.Judged() {
			targets = append(targets, t)
			continue
		}
		series := tl.Buckets.Targets[t.Name]
		delete(tl.Buckets.Targets, t.Name)
		for i, node := range []string{"node-a", "node-b", "node-c"} {
			from := t
			from.ID, from.Name, from.Node, from.Source = t.ID+timeline.TargetID(100*(i+1)), t.Name+" from "+node, node, "prober-"+node
			targets = append(targets, from)
			tl.Buckets.Targets[from.Name] = series
			for _, w := range tl.Windows {
				if w.Target == t.Name && (node != "node-c" || t.Kind == timeline.Reused) {
					w.ID, w.Target = len(windows)+1, from.Name
					windows = append(windows, w)
				}
			}
		}
	}
	tl.Targets, tl.Windows, tl.Incidents, tl.Unobserved = targets, windows, nil, nil
	return tl
}

// What nodes measured of one Service stands in one row while they agree, and in a row for each where they do not.
func TestNodesAreFoldedWhileTheyAgree(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(fromNodes(sample.Run(sample.Length)), sample.Length); err != nil {
		t.Fatal(err)
	}
	page.see(`[data-testid="strip-group"][data-id="web new"]`)
	shown := func(kind string) int { return page.count(`[data-testid="strip"][data-id^="web ` + kind + ` from "]`) }
	if n := shown("new"); n != 3 {
		t.Errorf("one node saw what the others did not, and %d of 3 are shown", n)
	}
	if n := shown("reused"); n != 0 {
		t.Errorf("all nodes saw the same, and %d are shown", n)
	}
	eval[bool](page, `document.querySelector('[data-testid="strip-group"][data-id="web reused"] button').click(), true`)
	page.see(`[data-testid="strip"][data-id="web reused from node-b"]`)
	if text := page.text(`[data-testid="strip-group"][data-id="web reused"]`); !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), "3 nodes") {
		t.Errorf("the row reads %q", text)
	}
}

// Of each change and node there is a cell, which leads to its moment on the timeline.
func TestRoutesOfNodesAreShown(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(withRoutes(sample.Run(sample.Length)), sample.Length); err != nil {
		t.Fatal(err)
	}
	page.see(`[data-testid="routes"]`)
	page.see(`[data-testid="keep-serving"] polygon`)
	if n := page.count(`[data-testid="route"]`); n != 5 {
		t.Errorf("%d cells, want 5", n)
	}
	eval[bool](page, `document.querySelector('[data-testid="routes-table"]').open = true`)
	text := page.text(`[data-testid="routes"]`)
	for _, want := range []string{"node-a", "node-b", "node-c", "removed", "2.90 s ±0.02", "·", "node-c followed 1 of 1 change late"} {
		if !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	page.see(`[data-testid="route-dot"]`)
	if n := page.count(`[data-testid="route-dot"]`); n != 5 {
		t.Errorf("%d dots, want 5", n)
	}
	eval[bool](page, `document.querySelector('.route[data-node="node-c"]').click(), true`)
	page.until("shows that moment", `location.hash.includes("range=")`)
}
