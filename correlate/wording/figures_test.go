package wording

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// alone is an outage that one target alone saw: all of 100 requests failed in 1.18 s.
func alone() *model.Timeline {
	tl := drained()
	tl.Targets, tl.Windows = tl.Targets[:1], tl.Windows[:1]
	tl.Windows[0].Sent, tl.Windows[0].Failed, tl.Windows[0].Kind = 100, 100, model.Outage
	tl.Windows[0].Downtime = model.Length{Min: 1170 * ms, Max: 1200 * ms}
	tl.Incidents[0].Windows, tl.Incidents[0].Targets = []int{1}, tl.Incidents[0].Targets[:1]
	tl.Verdict.Downtime.Total = tl.Windows[0].Downtime
	return tl
}

// A share over a length, and the full outage that it equals, are of the same requests at the same time.
func TestTheFiguresOfTheExtentAgree(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*model.Timeline)
		want   string
	}{
		"an outage is its own length": {func(*model.Timeline) {}, "100 % of new connections failed for 1.18 s"},
		"of which a part is certain": {func(tl *model.Timeline) {
			tl.Windows[0].Downtime.Min, tl.Verdict.Downtime.Total.Min = 700*ms, 700*ms
		}, "100 % of new connections failed for 1.18 s; 700 ms of that is certain, in the rest too few were sent"},
		"another target lost more": {func(tl *model.Timeline) {
			more := tl.Windows[0]
			more.ID, more.Target, more.Failed, more.Downtime = 3, "web reused", 0, model.Length{Min: 4 * s, Max: 5 * s}
			tl.Windows = append(tl.Windows, more)
			tl.Verdict.Downtime.Total = more.Downtime
		}, "100 % of new connections failed for 1.18 s; equals 4.5 s ±0.5 of full outage for the requests hit worst"},
		"late answers have no part in the share": {func(tl *model.Timeline) {
			late := tl.Windows[0]
			late.ID, late.Kind, late.Failed, late.Sent, late.Slow, late.Classes = 3, model.Slow, 0, 171, 162, nil
			late.FailedFrom, late.FailedTo, late.Downtime = nil, nil, model.Length{}
			tl.Windows = append(tl.Windows, late)
			tl.Incidents[0].Windows = append(tl.Incidents[0].Windows, 3)
		}, "100 % of new connections failed for 1.18 s"},
		"the length is that of the requests with this share": {func(tl *model.Timeline) {
			other := tl.Windows[0]
			other.ID, other.Target, other.Failed, other.Sent = 3, "web reused", 5, 90
			other.FailedTo, other.Downtime = new(15*s), model.Length{Min: 10 * ms, Max: 20 * ms}
			tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Name: "web reused", Kind: timeline.Reused}})
			tl.Windows = append(tl.Windows, other)
			tl.Incidents[0].Windows, tl.Incidents[0].FailedTo = append(tl.Incidents[0].Windows, 3), other.FailedTo
		}, "100 % of new connections failed for 1.18 s"},
		"peace between two incidents is no part of it": {func(tl *model.Timeline) {
			second, in := tl.Windows[0], tl.Incidents[0]
			second.ID, second.FailedFrom, second.FailedTo = 3, new(30*s), new(40*s)
			in.ID, in.Windows, in.FailedFrom, in.FailedTo = 2, []int{3}, second.FailedFrom, second.FailedTo
			tl.Windows, tl.Incidents = append(tl.Windows, second), append(tl.Incidents, in)
			tl.Verdict.Downtime.Total = model.Length{Min: 11100 * ms, Max: 11300 * ms}
		}, "100 % of new connections failed in 2 incidents, 11.2 s together; equals 11.2 s ±0.1 of full outage; incident 1 of 2 did most harm"},
		"again and again": {func(tl *model.Timeline) {
			tl.Incidents[0].Recurs = &model.Recurrence{Times: 16}
			tl.Windows[0].Sent = 1000
			tl.Verdict.Downtime.Total = model.Length{Min: 100 * ms, Max: 140 * ms}
		}, "10 % of new connections failed in 16 bursts over 1.18 s; equals 120 ms ±20 of full outage"},
		"a bound above is the worst": {func(tl *model.Timeline) {
			tl.Windows[0].Sent, tl.Verdict.Downtime.Total.Min = 130, 0
		}, "77 % of new connections failed for 1.18 s; equals ≤ 1.2 s of full outage at the worst"},
		"what is open is certain": {func(tl *model.Timeline) {
			tl.Windows[0].Sent, tl.Verdict.Downtime.Open = 130, true
		}, "77 % of new connections failed for 1.18 s; equals ≥ 1.17 s of full outage for certain"},
	} {
		tl := alone()
		test.change(tl)
		if said, _ := saidOf(tl); said.Extent != test.want {
			t.Errorf("%s: %q\nwant %q", name, said.Extent, test.want)
		}
	}
}

