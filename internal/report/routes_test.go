package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/internal/report/routes"
	"lapse/timeline"
)

// Removals are counted from when the deletion was asked for. The advice covers the longest of all nodes; where a node
// was not seen to follow, there is none.
func TestRoutesOfEachNodeAndWhatTheyMean(t *testing.T) {
	s := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	tl := &model.Timeline{}
	removed := func(event uint32, node string, least, most float64, open bool) {
		asked := model.Instant{Earliest: s(10), Latest: s(10.002)}
		tl.Routes = append(tl.Routes, model.Route{
			Change: model.Removal, Event: event, Node: node, Open: open, Asked: &asked, Lag: model.Length{Max: s(99)},
			Changed: model.Instant{Earliest: asked.Latest + s(least), Latest: asked.Earliest + s(most)},
		})
	}
	for i, most := range []float64{0.2, 0.4, 0.3} {
		removed(uint32(i), "node1", most-0.05, most, false)
		removed(uint32(i), "node2", 5*most-0.1, 5*most, false)
	}
	tl.Routes = append(tl.Routes, model.Route{Change: model.Addition, Event: 9, Node: "node1", Lag: model.Length{Min: s(0.1), Max: s(0.12)}})
	print := func() string {
		var out strings.Builder
		if err := routes.Print(&out, tl, "runs/x", document.Screen{Unicode: true}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	tl.Late = []model.LateRoutes{{Text: "node2 followed late"}}
	got := print()
	for _, want := range []string{
		"3 removals seen from 2 nodes", "node1 3 180 ms ±30 280 ms ±30 380 ms ±30", "node2 3 950 ms ±50 1.45 s ±0.05 1.95 s ±0.05", "node1 1 110 ms ±10",
		"Late: node2 followed late.", "run in runs/x", "REMOVED ALONE, FROM THE DELETION",
		"So that a drain here loses nothing: serve on for 3 s after a Pod's deletion, as with a preStop sleep (2 s was measured, the rest is margin). That is the longest of 3 removals × 2 nodes. " +
			"The margin allows for kube-proxy's minSyncPeriod: 1 s is assumed, as its ConfigMap could not be read or has none.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	removed(4, "node2", 3, 20, true)
	if got := print(); !strings.Contains(got, "1 removal of 7 were not seen to be followed") || strings.Contains(got, "serve on") || !strings.Contains(got, "not seen to end") {
		t.Errorf("with a removal that was not followed:\n%s", got)
	}
	tl.Routes = nil
	if got := print(); !strings.Contains(got, "Nothing was measured of removals") {
		t.Errorf("with nothing measured:\n%s", got)
	}
}

// D1: single deletions rarely wait for kube-proxy's minSyncPeriod, so that a sleep as long as what they took loses
// requests in a drain. D22: the least is not printed as more than the median, whatever the error bars are.
func TestAdviceHoldsInADrain(t *testing.T) {
	tl := &model.Timeline{}
	for i, lag := range []model.Length{{Min: 640 * time.Millisecond, Max: 660 * time.Millisecond},
		{Min: 500 * time.Millisecond, Max: 720 * time.Millisecond}} {
		tl.Routes = append(tl.Routes, model.Route{Change: model.Removal, Event: uint32(i), Node: "node1", Lag: lag})
	}
	for _, want := range []string{"serve on for 2 s after a Pod's deletion, as with a preStop sleep (800 ms was measured, the rest is margin)", "node1 2 610 ms ±110 610 ms ±110 650 ms ±10"} {
		if got := wordsOf(t, tl); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Removals of several at once stand apart, and the advice covers the longest of both. The margin is kube-proxy's own
// minSyncPeriod where that is known and longer than 1 s.
func TestRemovalsOfSeveralAtOnceStandApart(t *testing.T) {
	const ms = time.Millisecond
	tl := &model.Timeline{}
	for i, removal := range []struct {
		asked, lag time.Duration
	}{{1000 * ms, 100 * ms}, {5000 * ms, 120 * ms}, {5210 * ms, 1150 * ms}, {5220 * ms, 1140 * ms}, {9300 * ms, 90 * ms}} {
		at := model.Instant{Earliest: removal.asked, Latest: removal.asked}
		pod := timeline.Object{Kind: "Pod", UID: fmt.Sprint(i)}
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.DeletionAsked, Object: pod}, At: at})
		tl.Routes = append(tl.Routes, model.Route{Change: model.Removal, Event: uint32(i), PodUID: pod.UID, Node: "node1", Asked: &at,
			Changed: model.Instant{Earliest: removal.asked + removal.lag, Latest: removal.asked + removal.lag}})
	}
	got := wordsOf(t, tl)
	for _, want := range []string{
		"5 removals seen from 1 node", "REMOVED ALONE, FROM THE DELETION CHANGES MIN MEDIAN MAX node1 2 90 ms 90 ms 100 ms",
		"REMOVED WITH OTHERS, FROM THE DELETION CHANGES MIN MEDIAN MAX node1 3 120 ms 1.14 s 1.15 s",
		"serve on for 3 s after a Pod's deletion, as with a preStop sleep (1.2 s was measured, the rest is margin). That is the longest of 5 removals × 1 node.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for period, want := range map[time.Duration]string{
		500 * ms:         "serve on for 3 s after a Pod's deletion, as with a preStop sleep (1.2 s was measured, the rest is margin). That is the longest of 5 removals × 1 node. The margin allows for kube-proxy's minSyncPeriod: 500 ms, from its ConfigMap.",
		10 * time.Second: "serve on for 12 s after a Pod's deletion, as with a preStop sleep (1.2 s was measured, the rest is margin). That is the longest of 5 removals × 1 node. The margin allows for kube-proxy's minSyncPeriod: 10 s, from its ConfigMap.",
	} {
		tl.Run.Cluster = &timeline.Cluster{ProxyMode: "iptables", MinSyncPeriod: period}
		if got := wordsOf(t, tl); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A drain may meet what one of many changes met.
func TestAdviceCoversTheLongestOfManyRoutes(t *testing.T) {
	tl := &model.Timeline{}
	for i := range uint32(200) {
		lag := 200 * time.Millisecond
		if i == 77 {
			lag = 3 * time.Second
		}
		tl.Routes = append(tl.Routes, model.Route{Change: model.Removal, Event: i, Node: "node1", Lag: model.Length{Min: lag, Max: lag}})
	}
	var out strings.Builder
	if err := routes.Print(&out, tl, "runs/x", document.Screen{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node1 200 200 ms 200 ms 3 s", "serve on for 4 s after a Pod's deletion, as with a preStop sleep (3 s was measured, the rest is margin). That is the longest of 200 removals × 1 node."} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
