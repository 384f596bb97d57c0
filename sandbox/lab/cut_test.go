package main

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	cutReport = `{"t0": "2026-01-02T03:04:05.25Z", "sources": [{"node": "node1"}],
"targets": [{"name": "web new", "kind": "new", "rate": 100}, {"name": "web reused", "kind": "reused", "rate": 100, "connections": 40},
	{"name": "web direct web-0", "kind": "direct", "pod": "lab/web-0", "podUID": "b", "rate": 100},
	{"name": "dns 10.200.0.1 of web", "kind": "direct", "url": "dns://10.200.0.1:53/web.lab", "rate": 10}],
"events": [
	{"seen": 1000000, "kind": "watch-lane", "to": "on", "object": {"kind": "Pod"}},
	{"seen": 1040000, "kind": "snapshot", "to": "found", "object": {"kind": "ReplicaSet", "name": "web-d4bbb879", "uid": "r"}, "detail": "Pod template",
		"snapshot": {"template": {"id": "t1", "grace": 30000000000, "containers": [{"name": "app", "readiness": {"period": 1000000000, "threshold": 3}}, {"name": "logs"}]}}},
	{"seen": 2000000, "kind": "pod-seen", "to": "Running", "object": {"kind": "Pod", "name": "web-d4bbb879-jsnhw", "uid": "a", "node": "node3"}, "owner": "ReplicaSet/web-d4bbb879"},
	{"seen": 3000000, "kind": "endpoint", "from": "absent", "to": "ready", "object": {"kind": "Pod", "name": "web-0", "uid": "b", "node": "node1"}},
	{"seen": 4000000, "kind": "pod-gone", "object": {"kind": "Pod", "name": "web-0", "uid": "c", "node": "node2"}},
	{"seen": 5000000, "kind": "kube-event", "to": "Pulled", "object": {"kind": "Pod", "name": "web-0", "uid": "b"}},
	{"seen": 700000000, "at": {"earliest": 300000000}, "kind": "node-check", "from": "healthy", "to": "unhealthy", "service": "lab/web", "object": {"kind": "Node", "name": "node2"}, "detail": "503"},
	{"seen": 900000000, "at": {"earliest": 400000000}, "kind": "watch-gap", "detail": "no sign of life"},
	{"seen": 950000000, "kind": "pod-container", "from": "running", "to": "terminated", "stamp": "2026-01-02T03:04:06Z", "exitCode": 137,
		"object": {"kind": "Pod", "name": "web-d4bbb879-jsnhw", "uid": "a", "node": "node3"}, "detail": "app Error"}]}`
	cutRequests = `target,kind,due,sent,done,class
web new,new,10000000,10000000,12000000,ok
web new,new,20000000,20000000,22000000,ok
web new,new,30000000,30000000,31000000,refused
web new,new,40000000,40000000,41000000,refused
web new,new,50000000,50000000,51000000,refused
web new,new,60000000,60000000,62000000,ok
web new,new,70000000,70000000,71000000,refused
web new,new,80000000,80000000,82000000,ok
web new,new,90000000,90000000,91000000,refused
web new,new,100000000,,,notsent
web reused,reused,15000000,15000000,17000000,ok
web reused,reused,25000000,26000000,125000000,eof
web reused,reused,35000000,35000000,125000000,eof
dns 10.200.0.1 of web,direct,10000000,10000000,11000000,ok
web direct web-0,direct,10000000,10000000,11000000,ok
web direct web-0,direct,50000000,50000000,850000000,timeout_connect
web direct web-0,direct,60000000,60000000,860000000,timeout_connect
`
	cutCase = `A server is killed.
The facts of a run of the lab: lab-1/iptables/pod-crashed/1.
-- nodes --
web-0 node3
web-0b node2
web-jsnhw node1
-- requests --
new: every 10ms 260ms..360ms ok in 2ms
new: 280ms..310ms refused in 1ms
new: at 320ms 340ms refused in 1ms
new: at 350ms notsent in 1µs
reused: every 10ms 265ms..295ms ok in 2ms over 40
reused: at 275ms eof in 100ms
reused: at 285ms eof in 90ms
direct dns 10.200.0.1: every 10ms 260ms..270ms ok in 1ms
direct web-0: every 10ms 260ms..320ms ok in 1ms
direct web-0: 300ms..320ms timeout_connect in 800ms
-- events --
251ms snapshot Template/web-d4bbb879 found id=t1 grace=30s servers=app others=logs readiness=1sx3 : Pod template
252ms pod-seen web-jsnhw Running owner=ReplicaSet/web-d4bbb879
253ms endpoint web-0 absent -> ready
254ms pod-gone web-0b
950ms node-check node2 healthy -> unhealthy since=550ms service=shop/web : 503
1.15s watch-gap - since=650ms : no sign of life
1.2s pod-container web-jsnhw running -> terminated stamp=1s exit=137 : app Error
`
)

// The prober is on node3, a second Pod of a name has another one, and times count from a whole second.
func TestCaseIsCutFromARun(t *testing.T) {
	dir := t.TempDir()
	lapse := filepath.Join(dir, "lapse")
	script := "#!/bin/sh\nif [ $1 = report ]; then cat <<'E'\n" + cutReport + "\nE\nexit 3\nfi\ncat <<'E'\n" + cutRequests + "E\n"
	if err := os.WriteFile(lapse, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := result{scenario: Scenario{Name: "pod-crashed", Comment: "A server is killed.\n\nRow 1."}}
	r.run.Dir = "/runs/lab-1/iptables/pod-crashed/1/run"
	calm := result{scenario: Scenario{Name: "control-cordon", Expect: Expectation{NoFailure: true}}}
	if err := cutCases(t.Context(), lapse, dir, []result{calm, r}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "lab_pod_crashed.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != cutCase {
		t.Errorf("got\n%s\nwant\n%s", got, cutCase)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.txtar")); len(files) != 1 {
		t.Errorf("cases %v: a run that loses nothing is none", files)
	}
}