// Late answers are counted of the requests that were sent when answers were late.
func TestLateAnswersHaveANumberOfTheirOwn(t *testing.T) {
	tl := alone()
	late := tl.Windows[0]
	late.ID, late.Kind, late.Failed, late.Sent, late.Slow, late.Classes, late.FailedFrom = 3, model.Slow, 0, 171, 162, nil, nil
	tl.Windows = append(tl.Windows, late)
	tl.Incidents[0].Windows = append(tl.Incidents[0].Windows, 3)
	if _, in := saidOf(tl); len(in.What) != 1 || in.What[0].Text != "100 of 100 failed (100 %): refused; besides, 162 of 171 answers came late" {
		t.Errorf("%+v", in.What)
	}
	tl.Windows[1].Sent = 162
	if _, in := saidOf(tl); !strings.HasSuffix(in.What[0].Text, "; besides, 162 answers came late") {
		t.Errorf("%+v", in.What)
	}
}

// What failed before the command began, or after it ended, did not fail while it ran.
func TestTheHeadlineSaysWhetherItFailedWhileTheCommandRan(t *testing.T) {
	for want, at := range map[string][2]time.Duration{
		"failed while kubectl drain node1 ran":                        {9500 * ms, 11 * s},
		"failed while kubectl drain node1 ran and afterwards":         {9500 * ms, 10500 * ms},
		"failed while kubectl drain node1 ran and before":             {10 * s, 11 * s},
		"failed while kubectl drain node1 ran, before and afterwards": {10 * s, 10500 * ms},
		"failed after kubectl drain node1 had ended":                  {9 * s, 9500 * ms},
		"failed before kubectl drain node1 ran":                       {11 * s, 12 * s},
	} {
		tl := alone()
		tl.Run.Command.Start, tl.Run.Command.End = new(at[0]), new(at[1])
		if said, _ := saidOf(tl); !strings.HasSuffix(said.Headline, want) {
			t.Errorf("%q, want the end %q", said.Headline, want)
		}
	}
	tl := alone()
	tl.Run.Command.Start = new(11720 * ms)
	if _, in := saidOf(tl); !strings.HasSuffix(in.When, ", 2 s before the command began") {
		t.Errorf("%q", in.When)
	}
}

// The instants of an incident stand in the order of the times that are printed, and none is more exact than it is known.
func TestInstantsAreSortedByWhatIsPrinted(t *testing.T) {
	tl := alone()
	tl.Routes, tl.Pods = nil, tl.Pods[:1]
	c := &tl.Incidents[0].Causes[0]
	c.Evidence = append([]model.Evidence{{At: &model.Instant{Earliest: 9200 * ms, Latest: 10100 * ms}, Text: "web-7c-6m498 was deleted"}}, c.Evidence...)
	c.Evidence = append(c.Evidence, model.Evidence{At: &model.Instant{Earliest: 9250 * ms, Latest: 9300 * ms}, Text: "web-7c-6m498 was asked to end"},
		model.Evidence{At: &model.Instant{Earliest: 9270 * ms, Latest: 10100 * ms}, Text: "web-7c-6m498 exited"})
	_, in := saidOf(tl)
	var got []string
	for _, p := range in.Phases[:3] {
		got = append(got, p.When+" "+p.Text)
	}
	want := "13:03:35.2 to 36.1 web-7c-6m498 was deleted, 13:03:35.2 to 36.1 web-7c-6m498 exited, 13:03:35.25 to 35.30 web-7c-6m498 was asked to end"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// going makes an incident of a rollout that still failed when measuring ended.
func going(rule string) *model.Timeline {
	tl := alone()
	tl.Windows[0].Open.End = true
	tl.Targets[0].Measured = model.Instant{Latest: 12 * s}
	in := &tl.Incidents[0]
	in.Causes[0].Rule, in.Causes[0].Sleep, in.Causes[0].Fix = rule, nil, "more replicas"
	in.Triggers = []model.Trigger{{
		Kind: model.RolledOut, Event: 7, Object: timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}, Text: "rollout of web",
	}}
	tl.Events = append(tl.Events, deployed(timeline.SnapshotFound, s, 1, 2), deployed(timeline.SnapshotChanged, 8*s, 2, 0))
	return tl
}

