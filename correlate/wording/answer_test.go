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
			Causes:     []model.Cause{{Rule: "route-outlives-pod", Confidence: model.High, Measures: measure(node, lag)}},
			FailedFrom: new(9720 * ms), FailedTo: new(10900 * ms),
		}
	}
	cause := model.Cause{
		Rule: "route-outlives-pod", Confidence: model.High, Text: "the routes of node1 still led to web-7c-6m498 for 1.2 s after it had stopped", Fix: "keep serving ≥ 2.2 s",
		Measures: measure("node1", 1200*ms),
		Evidence: []model.Evidence{
			{Event: 1, At: at(9800*ms, 9805*ms), Text: "web-7c-6m498 left the ready endpoints"},
			{Target: "direct", At: at(9700*ms, 9710*ms), Text: "web-7c-6m498 stopped answering new clients"},
			{Target: "web new from node1", At: at(9*s, 10*s), Text: "requests began to fail: 60 refused"},
			{Event: 2, At: at(0, 9*s), Text: "web-7c-6m498 was being killed by its kubelet"},
		},
		Sleep: &model.Sleep{Pod: "web-7c-6m498", PodUID: "a", Measured: 1150 * ms, Bounds: model.Length{Min: 1100 * ms, Max: 1300 * ms}, Margin: s},
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
		said.Extent:   "50 % of new connections failed for 1.18 s, from all 2 nodes; equals 570 ms ±170 of full outage for the requests hit worst",
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
		in.When:    "2026-11-25, over: 13:03:35.720 to 13:03:36.900 UTC (1.18 s), 220 ms after the command began",
		in.Why:     "route-outlives-pod, high confidence: the routes of node1 still led to web-7c-6m498 for 1.2 s after it had stopped; those of node2 for 1.1 s",
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
		"13:03:35.705 web-7c-6m498 stopped answering new clients",
		"13:03:35.720 the first failed request was due",
		"13:03:35.803 web-7c-6m498 left the ready endpoints",
		"13:03:36.900 the last failed request was due",
		"13:03:36.905 the last route followed, that of node1",
		"13:03:38.000 web-7c-new, a new Pod, was a ready endpoint, on node3",
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
	c.Evidence = append(c.Evidence, model.Evidence{At: &model.Instant{Earliest: 9900 * ms, Latest: 9901 * ms}, Text: "web-7c-new stopped answering new clients"})
	_, in := saidOf(tl)
	found := 0
	for _, p := range in.Phases {
		if p.Text == "the last of 2 Pods left the ready endpoints" && p.At.Latest == 9901*ms {
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
	want := "serve on for 3 s after a Pod's deletion, as with a preStop sleep (1.2 s ±0.1 was measured, the rest is margin); " +
		"the patch replaces the Pods, which may lose requests once more: those of now end without it"
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

// The curve is said for the advice alone, and only if it says something: "12 to 53 of 53" does not.
func TestTheCurveIsASentenceAboutTheAdvice(t *testing.T) {
	at := func(longer time.Duration, least, most int) model.ServedLonger {
		return model.ServedLonger{Longer: longer, Min: least, Max: most}
	}
	for want, left := range map[string][]model.ServedLonger{
		"Had each Pod served 3 s longer, none of the 174 failures of this cause would remain":     {at(s, 20, 20), at(1500*ms, 0, 0)},
		"Had each Pod served 3 s longer, 20 of the 174 failures of this cause would remain":       {at(s, 90, 91), at(3*s, 20, 20), at(5*s, 0, 0)},
		"Had each Pod served 3 s longer, 12 to 20 of the 174 failures of this cause would remain": {at(3*s, 12, 20)},
		// of a length that is not in the curve only the most is known
		"Had each Pod served 3 s longer, 20 at most of the 174 failures of this cause would remain": {at(2*s, 12, 20), at(5*s, 0, 0)},
		"": {at(3*s, 12, 174)},
	} {
		tl := drained()
		tl.KeepServing = &model.KeepServing{Failed: 174, Left: left}
		if said, _ := saidOf(tl); said.KeepServing != want {
			t.Errorf("%q\nwant %q", said.KeepServing, want)
		}
	}
	tl := drained()
	tl.Incidents[0].Causes[0].Sleep = nil
	tl.KeepServing = &model.KeepServing{Failed: 174, Left: []model.ServedLonger{at(s, 20, 20), at(1500*ms, 0, 0)}}
	if said, _ := saidOf(tl); said.KeepServing != "Had each Pod served 1.5 s longer, none of the 174 failures of this cause would remain" {
		t.Errorf("%q", said.KeepServing)
	}
}

func TestWhatPreflightHadSaidIsInALine(t *testing.T) {
	tl := drained()
	tl.Scorecard = &model.Scorecard{Confirmed: 1, Refuted: 2, Missed: 1, Misses: []model.Miss{{Cause: "grace-too-short"}}, Predictions: []model.ScoredPrediction{
		{Outcome: model.Confirmed, Prediction: timeline.Prediction{Rule: "LP05", Name: "no-prestop"}},
	}}
	said, _ := saidOf(tl)
	want := "valid, 100 % observed · preflight had predicted it (LP05 no-prestop), but not grace-too-short, 2 predictions not seen this time · exit 3 (failed>0)"
	if said.Measured != want {
		t.Errorf("%q\nwant %q", said.Measured, want)
	}
}

func TestAnEndThatWasNotObservedIsSaidWhereItEnds(t *testing.T) {
	tl := drained()
	for i := range tl.Targets {
		tl.Targets[i].Measured = model.Instant{Latest: 12 * s}
	}
	for i := range tl.Windows {
		tl.Windows[i].Open = model.Open{Start: true, End: true}
	}
	for i, gap := range []time.Duration{141 * ms, 146 * ms} {
		tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: tl.Targets[i].Name, Start: 9 * s, End: 9*s + gap, Reason: model.ReasonStalled})
	}
	_, in := saidOf(tl)
	want := "2026-11-25, still failing when measuring ended: 13:03:35.720 to 13:03:36.900 UTC (≥ 1.18 s), " +
		"220 ms after the command began, and its start was not observed (prober stalled, 146 ms)"
	if in.When != want {
		t.Errorf("%q\nwant %q", in.When, want)
	}
	var edges []string
	for _, l := range in.Lines {
		if l.Kind == model.LineEdge {
			edges = append(edges, l.Text)
		}
	}
	if len(edges) != 2 {
		t.Errorf("each end is said once, not %q", edges)
	}
}

func TestTheEndOfOneTargetIsNotThatOfAnIncidentThatWentOn(t *testing.T) {
	tl := drained()
	tl.Windows[0].Open.End = true
	tl.Windows[1].End = model.Instant{Earliest: 13 * s, Latest: 14 * s}
	tl.Buckets = model.Buckets{Width: s, Targets: map[string]model.BucketSeries{"web new from node1": {Start: 13, Sent: []int{50}, Failed: []int{0}}}}
	if _, in := saidOf(tl); !strings.HasPrefix(in.When, "2026-11-25, over: ") || strings.Contains(in.When, "≥") {
		t.Errorf("%q", in.When)
	}
}

// Nothing is over that nobody saw to be: a node's prober is killed while its requests fail, those of another node end
// later; failures end, and answers are late until measuring ends.
func TestWhatWasNotSeenToBeOverIsNot(t *testing.T) {
	killed := func(tl *model.Timeline) {
		tl.Windows[0].Open.End, tl.Windows[0].End = true, model.Instant{Earliest: 10 * s, Latest: 10 * s}
		tl.Targets[0].Measured.Latest = 10 * s
	}
	slow := func(tl *model.Timeline) {
		more := tl.Windows[0]
		more.ID, more.Kind, more.Failed, more.Slow, more.FailedFrom, more.FailedTo = 3, model.Slow, 0, 9, nil, nil
		more.Open.End, more.End = true, model.Instant{Earliest: 20 * s, Latest: 20 * s}
		tl.Windows, tl.Targets[0].Measured.Latest = append(tl.Windows, more), 20*s
		tl.Incidents[0].Windows = append(tl.Incidents[0].Windows, 3)
	}
	for _, test := range []struct {
		change func(*model.Timeline)
		want   string
	}{
		{killed, "what became of requests from node1 was not observed: 13:03:35.720 to 13:03:36.900 UTC (≥ 1.18 s)"},
		{func(tl *model.Timeline) {
			killed(tl)
			tl.Targets[0].Measured.Latest = 20 * s
			tl.Unobserved = []model.Unobserved{{Target: "web new from node1", Start: 10 * s, End: 20 * s, Reason: model.ReasonNotSent}}
		}, "what became of requests from node1 was not observed (prober stalled, 10 s): "},
		{slow, "failures over, still slow when measuring ended: 13:03:35.720 to 13:03:36.900 UTC (1.18 s)"},
		{func(tl *model.Timeline) {
			slow(tl)
			tl.Buckets = model.Buckets{Width: s, Targets: map[string]model.BucketSeries{"web new from node1": {Start: 21, Sent: []int{50}, Failed: []int{0}}}}
			tl.Targets[0].Measured.Latest = 22 * s
		}, "over: "},
	} {
		tl := drained()
		test.change(tl)
		if _, in := saidOf(tl); !strings.HasPrefix(in.When, "2026-11-25, "+test.want) {
			t.Errorf("%q\nwant %q", in.When, test.want)
		}
	}
}

func TestWhatIsNotExplainedIsCounted(t *testing.T) {
	tl := drained()
	in := &tl.Incidents[0]
	in.Cut = 7
	in.Causes = append(in.Causes, model.IncidentCause{Cause: model.Cause{Rule: "pinned-connection", Confidence: model.Medium, Text: "it ended 7", Fix: "close them"}, Cut: 7},
		model.IncidentCause{Cause: model.Cause{Rule: model.Unexplained, Fix: "look at the nodes"}, Failed: 8})
	_, said := saidOf(tl)
	if want := "; pinned-connection (all 7 cut connections), medium confidence: it ended 7; 8 of 100 failures not explained"; !strings.HasSuffix(said.Why, want) {
		t.Errorf("%q\nwant the end %q", said.Why, want)
	}
	for i, want := range []string{"serve on", "for pinned-connection: close them", "for unexplained: look at the nodes"} {
		if len(said.Do) != 3 || !strings.HasPrefix(said.Do[i], want) {
			t.Errorf("%q does not say what it is for; want %q", said.Do, want)
		}
	}
}

func TestWhatRequestsSaidThemselvesIsNoUnknownCause(t *testing.T) {
	tl := drained()
	text := "the server's certificate is not valid at this time: x509: certificate has expired"
	tl.Windows[0].Errors = []model.ErrorText{{Class: "tls", Text: "x509: certificate has expired"}}
	tl.Incidents[0].Causes = []model.IncidentCause{{Cause: model.Cause{Rule: model.Unexplained, Reason: "certificate", Text: text}, Failed: 100}}
	_, in := saidOf(tl)
	if in.Why != text || !strings.HasSuffix(in.Headline, ": certificate") || len(in.Lines) > 0 && in.Lines[0].Kind == model.LineError {
		t.Errorf("%q, %q, %+v", in.Why, in.Headline, in.Lines)
	}
}

func TestLateAnswersAreCounted(t *testing.T) {
	tl := drained()
	tl.Windows[0].Slow = 162
	tl.Windows[1].Kind, tl.Windows[1].Slow = model.Slow, 3
	tl.Targets[1].SlowFrom = 636 * ms
	if said, _ := saidOf(tl); !strings.HasSuffix(said.Headline, "; 165 answers slower than 636 ms") {
		t.Errorf("%q", said.Headline)
	}
}

func TestOfSeveralIncidentsTheWorstIsNamed(t *testing.T) {
	tl := drained()
	tl.Incidents = append(tl.Incidents, model.Incident{ID: 2, Downtime: model.Length{Max: s}})
	if said, _ := saidOf(tl); !strings.HasSuffix(said.Extent, "; incident 2 of 2 did most harm") {
		t.Errorf("%q", said.Extent)
	}
}

func TestAnInstantHasNoLength(t *testing.T) {
	tl := drained()
	in := &tl.Incidents[0]
	in.FailedTo = in.FailedFrom
	_, said := saidOf(tl)
	if want := "2026-11-25, over: all at once, at 13:03:35.720 UTC, 220 ms after"; !strings.HasPrefix(said.When, want) {
		t.Errorf("%q\nwant %q", said.When, want)
	}
	in.Failed = 1
	if _, said = saidOf(tl); !strings.HasPrefix(said.When, "2026-11-25, over: once, at 13:03:35.720 UTC, 220 ms after") {
		t.Errorf("%q", said.When)
	}
}

func TestBurstsAreSaidOneByOne(t *testing.T) {
	tl := drained()
	tl.Windows[0].FailedFrom, tl.Windows[0].FailedTo = new(9720*ms), new(10*s)
	tl.Windows[1].FailedFrom, tl.Windows[1].FailedTo = new(40*s), new(41*s)
	tl.Incidents[0].FailedTo = new(41 * s)
	_, in := saidOf(tl)
	if want := "2026-11-25, over: 13:03:35.720 to 13:04:07.000 UTC (2 bursts, 1.28 s together), "; !strings.HasPrefix(in.When, want) {
		t.Errorf("%q\nwant %q", in.When, want)
	}
	want := "100 of 200 failed (50 %): refused; in 2 bursts, 13:03:35.720 to 13:03:36.000 and 13:04:06.000 to 13:04:07.000"
	if len(in.What) != 1 || in.What[0].Text != want {
		t.Errorf("%+v\nwant %q", in.What, want)
	}
	tl.Targets[1].Kind = timeline.Reused
	_, in = saidOf(tl)
	if len(in.What) != 2 || !strings.HasSuffix(in.What[0].Text, "refused; 13:03:35.720 to 13:03:36.000") || !strings.HasSuffix(in.What[1].Text, "refused; 13:04:06.000 to 13:04:07.000") {
		t.Errorf("each kind says when it failed: %+v", in.What)
	}
}

func TestAdviceIsNoMoreExactThanWhatWasMeasured(t *testing.T) {
	tl := drained()
	tl.Incidents[0].Causes[0].Sleep.Bounds = model.Length{Min: 100 * ms, Max: 15 * s}
	if _, in := saidOf(tl); !strings.Contains(in.Do[0], "(≥ 100 ms was measured, the rest is margin)") {
		t.Errorf("%q", in.Do)
	}
}
