package guard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lapse/correlate/model"
	"lapse/internal/guard/events"
	"lapse/internal/guard/gate"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// served adds a Pod to a run, which was an endpoint of the Service.
func served(tl *model.Timeline, name, owner string, ending *model.Ending) {
	tl.Pods = append(tl.Pods, model.Pod{Namespace: "shop", Name: name, UID: name, Owner: owner, Ending: ending})
	tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Service: "shop/web", Object: timeline.Object{UID: name}}})
}

func drained(tl *model.Timeline) {
	served(tl, "web-1", "ReplicaSet/web-54cf597767", &model.Ending{By: model.ByEviction, Of: &timeline.Object{Kind: "Node", Name: "node1"}})
}

// fails makes requests fail by a cause with a fix.
func fails(tl *model.Timeline) {
	tl.Verdict.Result, tl.Verdict.Failed = model.Fail, 3
	tl.Verdict.Downtime.Total = model.Length{Min: 290 * time.Millisecond, Max: 590 * time.Millisecond}
	cause := model.Cause{Rule: "route-outlives-pod", Fix: "keep serving ≥ 1.9 s after SIGTERM"}
	tl.Targets = []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}}}
	tl.Windows = []model.Window{{Target: "web new", Failed: 3, Causes: []model.Cause{cause}}}
	tl.Incidents = []model.Incident{
		{Causes: []model.IncidentCause{{Cause: model.Cause{Rule: "route-outlives-pod", Fix: "keep serving ≥ 1 s"}, Failed: 1}}},
		{Causes: []model.IncidentCause{{Cause: cause, Failed: 2}}},
	}
}

var (
	web        = timeline.Object{Kind: "Service", Namespace: "shop", Name: "web"}
	deployment = timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}
	node1      = timeline.Object{Kind: "Node", Name: "node1"}
)

// What Events say of a run: what set it off, the gate's reason, what to do, on the Service and on its workloads.
func TestEventsSayWhatARunFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*model.Timeline)
		want   events.Event      // on the Service
		on     []timeline.Object // also
	}{
		{"a drain that loses requests", func(tl *model.Timeline) { drained(tl); fails(tl) },
			events.Event{Related: node1, Warning: true, Reason: "RequestsDropped", Text: "drain of node1: 3 of 900 failed; down 440 ms ±150; route-outlives-pod; keep serving ≥ 1.9 s after SIGTERM"}, []timeline.Object{deployment}},
		{"a rollout that loses none", func(tl *model.Timeline) {
			served(tl, "web-1", "ReplicaSet/web-54cf597767", &model.Ending{By: model.ByRollout, Of: &deployment})
			served(tl, "web-2", "ReplicaSet/web-5f9dd68475", nil)
		}, events.Event{Related: deployment, Reason: "NoRequestDropped", Text: "rollout of web: 0 of 900 failed"}, []timeline.Object{deployment}},
		{"two triggers, and a workload of each kind", func(tl *model.Timeline) {
			served(tl, "web-0", "StatefulSet/web", &model.Ending{By: model.ByItself})
			served(tl, "web-1", "DaemonSet/web", &model.Ending{By: model.ByScaling, Of: &deployment})
			served(tl, "web-2", "Job/web", nil)
			served(tl, "web-3", "", nil)
		}, events.Event{Related: deployment, Reason: "NoRequestDropped", Text: "exit of a Pod and scale-down of web: 0 of 900 failed"},
			[]timeline.Object{{Kind: "StatefulSet", Namespace: "shop", Name: "web"}, {Kind: "DaemonSet", Namespace: "shop", Name: "web"}}},
		{"failures of no Pod", fails,
			events.Event{Warning: true, Reason: "RequestsDropped", Text: "3 of 900 failed; down 440 ms ±150; route-outlives-pod; keep serving ≥ 1.9 s after SIGTERM"}, nil},
		{"failures that the gate tolerates", func(tl *model.Timeline) { drained(tl); tl.Verdict.Failed = 1 },
			events.Event{Related: node1, Reason: "RequestsDropped", Text: "drain of node1: 1 of 900 failed; down 0 s"}, []timeline.Object{deployment}},
		{"a gate on something else", func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Verdict.Reasons = model.Fail, []string{"gate latency.p99>50ms failed: 61 ms"}
		}, events.Event{Warning: true, Reason: "GateFailed", Text: "0 of 900 failed; gate latency.p99>50ms failed: 61 ms"}, nil},
		{"a run that was ended", func(tl *model.Timeline) { tl.Run.Aborted = "stopped by SIGTERM" },
			events.Event{Warning: true, Reason: "NotMeasured", Text: "0 of 900 failed; aborted after 90 s: stopped by SIGTERM"}, nil},
		{"a change of the Service", func(tl *model.Timeline) {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ServiceChanged, To: "absent", Object: web}})
		}, events.Event{Reason: "NoRequestDropped", Text: "deletion of Service web: 0 of 900 failed"}, nil},
	} {
		test.want.On, test.want.Run = web, "r1"
		want := []events.Event{test.want}
		for _, on := range test.on {
			of := test.want
			of.On, of.Related, of.Text = on, web, "Service web: "+of.Text
			want = append(want, of)
		}
		if diff := cmp.Diff(want, eventsOf(judged(test.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Each run that is judged has its Events. They say the gate's words, also of a run that was measured in part.
func TestEachRunHasItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		f.disrupt("shop/web", 3)()
		f.silent = 5 * time.Second
		f.disrupt("shop/web", 0)()
		var got []string
		for _, e := range f.told {
			_, a := f.ask("service=shop/web&run=" + e.Run)
			if got = append(got, e.On.Kind+" "+e.Reason+" "+string(a.State)); !strings.HasPrefix(strings.TrimPrefix(e.Text, "Service web: "), a.Reason) {
				t.Errorf("the Event says %q, and the gate %q", e.Text, a.Reason)
			}
		}
		want := []string{
			"Service NoRequestDropped pass", "Deployment NoRequestDropped pass", "Service RequestsDropped fail", "Deployment RequestsDropped fail",
			"Service NotMeasured inconclusive", "Deployment NotMeasured inconclusive",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if last := f.told[4]; last.Text != "0 of 850 failed; coverage 94.33 % is below the required 99 %: downtime in unobserved time cannot be excluded" {
			t.Errorf("%+v", last)
		}
	})
}

// A run that a killed guard has not judged has its Events from the next guard, once, also if its recording breaks off.
func TestARunThatWasLeftHasItsEvents(t *testing.T) {
	for says, lost := range map[string]int64{"3 of 900 failed; ": 0, "0 of 0 failed; ": 8} { // bytes of the recording
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			f := newFake(t, dir)
			f.guards("shop/web")
			f.disrupt("shop/web", 3)()
			f.stop()
			run := filepath.Join(dir, saved.Runs(dir)[0])
			facts := filepath.Join(run, saved.FactsFile)
			info, err := os.Stat(facts)
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(os.Truncate(facts, info.Size()-lost), os.Remove(filepath.Join(run, saved.TimelineFile)),
				os.Remove(filepath.Join(dir, saved.HistoryFile)))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{len(f.told), 0} {
				next := newFake(t, dir)
				synctest.Wait()
				if next.stop(); len(next.told) != want || want > 0 && !strings.HasPrefix(next.told[0].Text, says) {
					t.Errorf("without %d bytes: %+v, want %d Events", lost, next.told, want)
				}
			}
		})
	}
}

