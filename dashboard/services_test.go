package dashboard_test

import (
	"fmt"
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

// withServices makes the made-up run one of as many Services, of which the first alone lost requests, and one was set
// aside.
func withServices(tl *model.Timeline, n int) *model.Timeline {
	lost := &model.ServiceVerdict{
		Sent: 1000, Failed: 20, Coverage: 1, Incidents: 1, Downtime: model.Downtime{Total: model.Length{Min: time.Second, Max: time.Second}},
		Cause: &model.ServiceCause{Rule: "no-ready-endpoint", Confidence: model.High, Text: "no endpoint was ready", Failed: 20},
	}
	tl.Run.Services, tl.Services[0].Verdict = nil, lost
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		tl.Run.Services = append(tl.Run.Services, timeline.Service{Namespace: "shop", Name: name})
		if i == 0 {
			continue
		}
		tl.Services = append(tl.Services, model.WatchedService{
			Name: "shop/" + name, Verdict: &model.ServiceVerdict{Sent: 1000, Coverage: 1}, Endpoints: []model.EndpointStep{{Ready: 2}},
		})
		target := tl.Targets[0]
		target.ID, target.Name, target.Service, target.Failed = timeline.TargetID(1000+i), name+" new", "shop/"+name, 0
		tl.Targets = append(tl.Targets, target)
	}
	tl.Run.SetAside = []timeline.SetAside{{Namespace: "shop", Name: "queue", Why: "it has no TCP port"}}
	return tl
}

// Of many Services those with failures are shown, and the others when asked for: their verdicts, their targets and
// their endpoints.
func TestManyServicesAreFolded(t *testing.T) {
	layer.Real(t)
	const n = 30
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	run := withServices(sample.Run(sample.Length), n)
	run.Services[1].Verdict.Held, run.Services[1].Verdict.Cut = 4, 3
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	page.see(`[data-testid="service-row"]`)
	if got := page.text(`[data-testid="service-row"]`); !strings.Contains(got, run.Services[0].Name) || !strings.Contains(got, "no-ready-endpoint") {
		t.Errorf("the first Service is %q", got)
	}
	if got := page.text(`[data-testid="set-aside"]`); !strings.Contains(got, "shop/queue: it has no TCP port") {
		t.Errorf("set aside: %q", got)
	}
	if got := page.text(`[data-testid="verdict"]`); !strings.Contains(got, fmt.Sprint(n)) || strings.Contains(got, "web-1") {
		t.Errorf("the header names every Service: %q", got)
	}
	if got := page.text(`[data-testid="service-row"]:nth-child(2)`); !strings.Contains(got, "0 / 1000 failed, 3 / 4 connections cut") {
		t.Errorf("the second Service is %q", got)
	}
	for _, fold := range []struct {
		button, rows string
		matter       int
	}{
		{"all-services", `[data-testid="service-row"]`, 2},
		{"all-targets", `[data-testid="strip"][data-id$=" new"]`, 1},
		{"all-ready", `[data-testid="ready-endpoints"]`, 1},
	} {
		button := fmt.Sprintf(`[data-testid=%q]`, fold.button)
		if shown := page.count(fold.rows); shown != fold.matter {
			t.Errorf("%s: %d rows are shown of %d that matter", fold.button, shown, fold.matter)
		}
		page.see(button)
		page.click(button)
		page.see(button + `[aria-pressed="true"]`)
		if shown := page.count(fold.rows); shown != n {
			t.Errorf("%s: %d of %d rows are shown when asked for", fold.button, shown, n)
		}
	}
}

// A run of one Service has no table of Services.
func TestOneServiceNeedsNoTable(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	if err := publish.To(store).Show(sample.Run(sample.Length), sample.Length); err != nil {
		t.Fatal(err)
	}
	page.see(`[data-testid="verdict"]`)
	if n := page.count(`[data-testid="services"]`); n != 0 {
		t.Error("there is one")
	}
}

// Rows of a Service stand together, and an endpoint's own says whose it is.
func TestRowsAreGroupedByService(t *testing.T) {
	layer.Real(t)
	run := withServices(sample.Run(sample.Length), 3)
	direct := run.Targets[0]
	direct.ID, direct.Kind, direct.Service, direct.Pod, direct.Name = 1900, timeline.Direct, "shop/web-2", "shop/web-2-7bdd965bd8-zj7g2", "web-2 direct"
	run.Targets = append(run.Targets, direct)
	page := open(t, run, "")
	order := eval[[]string](page, `[...document.querySelectorAll('[data-testid="strip"]')].map((s) => s.dataset.id)`)
	if got := strings.Join(order[:4], ", "); got != "web new, web reused, web-1 new, web-2 new" {
		t.Errorf("the rows stand in the order %q", order)
	}
	if text := page.text(`[data-testid="strip"][data-id="web-2 direct"]`); !strings.HasPrefix(text, "web-2 zj7g2") {
		t.Errorf("the row of an endpoint reads %q", text)
	}
}
