package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
)

// A change has a row, a node a column; what no request from a node reached has a dot. Of many nodes the first and the
// last to follow are named.
func TestRoutesOfNodes(t *testing.T) {
	tl := &model.Timeline{Verdict: model.Verdict{Result: model.Pass}}
	route := func(change model.RouteChange, event uint32, pod, node string, least, most time.Duration) {
		tl.Routes = append(tl.Routes, model.Route{Change: change, Event: event, Pod: pod, Node: node, Lag: model.Length{Min: least, Max: most}})
	}
	route(model.Removal, 1, "web-1", "node1", 400*time.Millisecond, 440*time.Millisecond)
	route(model.Removal, 1, "web-1", "node2", 0, 90*time.Millisecond)
	route(model.Addition, 2, "web-2", "node1", 1800*time.Millisecond, 1900*time.Millisecond)
	print := func() string {
		var out bytes.Buffer
		if err := Markdown(&out, tl, Options{Verbose: true}); err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(out.String(), "outes")
		return section
	}
	got := print()
	for _, want := range []string{"web-1", "removed", "420 ms ±20", "≤ 90 ms", "added", "1.85 s ±0.05", "–"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	tl.Routes[0].Lost = &model.LostTime{
		Length: model.Length{Min: 300 * time.Millisecond, Max: 320 * time.Millisecond}, Mostly: model.LostProxy,
		Controller: model.Length{Max: 10 * time.Millisecond}, Proxy: model.Length{Min: 290 * time.Millisecond, Max: 320 * time.Millisecond},
	}
	lost := "node1 routed to web-1 for 310 ms ±10 after it had stopped: 305 ms ±15 until the node's own routes followed, ≤ 10 ms until the EndpointSlice changed"
	if got := strings.Join(strings.Fields(print()), " "); !strings.Contains(got, lost) {
		t.Errorf("no %q in\n%s", lost, got)
	}
	of := func(d time.Duration) model.Length { return model.Length{Min: d, Max: d} }
	tl.Routes[2].PodUID = "web-2"
	tl.Routes[2].Waited = &model.WaitedTime{Length: of(9850 * time.Millisecond), StartUp: of(8 * time.Second), Proxy: of(1850 * time.Millisecond), Mostly: model.LostStartUp}
	waited := "node1 routed to web-2 9.85 s after its first container had started: 8 s until it was ready, 1.85 s until the node's own routes followed"
	if got := strings.Join(strings.Fields(print()), " "); !strings.Contains(got, waited) {
		t.Errorf("no %q in\n%s", waited, got)
	}
	tl.Late = []model.LateRoutes{{Text: "node1 followed late"}, {Text: "2"}, {Text: "3"}, {Text: "4"}, {Text: "5"}, {Text: "6"}, {Text: "7"}}
	if got := print(); !strings.Contains(got, "node1 followed late") || !strings.Contains(got, "and 2 more in timeline.json") {
		t.Errorf("what stands out is not named:\n%s", got)
	}
	for i := range 8 {
		route(model.Removal, 3, "web-3", fmt.Sprintf("worker%d", i), time.Duration(i+1)*time.Second, time.Duration(i+1)*1010*time.Millisecond)
	}
	if got := print(); !strings.Contains(got, "worker0 1.") || !strings.Contains(got, "worker7 8.") || strings.Contains(got, "worker3") {
		t.Errorf("of 8 nodes, want the first and the last to follow:\n%s", got)
	}
}
