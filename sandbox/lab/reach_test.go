package main

import (
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

func TestReachSaysWhatWasMeasured(t *testing.T) {
	played := func(name, manifest string, targets ...drill.Target) result {
		r := result{scenario: Scenario{Name: name, Manifest: manifest}, names: []named{{right, "pod-crashed", "pod-crashed", "high"}}}
		r.run.Timeline.Targets = targets
		return r
	}
	target := func(kind, url, route string) drill.Target {
		return drill.Target{Kind: kind, URL: url, Route: route, Service: "lab/web"}
	}
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: "
	other := "apiVersion: v1\nkind: Service\nmetadata: {name: other}\nspec: {type: LoadBalancer}\n---\n"
	headless := target("new", "http://web.lab:80/", "")
	headless.Turns = true
	balanced := played("balanced", service+"{type: LoadBalancer, externalTrafficPolicy: Local}", drill.Target{Kind: "new", URL: "http://10.0.0.9/"})
	balanced.scenario.Outside.Balancer = []string{}
	balanced.checks = []check{{false, "silence", "noise"}}
	doc := reachDocument([]result{
		played("ports", service+"{type: NodePort, selector: {app: web}}", target("new", "http://web/", "clusterip"), target("new", "http://10.0.0.1:30000/", "nodeport"), target("reused", "http://web/", "clusterip"), target("control", "http://127.0.0.1/", "")),
		played("names", other+service+"{clusterIP: None}", headless, target("held", "grpc://web.lab:80/", "")),
		balanced,
	})
	for _, want := range []string{
		"| NodePort | clusterip, nodeport | http | new, reused | [ports](reach/ports.txt) | right | pod-crashed high |\n",
		"| headless, no selector | headless, clusterip | http, grpc | new, held | [names](reach/names.txt) | right | pod-crashed high |\n",
		"| LoadBalancer, no selector, externalTrafficPolicy Local | URL of the load balancer | http | new | [balanced](reach/balanced.txt) | right, not all held | pod-crashed high |\n",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("lacks %q:\n%s", want, doc)
		}
	}
}
