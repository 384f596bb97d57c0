package correlate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lapse/correlate/model"
)

// twoStop is a run of an ingress that follows each change 3 s late: web-1 stops at 10 s, and web-2 at 13 s.
const twoStop = `
-- url --
http://shop.example.com/ new
-- requests --
new: every 5ms 0s..24s ok by web-3
new: 10.003s..13.003s http_5xx 1 of 3
new: 13.003s..16s http_5xx 1 of 2
reused: every 5ms 0s..24s ok by web-3
direct web-1: every 5ms 0s..12.5s ok
direct web-1: 10.001s.. refused
direct web-2: every 5ms 0s..15.5s ok
direct web-2: 13.001s.. refused
direct web-3: every 5ms 0s..24s ok
-- events --
0s     pod-seen web-1 Running : listed
0s     pod-ready web-1 true
0s     endpoint web-1 ready
0s     pod-seen web-2 Running : listed
0s     pod-ready web-2 true
0s     endpoint web-2 ready
0s     pod-seen web-3 Running : listed
0s     pod-ready web-3 true
0s     endpoint web-3 ready
9.98s  pod-deleted web-1 grace=30s
9.985s endpoint web-1 ready -> terminating
11.5s  pod-gone web-1
12.98s pod-deleted web-2 grace=30s
12.985s endpoint web-2 ready -> terminating
14.5s  pod-gone web-2
`

// What leads requests to Pods follows each change 3 s late. Another Pod stops, or another node goes, while it is late
// with the first. The window is of both; how late it was with the first one is 3 s all the same.
func TestALagDoesNotEndWithAnother(t *testing.T) {
	const truth = 3 * time.Second
	for name, text := range map[string]string{
		"ingress-lag": twoStop,
		"lb-lag": `
-- requests --
new by clusterip: every 5ms 0s..20s ok
new by loadbalancer from outside: every 5ms 0s..20s ok
new by loadbalancer from outside: 8s..14s timeout_connect 1 of 3
direct web-1: every 10ms 0s..20s ok
-- nodes --
web-1 node1
-- events --
0s     snapshot Service/web found : selects app=web
0s     pod-seen web-1 Running : listed
0s     pod-ready web-1 true
0s     endpoint web-1 ready
0.1s   node-check Node/node1 healthy : 200 OK
0.4s   node-check Node/node2 healthy : 200 OK
0.8s   node-check Node/node3 healthy : 200 OK
8.1s   node-check Node/node2 healthy -> unanswered since=7.9s : context deadline exceeded
11.1s  node-check Node/node3 healthy -> unanswered since=10.9s : context deadline exceeded
`} {
		tl := judgeCase(t, txtar.Parse([]byte(text)))
		if len(tl.Windows) != 1 {
			t.Fatalf("%s: windows: %+v", name, tl.Windows)
		}
		var lags []model.Length
		for _, m := range tl.Windows[0].Causes[0].Measures {
			if m.Name == name && (m.Object == "web-1" || m.Object == "node2") {
				lags = append(lags, m.Length)
			}
		}
		if len(lags) != 1 || lags[0].Min > truth || lags[0].Max < truth || lags[0].Min < truth/2 {
			t.Errorf("%s: it was %v late, and is said to be %v: %s", name, truth, lags, tl.Windows[0].Causes[0].Text)
		}
	}
}

// The ingress had taken out web-2, which left first and served on for long, before it stopped just after web-1: what it
// still sent was sent to web-1.
func TestThePodThatLeftLastIsTheOneAnIngressStillSendsTo(t *testing.T) {
	archive := txtar.Parse([]byte(strings.NewReplacer("direct web-1: 10.001s", "direct web-1: 9.501s", "9.98s", "9.48s",
		"9.985s", "9.485s", "direct web-2: 13.001s", "direct web-2: 10.001s", "12.98s", "6.5s", "12.985s", "6.6s",
		"new: 13.003s..16s http_5xx 1 of 2\n", "").Replace(twoStop)))
	const truth = 3500 * time.Millisecond
	c := judgeCase(t, archive).Windows[0].Causes[0]
	if len(c.Measures) != 1 || c.Measures[0].Object != "web-1" || c.Measures[0].Length.Min > truth ||
		c.Measures[0].Length.Max < truth {
		t.Errorf("it was %v late with web-1, and is said to be %+v: %s", truth, c.Measures, c.Text)
	}
	if !slices.ContainsFunc(c.Evidence, func(e model.Evidence) bool {
		return strings.Contains(e.Text, "web-2 stopped as well")
	}) {
		t.Errorf("that web-2 stopped as well is not mentioned: %+v", c.Evidence)
	}
}
