package report

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// The summary has what each API server was asked, and when it did not answer; the chart has a row for each address.
func TestTheControlPlaneIsInTheSummary(t *testing.T) {
	tl := race()
	if rows, _ := rowsOf(t, tl); rows["API 10.0.0.1:6443"] != "" {
		t.Errorf("nobody asked: %v", rows)
	}
	measured := model.Instant{Latest: tl.Run.Duration}
	tl.ControlPlane = &model.ControlPlane{
		NotAsked: "at most 9 addresses are asked, and there are 11",
		Servers: []model.APIServer{
			{Addr: "10.0.0.1:6443", Path: "/livez", Target: "API 1", Node: "node1", Measured: measured, Outages: []model.APIOutage{{
				Kind: model.Outage, Start: model.Instant{Earliest: 40 * s, Latest: 41 * s}, End: model.Instant{Earliest: 45 * s, Latest: 46 * s},
				Length: model.Length{Min: 4 * s, Max: 6 * s}, Sent: 25, Failed: 25, Classes: map[string]int{"timeout_response": 25},
			}}},
			{Addr: "10.0.0.1:6443", Path: "/readyz", Target: "API 2", Node: "node1", Measured: measured, Refused: map[uint16]int{403: 7}, Outages: []model.APIOutage{}},
			{Addr: "10.0.0.2:6443", Path: "/livez", Target: "API 3", Node: "node1", NotMeasured: "no request was answered (refused)", Outages: []model.APIOutage{}},
		},
		WatchLag: &model.WatchLag{Changes: 14, Longest: 310 * time.Millisecond},
	}
	slots := tl.Buckets.Len()
	for i, name := range []string{"API 1", "API 2", "API 3"} {
		tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{ID: timeline.TargetID(90 + i), Name: name, Kind: timeline.Plane, Rate: 5},
			Sent: 400, OK: 375, Failed: 25, Measured: measured})
		tl.Buckets.Targets[name] = model.BucketSeries{Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots), Latency: make([]model.Histogram, slots)}
	}
	rows, _ := rowsOf(t, tl)
	if rows["API 10.0.0.1:6443"] == "" || rows["API 10.0.0.2:6443"] != "" {
		t.Errorf("rows %v: want one of the address that was measured", rows)
	}
	var out strings.Builder
	if err := Table(&out, tl, Options{Width: 140, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CONTROL PLANE  no part of the verdict", "25 of 400", "for 5 s +-1", "it is up, and refused 7 requests with status 403",
		"not measured", "no request was answered (refused)", "not measured: at most 9 addresses are asked, and there are 11",
		"the watch brought 14 changes of endpoints at most 310 ms after they had happened",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
