package main

import (
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

var zero = time.Date(2026, 11, 23, 9, 5, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return zero.Add(d) }

// A sample counts from the trigger time of its change: the change without one gives none, though the rules were
// written for it too.
func TestSamplesAreOfTheChangesThatTheyCountFrom(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	changes := []sliceChange{
		{service: "default/canary", kind: "ready → terminating+serving", seen: at(3400 * ms)},
		{service: "default/canary", kind: "absent → not-ready", seen: at(4300 * ms), trigger: at(3 * s)},
		{service: "default/canary", kind: "not-ready → ready", seen: at(5300 * ms), trigger: at(5 * s)},
		{service: "default/other", kind: "not-ready → ready", seen: at(5350 * ms), trigger: at(4 * s)},
		{service: "default/canary", kind: "terminating+serving → absent", seen: at(24 * s), trigger: at(23 * s)},
		// dropped: its Service was deleted
		{service: "default/canary", kind: "absent → ready", seen: at(31 * s), trigger: at(30 * s)},
	}
	readings := []reading{
		{asked: at(0), read: at(5 * ms), samples: 7, sum: 100},
		{asked: at(3600 * ms), read: at(3605 * ms), samples: 7, sum: 100},
		{asked: at(4400 * ms), read: at(4405 * ms), samples: 7, sum: 100},
		{asked: at(4600 * ms), read: at(4605 * ms), samples: 8, sum: 101.5}, // written at 4.5 s
		{asked: at(5400 * ms), read: at(5405 * ms), samples: 8, sum: 101.5},
		{asked: at(5600 * ms), read: at(5605 * ms), samples: 10, sum: 103.5}, // 0.5 s after 5 s, and 1.5 s after 4 s
		{asked: at(31 * s), read: at(31005 * ms), samples: 10, sum: 103.5},
		{asked: at(31200 * ms), read: at(31205 * ms), samples: 11, sum: 104.6},
		{asked: at(40 * s), read: at(40005 * ms), samples: 11, sum: 104.6},
		{asked: at(40200 * ms), read: at(40205 * ms), samples: 12, sum: 114.7},
		// as long after the last trigger time, whose sample has come
	}
	p := tabulate("default/canary", changes, map[string][]reading{"node1": readings})
	want := map[string][3]int{ // changes, with a trigger time, samples
		"not-ready → ready":            {1, 1, 1},
		"absent → ready":               {1, 1, 1},
		"ready → terminating+serving":  {1, 0, 0},
		"absent → not-ready":           {1, 1, 1},
		"terminating+serving → absent": {1, 1, 0},
	}
	for _, r := range p.rows {
		if got := [3]int{r.changes, r.triggered, r.samples["node1"]}; got != want[r.kind] {
			t.Errorf("%s: %v, want %v", r.kind, got, want[r.kind])
		}
	}
	if len(p.rows) != len(want) || p.others.changes != 1 ||
		p.others.samples["node1"] != 1 || p.unexplained["node1"] != 1 {
		t.Errorf("%+v", p)
	}
	if !isAddition(p.rows[0].kind) || !isAddition(p.rows[1].kind) || !isRemoval(p.rows[2].kind) {
		t.Errorf("the order is %+v", p.rows)
	}
	table := p.table()
	for _, line := range []string{"| ready → terminating+serving | removal | 1 | 0 | 0 |",
		"| of other Services | | 1 | 1 | 1 |", "| that fit no change | | | | 1 |",
		"2 changes with an addition gave 2 samples on 1 nodes: 2 were possible. 1 changes with a removal gave 0 " +
			"samples on 1 nodes: 1 were possible."} {
		if !strings.Contains(table, line+"\n") {
			t.Errorf("no %q in\n%s", line, table)
		}
	}
}

func TestSampleOfAnotherTimeFitsNoChange(t *testing.T) {
	changes := []sliceChange{{kind: "absent → ready", trigger: at(5 * time.Second)}}
	for sum, fits := range map[float64]bool{0.9: false, 1.05: true, 1.3: false} { // written between 6 s and 6.2 s
		sampled, unexplained := attribute([]reading{{asked: at(6 * time.Second)},
			{read: at(6200 * time.Millisecond), samples: 1, sum: sum}}, changes)
		if sampled[0] != fits || unexplained == 1 == fits {
			t.Errorf("%v s after the trigger time: %v, %d unexplained", sum, sampled, unexplained)
		}
	}
}

// kube-proxy's count falls when it begins anew.
func TestCountThatFallsIsNoSample(t *testing.T) {
	if _, unexplained := attribute([]reading{{samples: 9, sum: 4}, {samples: 0}, {samples: 0}},
		nil); unexplained != 0 {
		t.Errorf("%d samples are unexplained", unexplained)
	}
}

func slice(version, annotations, endpoints string) drill.Change {
	return drill.Change{Type: "MODIFIED", Seen: at(time.Second),
		Object: []byte(`{"metadata": {"namespace": "default", "name": "canary-x", "resourceVersion": "` + version +
			`", "labels": {"kubernetes.io/service-name": "canary"}, "annotations": {` + annotations +
			`}}, "endpoints": [` + endpoints + `]}`)}
}

func pod(uid, conditions string) string {
	return `{"addresses": ["10.244.0.` + uid + `"], "conditions": {` + conditions +
		`}, "targetRef": {"kind": "Pod", "uid": "` + uid + `"}}`
}

func TestChangesOfEndpointsAreNamed(t *testing.T) {
	const (
		notReady    = `"ready": false, "serving": false, "terminating": false`
		isReady     = `"ready": true, "serving": true, "terminating": false`
		terminating = `"ready": false, "serving": true, "terminating": true`
		trigger     = `"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-23T09:05:07Z"`
	)
	l := newSliceLog()
	if err := l.begin([]byte(`{"items": [` + string(slice("1", trigger, pod("1", isReady)).Object) +
		`]}`)); err != nil {
		t.Fatal(err)
	}
	ended := slice("7", trigger, pod("2", isReady))
	ended.Type = "DELETED"
	for _, c := range []drill.Change{
		slice("1", trigger, pod("1", isReady)), // as it was
		slice("2", "", pod("1", terminating)),
		slice("3", trigger, pod("1", terminating)+", "+pod("2", notReady)),
		slice("4", trigger, pod("1", terminating)+", "+pod("2", isReady)+", "+pod("3",
			notReady)+", "+pod("4", notReady)),
		slice("5", "", pod("2", isReady)+", "+pod("3", notReady)+", "+pod("4", notReady)),
		slice("6", "", pod("2", isReady)+", "+pod("3", notReady)+", "+pod("4", notReady)),
		{Type: "MODIFIED", Seen: at(time.Second), Object: []byte(`{"metadata": {"namespace": "default", "name": "twin-x", "resourceVersion": "9", "annotations": {` + trigger +
			// kube-proxy does not watch it
			`}, "labels": {"kubernetes.io/service-name": "twin", "service.kubernetes.io/headless": ""}}, "endpoints": [` + pod("2", isReady) + `]}`)},
		ended,
	} {
		l.add(c)
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	want := []sliceChange{
		{kind: "ready → terminating+serving"},
		{kind: "absent → not-ready", trigger: at(7 * time.Second)},
		{kind: "absent → not-ready, not-ready → ready", trigger: at(7 * time.Second)},
		{kind: "terminating+serving → absent"},
		{kind: unchanged},
		{kind: "not-ready → absent, ready → absent"}, // what a deleted EndpointSlice carries is ignored
	}
	for i, w := range want {
		if i >= len(l.changes) || l.changes[i].kind != w.kind || !l.changes[i].trigger.Equal(w.trigger) ||
			l.changes[i].service != "default/canary" {
			t.Errorf("change %d: %+v, want %+v", i, l.changes[min(i, len(l.changes)-1)], w)
		}
	}
	if len(l.changes) != len(want) {
		t.Errorf("%d changes, want %d", len(l.changes), len(want))
	}
	for kind, want := range map[string][2]bool{want[0].kind: {false, true}, want[1].kind: {false, false},
		want[2].kind: {true, false}, want[5].kind: {false, true}} {
		if got := [2]bool{isAddition(kind), isRemoval(kind)}; got != want {
			t.Errorf("%s: an addition, a removal: %v, want %v", kind, got, want)
		}
	}
	l.add(slice("8", `"endpoints.kubernetes.io/last-change-trigger-time": "yesterday"`, ""))
	if l.add(slice("9", "", "")); l.err == nil {
		t.Error("a trigger time that is none is no error")
	}
}

func TestProgrammingIsReadWithItsLabels(t *testing.T) {
	const sync = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 3\n"
	metrics := `# TYPE kubeproxy_network_programming_duration_seconds histogram
kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0.25"} 4
kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"} 6.5
kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 4
kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv6"} 1.25e+00
kubeproxy_network_programming_duration_seconds_count{ip_family="IPv6"} 1
`
	if samples, sum, err := programmingIn(strings.NewReader(metrics + sync)); err != nil ||
		samples != 5 || sum != 7.75 {
		t.Errorf("%d samples, %v s, %v", samples, sum, err)
	}
	if samples, _, err := programmingIn(strings.NewReader(sync)); err != nil || samples != 0 {
		t.Errorf("it has no sample yet: %d, %v", samples, err)
	}
	if _, _, err := programmingIn(strings.NewReader("go_goroutines 3\n")); err == nil {
		t.Error("this is no kube-proxy")
	}
	if _, _, err := programmingIn(strings.NewReader(sync + programmingMetric + "_sum many\n")); err == nil {
		t.Error("this is no number")
	}
}