// deployed is how a Deployment was seen, with two Pods.
func deployed(how string, at time.Duration, generation int64, updated int) model.Event {
	return model.Event{At: model.Instant{Earliest: at, Latest: at}, Event: timeline.Event{
		Kind: timeline.SnapshotTaken, To: how, Object: timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"},
		Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Generation: generation, Replicas: 2, Status: timeline.Replicas{Existing: 2, Updated: updated}}},
	}}
}

// What still fails is first undone, by a command that can be pasted, where that is known to help.
func TestWhatStillFailsIsUndoneFirst(t *testing.T) {
	tl := going("no-ready-endpoint")
	_, in := saidOf(tl)
	if in.Patch != "kubectl -n shop rollout undo deployment/web" || len(in.Do) != 2 || in.Do[1] != "more replicas" ||
		in.Do[0] != "if it still fails, first undo the rollout, which replaces Pods once more" {
		t.Errorf("%q, %q", in.Do, in.Patch)
	}
	for why, spoil := range map[string]func(*model.Timeline){
		"it is over":                      func(tl *model.Timeline) { tl.Windows[0].Open.End = false },
		"a rollout more would make more":  func(tl *model.Timeline) { tl.Incidents[0].Causes[0].Rule = "route-outlives-pod" },
		"a ReplicaSet keeps no revisions": func(tl *model.Timeline) { tl.Incidents[0].Triggers[0].Object.Kind = "ReplicaSet" },
		"a name is unusual":               func(tl *model.Timeline) { tl.Incidents[0].Triggers[0].Object.Name = "web; rm" },
		"of two changes either may be it": func(tl *model.Timeline) {
			tl.Incidents[0].Triggers = append(tl.Incidents[0].Triggers, tl.Incidents[0].Triggers[0])
		},
		"it was undone already": func(tl *model.Timeline) {
			tl.Events = append(tl.Events, deployed(timeline.SnapshotChanged, 9500*ms, 3, 0))
		},
		"it failed before the change, which may undo another": func(tl *model.Timeline) {
			tl.Events[len(tl.Events)-1].At = model.Instant{Earliest: 11 * s, Latest: 11 * s}
		},
		"a rollout was under way already": func(tl *model.Timeline) {
			tl.Events[len(tl.Events)-2].Snapshot.Workload.Status.Updated = 1
		},
		"the change was not seen":     func(tl *model.Timeline) { tl.Events = tl.Events[:len(tl.Events)-1] },
		"a restart keeps the program": func(tl *model.Timeline) { tl.Events[len(tl.Events)-1].Actor = "kubectl-rollout" },
		"a StatefulSet waits for its broken Pod": func(tl *model.Timeline) {
			tl.Incidents[0].Triggers[0].Object.Kind = "StatefulSet"
			for i := range tl.Events {
				if o := &tl.Events[i].Object; o.Kind == "Deployment" {
					o.Kind = "StatefulSet"
				}
			}
		},
		"any version starts too early": func(tl *model.Timeline) { tl.Incidents[0].Causes[0].Rule = "startup-race" },
		"it is only near":              func(tl *model.Timeline) { tl.Incidents[0].Causes[0].Confidence = model.Low },
	} {
		tl := going("no-ready-endpoint")
		spoil(tl)
		if _, in := saidOf(tl); in.Patch != "" || len(in.Do) != 1 {
			t.Errorf("%s: %q, %q", why, in.Do, in.Patch)
		}
	}
	tl = going("selector-switch")
	tl.Incidents[0].Triggers[0].Kind, tl.Incidents[0].Triggers[0].Object.Kind = model.ServiceChanged, "Service"
	tl.Events = append(tl.Events, model.Event{Event: timeline.Event{ID: 7, Kind: timeline.ServiceChanged, From: "app=web,release=1", To: "app=web,release=2"}})
	if _, in := saidOf(tl); in.Patch != "kubectl -n shop set selector service web app=web,release=1" {
		t.Errorf("%q, %q", in.Do, in.Patch)
	}
}

