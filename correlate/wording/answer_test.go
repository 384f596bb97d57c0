package wording

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// drained is a drain in which a Pod stopped before the nodes' routes followed, seen from two nodes.
func drained() *model.Timeline {
	at := func(from, to time.Duration) *model.Instant { return &model.Instant{Earliest: from, Latest: to} }
	measure := func(node string, lag time.Duration) []model.Measure {
		return []model.Measure{{Name: model.RouteLag, Object: "web-7c-6m498", Node: node, Length: model.Length{Min: lag, Max: lag}}}
	}
	window := func(id int, target, node string, failed, sent int, lag time.Duration) model.Window {
		return model.Window{
			ID: id, Target: target, Kind: model.Partial, Failed: failed, Sent: sent, Classes: map[string]int{"refused": failed},
			Start: model.Instant{Earliest: 9 * s, Latest: 10 * s}, End: model.Instant{Earliest: 11 * s, Latest: 12 * s},
			Causes: []model.Cause{{Rule: "route-outlives-pod", Confidence: model.High, Measures: measure(node, lag)}},
		}
	}
	cause := model.Cause{
		Rule: "route-outlives-pod", Confidence: model.High, Text: "node1 still routed to web-7c-6m498 for 1.2 s after it had stopped", Fix: "keep serving ≥ 2.2 s",
		Measures: measure("node1", 1200*ms),
		Evidence: []model.Evidence{
			{Event: 1, At: at(9800*ms, 9805*ms), Text: "web-7c-6m498 left the ready endpoints"},
			{Target: "direct", At: at(9700*ms, 9710*ms), Text: "web-7c-6m498 itself stopped answering"},
			{Target: "web new from node1", At: at(9*s, 10*s), Text: "requests began to fail: 60 refused"},
			{Event: 2, At: at(0, 9*s), Text: "web-7c-6m498 was being killed by its kubelet"},
		},
		Sleep: &model.Sleep{Pod: "web-7c-6m498", PodUID: "a", Measured: 1200 * ms, Margin: s},
	}
	return &model.Timeline{
		T0: time.Date(2026, 11, 25, 13, 3, 26, 0, time.UTC),
		Run: model.RunInfo{
			Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
			Command:  &model.Command{Args: []string{"kubectl", "drain", "node1"}, Start: new(9500 * ms)},
		},
		Targets: []model.Target{
			{Target: timeline.Target{Name: "web new from node1", Kind: timeline.New, Service: "shop/web"}, Node: "node1"},
			{Target: timeline.Target{Name: "web new from node2", Kind: timeline.New, Service: "shop/web"}, Node: "node2"},
		},
		Windows: []model.Window{
			window(1, "web new from node1", "node1", 60, 120, 1200*ms), window(2, "web new from node2", "node2", 40, 80, 1100*ms),
		},
		Incidents: []model.Incident{{
			ID: 1, Windows: []int{1, 2}, Targets: []string{"web new from node1", "web new from node2"}, Failed: 100, Sent: 200,
			FailedFrom: new(9720 * ms), FailedTo: new(10900 * ms), Start: model.Instant{Earliest: 9 * s, Latest: 10 * s}, End: model.Instant{Earliest: 11 * s, Latest: 12 * s},
			Causes: []model.IncidentCause{{Cause: cause, Windows: []int{1, 2}, Failed: 100}},
		}},
		Pods: []model.Pod{
			{Namespace: "shop", Name: "web-7c-6m498", UID: "a", Node: "node1", Owner: "ReplicaSet/web-7c", Template: "t", Deleted: at(9650*ms, 9660*ms)},
			{Namespace: "shop", Name: "web-7c-new", UID: "b", Node: "node3", Owner: "ReplicaSet/web-7c", Template: "t", Created: at(9660*ms, 9670*ms), EndpointReady: at(12*s, 12*s)},
		},
		Routes: []model.Route{
			{Change: model.Removal, Pod: "web-7c-6m498", Node: "node1", Changed: model.Instant{Earliest: 10900 * ms, Latest: 10910 * ms}},
			{Change: model.Removal, Pod: "web-7c-6m498", Node: "node2", Changed: model.Instant{Earliest: 10800 * ms, Latest: 10810 * ms}},
		},
		Events: []model.Event{
			{Event: timeline.Event{Object: timeline.Object{Kind: "ReplicaSet", Namespace: "shop", Name: "web-7c"}, Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Owner: "Deployment/web"}}}},
			{Event: timeline.Event{Object: timeline.Object{Kind: "ReplicaSet", Namespace: "shop", Name: "web-7c"}, Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: "t", Grace: 30 * s, Containers: []timeline.Container{{Name: "server"}}}}}},
		},
		Verdict: model.Verdict{Sent: 10453, Failed: 100, Coverage: 1, ExitCode: 3, Downtime: model.Downtime{Total: model.Length{Min: 400 * ms, Max: 740 * ms}}, Gates: []model.GateResult{{Expr: "failed>0", Outcome: model.GateFail}}},
	}
}

