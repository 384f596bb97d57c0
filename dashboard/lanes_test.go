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

// What a node answers to the health checks of load balancers has a lane, from its first answer on.
func TestHealthChecksOfNodesHaveLanes(t *testing.T) {
	layer.Real(t)
	store, run := dashboard.NewStore(), sample.Run(sample.Length)
	check := func(id uint32, at time.Duration, from, to string) model.Event {
		return model.Event{
			Event: timeline.Event{
				ID: id, Seen: at, Kind: timeline.NodeChecked, From: from, To: to, Service: "shop/web",
				Object: timeline.Object{Kind: "Node", Name: "node-b"}, Addr: run.Events[0].Addr, Port: 31000,
			}, At: model.Instant{Earliest: at, Latest: at},
		}
	}
	run.Events = append(run.Events, check(9001, 0, "", timeline.CheckHealthy), check(9002, 20*time.Second, timeline.CheckHealthy, timeline.CheckUnhealthy))
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	lane := `[data-testid="check-lane"]`
	page.see(lane)
	text := eval[string](page, `document.querySelector('`+lane+` canvas').getAttribute("aria-label")`)
	if !strings.Contains(text, "the health-check node port of shop/web on node-b") || !strings.Contains(text, "healthy, then unhealthy") {
		t.Errorf("the lane reads %q", text)
	}
	page.until("has drawn it", `((c) => (c.scrollIntoView({block: "nearest"}), c.width > 300))(document.querySelector('`+lane+` canvas'))`)
}
