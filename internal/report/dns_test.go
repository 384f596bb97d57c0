package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/internal/report/routes"
)

// dnsRun is a run whose routes followed a removal within 200 ms, and one DNS server it within 950 ms, 2 s and 3 s; of
// an addition one server has no answer that tells.
func dnsRun() *model.Timeline {
	length := func(least, most time.Duration) *model.Length { return &model.Length{Min: least, Max: most} }
	const ms = time.Millisecond
	return &model.Timeline{
		Verdict: model.Verdict{Result: model.Pass},
		Routes:  []model.Route{{Change: model.Removal, Event: 1, Pod: "canary-1", Node: "node1", Lag: *length(180*ms, 200*ms)}},
		DNS: &model.DNS{Name: "twin.", Servers: []model.DNSServer{{
			Addr: "10.244.1.2", Pod: "kube-system/coredns-1", Node: "node1", Asked: 900, Answered: 900, TTL: length(time.Second, 5*time.Second),
			Changes: []model.DNSChange{
				{Change: model.Removal, Event: 1, Lag: length(1950*ms, 2050*ms)}, {Change: model.Removal, Event: 2, Lag: length(900*ms, 1000*ms)},
				{Change: model.Removal, Event: 3, Lag: length(2950*ms, 3050*ms)}, {Change: model.Addition, Event: 4, Lag: length(0, 40*ms)},
			},
		}, {
			Addr: "10.244.2.3", Asked: 900, Answered: 880, TTL: length(30*time.Second, 30*time.Second), Why: "SERVFAIL",
			Changes: []model.DNSChange{
				{Change: model.Removal, Event: 1, Lag: length(100*ms, 140*ms)}, {Change: model.Removal, Event: 2}, {Change: model.Addition, Event: 4},
			},
		}}},
	}
}

func wordsOf(t *testing.T, tl *model.Timeline) string {
	t.Helper()
	var out strings.Builder
	if err := routes.Print(&out, tl, "runs/x", document.Screen{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// Each DNS server has a row for removals and one for additions, with the TTL of its answers. What no answer tells is
// unobserved. What a sleep must cover for clients that look up names is their own sentence.
func TestDNSLagOfEachServer(t *testing.T) {
	tl := dnsRun()
	got := wordsOf(t, tl)
	for _, want := range []string{
		"DNS: REMOVED, FROM THE DELETION CHANGES MIN MEDIAN MAX TTL 10.244.1.2 coredns-1 on node1 3 950 ms ±50 2.00 s ±0.05 3.00 s ±0.05 1 s to 5 s",
		"10.244.2.3 1 of 2 120 ms ±20 120 ms ±20 120 ms ±20 30 s",
		"DNS: ADDED, FROM ITS ENDPOINT CHANGES MIN MEDIAN MAX TTL 10.244.1.2 coredns-1 on node1 1 ≤ 40 ms ≤ 40 ms ≤ 40 ms 1 s to 5 s 10.244.2.3 0 of 1 unobserved",
		"10.244.2.3: 20 of 900 queries were not answered (last: SERVFAIL).",
		"That is the longest of 1 removal × 1 node. The margin allows for kube-proxy's minSyncPeriod: 1 s is assumed, as its ConfigMap could not be read or has none. Clients that look up a headless Service's name themselves: " +
			"DNS gave a deleted Pod's address for up to 3.05 s, and they may keep an answer for its TTL of up to 30 s. A sleep of 34 s covers both. Of 1 further removal nothing is known.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	var document bytes.Buffer
	if err := Markdown(&document, tl, Options{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(document.String()), " ")
	for _, want := range []string{"10.244.1.2 coredns-1 on node1", "3.00 s ±0.05", "1 of 2", "unobserved", "(last: SERVFAIL)", "DNS gave a deleted Pod's address for up to 3.05 s"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the document\n%s", want, text)
		}
	}
}

// Where DNS was not seen to follow, no sleep is known to be long enough. Where the sleep that routes need covers DNS
// and its TTL too, there is nothing to add.
func TestDNSAdvice(t *testing.T) {
	tl := dnsRun()
	tl.DNS.Servers[0].Changes[2].Open = true
	if got := wordsOf(t, tl); !strings.Contains(got, "of 4 removals DNS was not seen to follow 1, so no preStop sleep is known to be long enough.") || strings.Contains(got, "covers both") || !strings.Contains(got, "not seen to end") {
		t.Errorf("open:\n%s", got)
	}
	tl = dnsRun()
	tl.Routes[0].Lag = model.Length{Min: 33 * time.Second, Max: 34 * time.Second}
	if got := wordsOf(t, tl); strings.Contains(got, "Clients that look up") {
		t.Errorf("routes take longer:\n%s", got)
	}
}

// Where no server was asked, the tables are those of the nodes, and why is said. A run of another kind has no word of
// DNS.
func TestDNSThatWasNotAskedIsSaid(t *testing.T) {
	tl := dnsRun()
	tl.DNS = &model.DNS{NotAsked: "no right to list the EndpointSlices of namespace kube-system"}
	got := wordsOf(t, tl)
	if !strings.Contains(got, "DNS lag is not measured: no right to list the EndpointSlices of namespace kube-system.") || strings.Contains(got, "DNS:") || !strings.Contains(got, "serve on for 2 s") {
		t.Errorf("not asked:\n%s", got)
	}
	tl.DNS = nil
	if got := wordsOf(t, tl); strings.Contains(got, "DNS") {
		t.Errorf("never asked for:\n%s", got)
	}
}