// An API that does not answer, or a missing right, loses nothing but Events. It is said once in the log, and stands in
// the status until it is over.
func TestEventsThatCannotBeWrittenAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web", "shop/api")
		f.untold = apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("you may not"))
		f.telling = func(ctx context.Context) { <-ctx.Done() }
		for _, service := range []string{"shop/web", "shop/api", "shop/web"} {
			before := time.Now()
			f.disrupt(service, 0)()
			f.asked("service="+service+"&since="+before.Format(time.RFC3339Nano), 200, gate.Pass) // though the Event is not written yet
			time.Sleep(sayFor)                                                                    // of virtual time
			synctest.Wait()
		}
		if r := f.report(); r.Unsaid != "events is forbidden: you may not" {
			t.Errorf("%+v", r)
		}
		const once = "Events cannot be written"
		if n := strings.Count(f.log.String(), once); n != 1 {
			t.Errorf("said %d times: %s", n, f.log)
		}
		f.untold, f.telling = nil, nil
		f.disrupt("shop/web", 0)()
		if r := f.report(); r.Unsaid != "" || len(f.told) == 0 {
			t.Errorf("%+v, %d Events", r, len(f.told))
		}
		f.untold = apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("you may not"))
		f.disrupt("shop/web", 0)()
		if n := strings.Count(f.log.String(), once); n != 2 {
			t.Errorf("said %d times: %s", n, f.log)
		}
	})
}

// That another guard measures a Service, too, is said until it is no longer so.
func TestAnotherGuardOfAServiceIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.others = []string{"shop"}
		const says = "shop/web is measured by the guard in namespace shop, too: it gets twice the requests and Events, end one"
		for range 2 {
			f.disrupt("shop/web", 0)()
		}
		r := f.report()
		if all := r.problems(); !slices.Contains(all, says) || strings.Count(f.log.String(), "another guard measures this Service") != 1 {
			t.Errorf("%q\n%s", all, f.log)
		}
		f.others = nil
		f.disrupt("shop/web", 0)()
		if r := f.report(); len(r.problems()) > 0 {
			t.Errorf("%q", r.problems())
		}
		f.others = []string{"shop"}
		f.disrupt("shop/web", 0)()
		f.guards("shop/api")
		time.Sleep(lingers) // of virtual time
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.shared) > 0 {
			t.Errorf("kept of a Service that is no longer guarded: %v", f.shared)
		}
	})
}
