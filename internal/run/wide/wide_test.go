package wide

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/timeline"
)

// What a stand-in for a prober says that it made is in its recording, request by request, and nothing comes after a
// watermark that was due before it.
func TestWideProberRecordsWhatItSaysItMade(t *testing.T) {
	dir := t.TempDir()
	var made wideReport
	synctest.Test(t, func(t *testing.T) {
		p, err := newWideProber(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Assign(agent.Assignment{Source: 7, Targets: []agent.Assigned{
			{Target: timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, URL: "http://127.79.254.1:80/", Rate: 2}},
			{Target: timeline.Target{ID: 2, Name: "web reused", Kind: timeline.Reused, URL: "http://127.79.254.1:80/", Rate: 0.5}},
			{Target: timeline.Target{ID: 3, Name: "control", Kind: timeline.Control, Rate: 100}},
		}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + 30*time.Millisecond) // in virtual time
		if err := p.End("", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := p.Status(); s.Phase != timeline.PhaseEnded || s.SHA256 == "" {
			t.Errorf("it has not ended: %+v", s)
		}
		made = wideReport{Requests: map[string]uint64{}}
		made.add(p)
	})
	if made.Err != "" || made.Judged != made.Requests["web new"]+made.Requests["web reused"] || made.Requests["web new"] < 20 || made.Requests["web reused"] < 5 || made.Requests["control"] < 1000 {
		t.Errorf("made %+v", made)
	}
	recorded, seqs, marks := map[timeline.TargetID]uint64{}, uint64(0), map[timeline.TargetID]time.Duration{}
	for fact := range recordingIn(t, dir) {
		b, ok := fact.(timeline.Batch)
		if !ok {
			continue
		}
		if b.FirstSeq != seqs || b.Source != 7 {
			t.Fatalf("a batch begins at %d of source %d, not at %d", b.FirstSeq, b.Source, seqs)
		}
		seqs += uint64(len(b.Requests))
		for _, r := range b.Requests {
			if r.Seq != recorded[r.Target] || r.Due < marks[r.Target] || r.Done <= r.Sent {
				t.Fatalf("request %d of target %d is due %v, after a watermark of %v and %d requests", r.Seq, r.Target, r.Due, marks[r.Target], recorded[r.Target])
			}
			recorded[r.Target]++
		}
		for _, m := range b.Watermarks {
			marks[m.Target] = m.Due
		}
	}
	if want := map[timeline.TargetID]uint64{1: made.Requests["web new"], 2: made.Requests["web reused"], 3: made.Requests["control"]}; !maps.Equal(recorded, want) {
		t.Errorf("recorded %v, made %v", recorded, want)
	}
}

// recordingIn yields the facts of the one recording in a folder.
func recordingIn(t *testing.T, dir string) func(func(timeline.Fact) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.lapse"))
	if err != nil || len(files) != 1 {
		t.Fatalf("recordings: %q, %v", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(yield func(timeline.Fact) bool) {
		for fact, err := range record.Decode(f) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(fact) {
				return
			}
		}
	}
}

// Replacing a Pod leaves the Service with as many endpoints, of which another one is ready, and who watches sees each
// step.
func TestWideClusterReplacesAPod(t *testing.T) {
	c := newWideCluster(widePlan{Run: "lapse-x", Sources: 3, Services: 2, Endpoints: 4, Every: time.Second, Net: 78}, 8080)
	server := httptest.NewServer(c.handler())
	t.Cleanup(server.Close)
	was := fetched[corev1.PodList](t, server.URL+"/api/v1/pods?labelSelector=app%3Dweb-1")
	begun := len(c.Changes)
	for _, step := range c.replacement(1) {
		step()
	}
	is := fetched[corev1.PodList](t, server.URL+"/api/v1/pods?labelSelector=app%3Dweb-1")
	if len(was.Items) != 2 || len(is.Items) != 2 || slices.ContainsFunc(is.Items, func(p corev1.Pod) bool { return p.Name == was.Items[0].Name }) || is.Items[0].Name != was.Items[1].Name {
		t.Errorf("the Pods were %v and are %v", podNames(was.Items), podNames(is.Items))
	}
	endpoints := fetched[discoveryv1.EndpointSliceList](t, server.URL+"/apis/discovery.k8s.io/v1/endpointslices")
	for _, slice := range endpoints.Items {
		if ready := slices.IndexFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return !*e.Conditions.Ready }); len(slice.Endpoints) != 2 || ready >= 0 {
			t.Errorf("%s: %+v", slice.Name, slice.Endpoints)
		}
	}
	var steps []string
	for _, change := range c.Changes[begun:] {
		steps = append(steps, change.Type+" "+change.Resource)
	}
	want := "ADDED pods, MODIFIED pods, MODIFIED pods, MODIFIED pods, MODIFIED endpointslices, MODIFIED pods, MODIFIED endpointslices, MODIFIED pods, MODIFIED endpointslices, DELETED pods"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("watched: %s\nwant: %s", got, want)
	}
	if probers := fetched[corev1.PodList](t, server.URL+"/api/v1/namespaces/shop/pods?labelSelector="+strings.ReplaceAll(deploy.ProberSelector("lapse-x"), "=", "%3D")); len(probers.Items) != 3 {
		t.Errorf("%d probers", len(probers.Items))
	}
}