func saidOf(tl *model.Timeline) (model.Said, model.IncidentSaid) {
	Say(tl, Judged{Word: "FAIL"})
	return tl.Said, tl.Incidents[0].Said
}

func TestARunSaysWhatFailedAndHowMuchThatIs(t *testing.T) {
	said, _ := saidOf(drained())
	for got, want := range map[string]string{
		said.Headline: "shop/web: 100 of 10453 requests failed while kubectl drain node1 ran",
		said.Extent:   "50 % of new connections failed for 1.18 s, from all 2 nodes; equals 570 ms ±170 of full outage at the worst target",
		said.Exit:     "exit 3 (failed>0)",
		said.Measured: "valid, 100 % observed · exit 3 (failed>0)",
	} {
		if got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

func TestAnIncidentSaysWhenWhatAndWhy(t *testing.T) {
	_, in := saidOf(drained())
	for got, want := range map[string]string{
		in.When:    "13:03:35.720 to 13:03:36.900 UTC (1.18 s), 220 ms after the command began",
		in.Why:     "route-outlives-pod, high confidence: node1 still routed to web-7c-6m498 for 1.2 s after it had stopped; node2 for 1.1 s",
		in.Explain: "lapse explain route-outlives-pod",
	} {
		if got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	if len(in.What) != 1 || in.What[0] != (model.Lost{Of: "new connections", Text: "100 of 200 failed (50 %): refused"}) {
		t.Errorf("what: %+v", in.What)
	}
}

func TestPhasesAreFactsByTimeWithoutWhatIsHardlyKnown(t *testing.T) {
	_, in := saidOf(drained())
	var got []string
	for _, p := range in.Phases {
		got = append(got, p.When+" "+p.Text)
	}
	want := []string{
		"13:03:35.705 web-7c-6m498 itself stopped answering",
		"13:03:35.720 the first failed request was due",
		"13:03:35.803 web-7c-6m498 left the ready endpoints",
		"13:03:36.900 the last failed request was due",
		"13:03:36.905 the last route followed, that of node1",
		"13:03:38.000 its replacement was a ready endpoint, on node3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOfManyPhasesTheBestKnownAreSaid(t *testing.T) {
	tl := drained()
	c := &tl.Incidents[0].Causes[0]
	for i, text := range []string{"web-7c-6m498 exited", "web-7c-6m498 was gone", "web-7c-6m498 left the EndpointSlice"} {
		at := 10*s + time.Duration(i)*100*ms
		c.Evidence = append(c.Evidence, model.Evidence{At: &model.Instant{Earliest: at, Latest: at + time.Duration(3-i)*100*ms}, Text: text})
	}
	_, in := saidOf(tl)
	if len(in.Phases) != mostPhases+2 {
		t.Errorf("%d phases", len(in.Phases))
	}
	for _, p := range in.Phases {
		if strings.Contains(p.Text, "exited") || strings.Contains(p.Text, "gone") {
			t.Errorf("%q is said, which is hardly known", p.Text)
		}
	}
}

func TestPodsThatDidTheSameShareAPhase(t *testing.T) {
	tl := drained()
	c := &tl.Incidents[0].Causes[0]
	c.Evidence = append(c.Evidence, model.Evidence{Event: 3, At: &model.Instant{Earliest: 9900 * ms, Latest: 9901 * ms}, Text: "web-7c-new left the ready endpoints"})
	c.Evidence = append(c.Evidence, model.Evidence{At: &model.Instant{Earliest: 9900 * ms, Latest: 9901 * ms}, Text: "web-7c-new itself stopped answering"})
	_, in := saidOf(tl)
	found := 0
	for _, p := range in.Phases {
		if p.Text == "2 Pods left the ready endpoints, the last of them" && p.At.Latest == 9901*ms {
			found++
		}
		if strings.Contains(p.Text, "6m498 left") || strings.Contains(p.Text, "Pods itself") {
			t.Errorf("a Pod is told alone: %q", p.Text)
		}
	}
	if found != 1 {
		t.Errorf("%+v", in.Phases)
	}
}

func TestAdviceIsInWholeSecondsWithAPatchOfWhatWasRecorded(t *testing.T) {
	_, in := saidOf(drained())
	want := "serve on for 3 s after SIGTERM, as with a preStop sleep (1.2 s measured + 1 s of margin)"
	if len(in.Do) != 1 || in.Do[0] != want {
		t.Errorf("%q\nwant %q", in.Do, want)
	}
	patch := `kubectl -n shop patch deployment web -p '{"spec":{"template":{"spec":{"containers":[
  {"name":"server","lifecycle":{"preStop":{"sleep":{"seconds":3}}}}]}}}}'`
	if in.Patch != patch {
		t.Errorf("%s\nwant\n%s", in.Patch, patch)
	}
}

func TestAPatchIsLeftOutRatherThanGuessed(t *testing.T) {
	template := func(tl *model.Timeline) *timeline.PodTemplate { return tl.Events[1].Snapshot.Template }
	for want, spoil := range map[string]func(*model.Timeline){
		"which workload web-7c-6m498 is of was not recorded": func(tl *model.Timeline) { tl.Events = tl.Events[1:] },
		"the template of web-7c-6m498 was not recorded":      func(tl *model.Timeline) { tl.Events = tl.Events[:1] },
		"which of the containers server, log serves was not reco": func(tl *model.Timeline) {
			template(tl).Containers = append(template(tl).Containers, timeline.Container{Name: "log"})
		},
		"container server has a preStop hook (exec)": func(tl *model.Timeline) { template(tl).Containers[0].PreStop = &timeline.Hook{Kind: "exec"} },
		"a name is unusual":                          func(tl *model.Timeline) { template(tl).Containers[0].Name = "a'; rm -rf /; '" },
	} {
		tl := drained()
		spoil(tl)
		_, in := saidOf(tl)
		if in.Patch != "" || len(in.Do) != 1 || !strings.Contains(in.Do[0], "; no patch: ") || !strings.Contains(in.Do[0], want) {
			t.Errorf("%q, patch %q; want %q", in.Do, in.Patch, want)
		}
	}
}

func TestAPatchRaisesAGracePeriodThatIsTooShort(t *testing.T) {
	tl := drained()
	tl.Events[1].Snapshot.Template.Grace = 2 * s
	if _, in := saidOf(tl); !strings.Contains(in.Patch, `"terminationGracePeriodSeconds":5,"containers":[`) {
		t.Errorf("%s", in.Patch)
	}
}

func TestEachLineNamesItsServiceWhereThereAreSeveral(t *testing.T) {
	tl := drained()
	tl.Run.Services = append(tl.Run.Services, timeline.Service{Namespace: "shop", Name: "cart"})
	said, in := saidOf(tl)
	if !strings.HasPrefix(said.Headline, "100 of 10453 requests failed") {
		t.Errorf("%q", said.Headline)
	}
	for _, line := range append([]string{in.Why, in.Headline, in.What[0].Of}, in.Do...) {
		if !strings.HasPrefix(line, "shop/web") {
			t.Errorf("%q does not say of which Service", line)
		}
	}
}

func TestTheCurveIsASentence(t *testing.T) {
	tl := drained()
	tl.KeepServing = &model.KeepServing{Failed: 174, Left: []model.ServedLonger{
		{Longer: 100 * ms, Min: 160, Max: 164}, {Longer: 500 * ms, Min: 88, Max: 91}, {Longer: s, Min: 20, Max: 20}, {Longer: 1500 * ms},
	}}
	said, _ := saidOf(tl)
	want := "Of the 174 failures, 88 to 91 would remain had each Pod served 500 ms longer, 20 with 1 s, none with 1.5 s"
	if said.KeepServing != want {
		t.Errorf("%q\nwant %q", said.KeepServing, want)
	}
}

func TestWhatPreflightHadSaidIsInALine(t *testing.T) {
	tl := drained()
	tl.Scorecard = &model.Scorecard{Confirmed: 1, Refuted: 2, Missed: 1, Predictions: []model.ScoredPrediction{
		{Outcome: model.Confirmed, Prediction: timeline.Prediction{Rule: "LP05", Name: "no-prestop"}},
	}}
	said, _ := saidOf(tl)
	want := "valid, 100 % observed · preflight had predicted it (LP05 no-prestop), preflight missed 1 cause, 2 predictions not seen this time · exit 3 (failed>0)"
	if said.Measured != want {
		t.Errorf("%q\nwant %q", said.Measured, want)
	}
}