// Who sets the replicas of a workload that has an autoscaler is told so.
func TestReplicasAreLeftToTheAutoscaler(t *testing.T) {
	tl := drained()
	web := timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}
	tl.Incidents[0].Triggers = []model.Trigger{{Kind: model.ScaledDown, Object: web, Event: 8, Actor: "kubectl-client-side-apply"}}
	by := func(id uint32, autoscaler bool) model.Event {
		return model.Event{Event: timeline.Event{ID: id, Object: web, Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Autoscaled: autoscaler}}}}
	}
	tl.Events = append(tl.Events, by(6, true), by(8, false))
	_, in := saidOf(tl)
	want := "take spec.replicas out of the manifest of Deployment web: an autoscaler sets the replicas, and each kubectl apply sets " +
		"them back (first take it out of what was applied last, with kubectl apply edit-last-applied: else the next apply scales to 1)"
	if len(in.Do) != 2 || in.Do[1] != want || in.Patch == "" {
		t.Errorf("%q\nwant %q", in.Do, want)
	}
	tl.Events[len(tl.Events)-1] = by(8, true) // the autoscaler itself
	if _, in := saidOf(tl); len(in.Do) != 1 {
		t.Errorf("%q", in.Do)
	}
}

// Late answers that nothing explains add no second order beside that for the cause that is known.
func TestWhatIsKnownOfLateAnswersDecidesWhatToDo(t *testing.T) {
	tl := alone()
	in := &tl.Incidents[0]
	in.Causes = []model.IncidentCause{
		{Cause: model.Cause{Rule: "prober-fault", Confidence: model.Medium, Text: "the prober did not run", Fix: "nothing to change"}},
		{Cause: model.Cause{Rule: model.Unexplained, Text: "no known cause matches", Fix: "look at the nodes"}},
	}
	_, said := saidOf(tl)
	if len(said.Do) != 1 || said.Do[0] != "nothing to change" || strings.Contains(said.Why, "no known cause") {
		t.Errorf("%q, %q", said.Why, said.Do)
	}
	if want := "prober-fault, medium confidence: the prober did not run; why other answers came late is not known"; said.Why != want {
		t.Errorf("%q\nwant %q", said.Why, want)
	}
	in.Causes[0].Text = "requests were answered late, then the probes timed out"
	if _, said := saidOf(tl); strings.Contains(said.Why, "not known") {
		t.Errorf("%q explains late answers", said.Why)
	}
}

// An end that was not seen, connections that are not back and failures that come again are not over.
func TestOnlyWhatEndedIsOver(t *testing.T) {
	for name, change := range map[string]func(*model.Timeline){
		"recurring": func(tl *model.Timeline) { tl.Incidents[0].Recurs = &model.Recurrence{Times: 3} },
		"not back": func(tl *model.Timeline) {
			tl.Held = []model.Held{{Windows: []model.CutWindow{{Window: model.Window{ID: 9, Kind: model.CutKind}, Missing: 1}}}}
			tl.Incidents[0].Windows = append(tl.Incidents[0].Windows, 9)
		},
	} {
		tl := alone()
		change(tl)
		if _, in := saidOf(tl); strings.Contains(in.When, "over") || !strings.HasPrefix(in.When, "2026-11-25: ") {
			t.Errorf("%s: %q", name, in.When)
		}
	}
}