func podNames(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func fetched[L any](t *testing.T, url string) (list L) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// A request that is missing in the result or in the copy is lost, and so is one that one of them has twice.
func TestLostRequestsAreCounted(t *testing.T) {
	tl := &model.Timeline{Targets: []model.Target{{Target: timeline.Target{ID: 1, Name: "a"}, Sent: 9, NotSent: 1}, {Target: timeline.Target{ID: 2, Name: "b"}, Sent: 5}, {Target: timeline.Target{ID: 3, Name: "control"}, Sent: 100}}}
	for _, test := range []struct {
		made   map[string]uint64
		copied map[timeline.TargetID]int
		want   int
	}{
		{map[string]uint64{"a": 10, "b": 5}, map[timeline.TargetID]int{1: 10, 2: 5, 3: 100}, 0},
		{map[string]uint64{"a": 12, "b": 5}, map[timeline.TargetID]int{1: 12, 2: 5}, 2},
		{map[string]uint64{"a": 10, "b": 5}, map[timeline.TargetID]int{1: 10, 2: 7}, 2},
		{map[string]uint64{"a": 10, "b": 5, "c": 4}, map[timeline.TargetID]int{1: 10, 2: 5}, 4},
		{map[string]uint64{"a": 11, "b": 4}, map[timeline.TargetID]int{1: 11, 2: 4}, 2}, // not balanced by one too many
	} {
		if got := lostOf(tl, wideReport{Requests: test.made}, test.copied); got != test.want {
			t.Errorf("made %v, copied %v: %d lost, want %d", test.made, test.copied, got, test.want)
		}
	}
}

// The coordinator of the benchmark gets the environment that the kubelet gives it: its keys, and the run's Spec with
// all Services and nodes.
func TestWideJobIsTheRunsOwn(t *testing.T) {
	plan := widePlan{Run: "lapse-x", Sources: 3, Services: 2, Endpoints: 4, Net: 78}
	container, objects, prober := wideJob(t, plan)
	env := environment(container, objects.Secret, map[string]string{"metadata.namespace": "shop", deploy.EnvListen: "127.0.0.1:1"})
	of := func(name string) string {
		for _, v := range env {
			if text, ok := strings.CutPrefix(v, name+"="); ok {
				return text
			}
		}
		t.Errorf("no %s", name)
		return ""
	}
	if of(deploy.EnvNamespace) != "shop" || of(deploy.EnvListen) != "127.0.0.1:1" || of(deploy.EnvTLSCA) != string(prober.CA) || of(deploy.EnvTLSKey) == string(prober.Key) || !strings.Contains(of(deploy.EnvTLSKey), "PRIVATE KEY") {
		t.Error("the environment is not the coordinator's")
	}
	if spec := of(deploy.EnvSpec); !strings.Contains(spec, `"node3"`) || !strings.Contains(spec, `"web-1"`) || !strings.Contains(spec, `"rate":250`) {
		t.Errorf("the Spec: %s", spec)
	}
}
