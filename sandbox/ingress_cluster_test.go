//go:build cluster

package main

import (
	"strings"
	"testing"
)

const webIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: shop.example
    http: {paths: [{path: /none, pathType: Prefix, backend: {service: {name: none, port: {number: 80}}}}]}
  - http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`

// The ingress leads to the ready Pods, follows them at its interval and not before, runs on a node as well, and
// leaves nothing.
func TestIngress(t *testing.T) {
	r := newRig(t)
	r.up("--nodes", "2", "--ingress")
	r.apply(web)
	r.apply(webIngress)
	r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
	r.answersOutside("10.200.0.2", r.pods())
	addr := func() string {
		return r.kubectl("get", "ingress", "web", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
	}
	soon(t, "the address in the status", func() bool { return addr() == "10.200.0.2" })
	ask := func(host, path string) string {
		return r.must("exec", "outside", "--", "bash",
			"-c", `exec 3<>/dev/tcp/10.200.0.2/80; printf 'GET `+path+` HTTP/1.1\r\nHost: `+host+`\r\nConnection: close\r\n\r\n' >&3; head -1 <&3`)
	}
	for at, want := range map[string]string{"x/": "200", "shop.example/none/a": "503",
		"shop.example/nonesuch": "200"} {
		host, path, _ := strings.Cut(at, "/")
		if got := ask(host, "/"+path); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", at, got, want)
		}
	}
	if out, code := r.try("ingress", "up"); code != exitProblem || !strings.Contains(out, "up already") {
		t.Errorf("a second ingress up: exit %d, %s", code, out)
	}
	r.must("restart", "ingress")
	r.answersOutside("10.200.0.2", r.pods())
	kill(r.process(ingressProcess).PID)
	soon(t, "HAProxy ends with its controller", func() bool {
		_, code := r.try("exec", "outside", "--", "bash", "-c", "exec 3<>/dev/tcp/10.200.0.2/80")
		return code != 0
	})
	r.must("ingress", "down")
	if got := addr(); got != "" {
		t.Errorf("after ingress down the status has %q", got)
	}
	if out := r.must("ingress", "down"); !strings.Contains(out, "no ingress") {
		t.Errorf("the second ingress down says %q", out)
	}
	if out, code := r.try("ingress", "up", "--on", "node9"); code != exitProblem ||
		!strings.Contains(out, "node1 to node2") {
		t.Errorf("an unknown node: exit %d, %s", code, out)
	}

	// On a node, with an interval that it does not see the end of: it keeps what it has seen first.
	r.must("ingress", "up", "--on", "node2", "--reload-interval", "1h")
	soon(t, "the node's address in the status", func() bool { return addr() == "10.200.0.12" })
	before := r.pods()
	r.answersOutside("10.200.0.12", before)
	r.kubectl("rollout", "restart", "deployment/web")
	r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
	soon(t, "the Pods of before are gone", func() bool {
		return strings.Contains(r.must("exec", "outside", "--", "bash",
			"-c", `exec 3<>/dev/tcp/10.200.0.12/80; printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3; head -1 <&3`), "503")
	})
	if out := r.must("ingress", "status"); !strings.Contains(out, "reloaded 0 times") {
		t.Errorf("ingress status: %s", out)
	}
	kill(r.process(ingressProcess).PID) // and down, in the end, finds nothing of it
}
