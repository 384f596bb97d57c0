package report

import (
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Of one Service, ways are told apart without its name; names that would be alike when they are cut are not.
func TestWaysToAServiceAreToldApart(t *testing.T) {
	tl := &model.Timeline{Run: model.RunInfo{Services: []timeline.Service{{Namespace: "shop", Name: "web"}}}}
	for _, name := range []string{"clusterip new", "nodeport node1 new from outside", "nodeport node2 new from outside", "nodeport a-node-with-a-long-name new"} {
		route, _, _ := strings.Cut(name, " ")
		tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Name: "web " + name, Kind: timeline.New, Service: "shop/web", Route: route}})
	}
	want := map[string]string{
		"web clusterip new": "clusterip new", "web nodeport node1 new from outside": "nodeport node1 new from outside",
		"web nodeport node2 new from outside": "nodeport node2 new from outside", "web nodeport a-node-with-a-long-name new": "nodeport a-…g-name new",
	}
	for target, name := range targetNames(tl, 22) {
		if name != want[target] {
			t.Errorf("%s is %q, want %q", target, name, want[target])
		}
	}
}

// What a pass says nothing of stands in the summary, once for all Services that it is true of, and in the JSON.
func TestWhatAPassDoesNotCoverIsInTheReport(t *testing.T) {
	tl := &model.Timeline{SchemaVersion: model.SchemaVersion, Targets: []model.Target{}}
	text := func() string {
		var b strings.Builder
		if err := Table(&b, said(tl), Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}}
	if got := text(); strings.Contains(got, "NOT COVERED") {
		t.Errorf("nothing is to be said:\n%s", got)
	}
	tl.Run.Services[0].NotCovered = []string{"one Pod only"}
	if got := text(); !strings.Contains(got, "NOT COVERED  by a pass of this run\n   one Pod only\n") {
		t.Errorf("of one Service:\n%s", got)
	}
	tl.Run.Services = append(tl.Run.Services, timeline.Service{Namespace: "shop", Name: "db", NotCovered: []string{"one Pod only", "no node port"}})
	if got := text(); !strings.Contains(got, "   shop/db, shop/web  one Pod only\n") || !strings.Contains(got, "   shop/db            no node port\n") && !strings.Contains(got, "   shop/db  no node port\n") {
		t.Errorf("of two Services:\n%s", got)
	}
	var json strings.Builder
	if err := JSON(&json, tl, Options{}); err != nil || !strings.Contains(json.String(), `"one Pod only"`) {
		t.Errorf("not in the JSON (%v):\n%s", err, json.String())
	}
}
