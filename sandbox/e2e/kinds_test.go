//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// serve deploys a workload, and Services before its Pods whose YAML names the namespace NAMESPACE.
func serve(t *testing.T, c *drill.Cluster, w drill.Workload, yaml string) drill.Workload {
	t.Helper()
	w = deploy(t, c, w)
	if err := c.Apply(t.Context(), strings.ReplaceAll(yaml, "NAMESPACE", w.Namespace)); err != nil {
		t.Fatal(err)
	}
	return w
}

// asked runs Lapse on a target while a Pod of the workload is deleted.
func asked(t *testing.T, c *drill.Cluster, w drill.Workload, target string, args ...string) drill.Run {
	t.Helper()
	pods, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app=web", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	dir := runDir(t)
	args = append([]string{"run", target, "-n", w.Namespace, "--out", dir, "--rate=100",
		"--baseline=2s", "--settle=8s"}, args...)
	run, err := c.Command(t.Context(), append(args, "--", "kubectl", "-n", w.Namespace, "delete", "--wait=false",
		strings.Fields(pods)[0])...).Finish(dir)
	return checked(t, c, run, err)
}

const nodePortAndHeadless = `
apiVersion: v1
kind: Service
metadata: {name: ports, namespace: NAMESPACE}
spec:
  type: NodePort
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: NAMESPACE}
spec:
  clusterIP: None
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
`

// The node port of every node is measured beside the cluster IP, each as a target of its own, and what a node did
// late is said of that node.
func TestNodePortOfEveryNodeIsMeasured(t *testing.T) {
	c := cluster(t)
	w := serve(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}}, nodePortAndHeadless)
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := asked(t, c, w, "svc/ports?route=clusterip,nodeport", "--target=new")
	var of []string
	for _, target := range run.Timeline.Targets {
		if target.RouteNode != "" {
			of = append(of, target.RouteNode)
			if want := "ports nodeport " + target.RouteNode + " new"; target.Name != want || target.OK == 0 {
				t.Errorf("target %+v, want %q with answers", target, want)
			}
		}
	}
	if !slices.Equal(of, nodes) {
		t.Errorf("asked the ports of %q, want those of %q", of, nodes)
	}
	if target(t, run, "ports clusterip new").OK == 0 {
		t.Error("the cluster IP was not asked")
	}
	if len(run.Timeline.Run.Services) != 1 || len(run.Timeline.Run.Services[0].NotCovered) != 0 {
		t.Errorf("services %+v, want nothing that a pass does not cover", run.Timeline.Run.Services)
	}
	for _, window := range run.Timeline.Windows {
		if strings.HasPrefix(window.Target, "ports nodeport ") {
			saidOfItsNode(t, window)
		}
	}
}

// saidOfItsNode fails the test if the routes of another node than the one whose port was asked are blamed.
func saidOfItsNode(t *testing.T, window drill.Window) {
	t.Helper()
	node, cause := strings.Fields(window.Target)[2], window.Causes[0]
	if cause.Rule == routeOutlivesPod && !strings.HasPrefix(cause.Text, "the routes of "+node+" still led to ") {
		t.Errorf("%s: %q, want it to be said of %s", window.Target, cause.Text, node)
	}
}

// Of a headless Service each address has its share of the connections, also that of a Pod that is deleted: until its
// name has it no more, they fail, and no node is to blame.
func TestHeadlessServiceIsMeasuredByItsName(t *testing.T) {
	c := cluster(t)
	w := serve(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}}, nodePortAndHeadless)
	run := asked(t, c, w, "svc/peers", "--fail-if=failed>0")
	fresh := target(t, run, "peers new")
	if !fresh.Turns || fresh.OK == 0 {
		t.Errorf("target %+v: want one whose connections go to each address", fresh)
	}
	if len(run.Timeline.Run.Services) != 1 || !slices.ContainsFunc(run.Timeline.Run.Services[0].NotCovered,
		func(s string) bool { return strings.Contains(s, "headless") }) {
		t.Errorf("services %+v, want it said what a pass does not cover", run.Timeline.Run.Services)
	}
	for _, window := range run.Timeline.Windows {
		if slices.ContainsFunc(window.Causes, func(c drill.Cause) bool {
			return c.Rule == routeOutlivesPod || c.Rule == "kube-proxy-late"
		}) {
			t.Errorf("window %+v: no node routes to the Pods of a headless Service", window)
		}
	}
	if fresh.Failed == 0 {
		t.Error("no connection met the Pod that had ended: CoreDNS keeps an answer for 5 s")
	} else if len(run.Timeline.CausedBy("stale-address")) == 0 {
		t.Errorf("windows %+v: want the stale address named", run.Timeline.Windows)
	}
}

// A Service without a selector is measured by the EndpointSlice that somebody made, its endpoint also at its own
// address.
func TestServiceWithoutSelectorIsMeasured(t *testing.T) {
	c := cluster(t)
	w := serve(t, c, drill.Workload{Replicas: 1}, `
apiVersion: v1
kind: Service
metadata: {name: hand, namespace: NAMESPACE}
spec:
  ports:
  - {name: http, port: 80}
`)
	addr, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app=web",
		"-o", "jsonpath={.items[0].status.podIP}")
	if err != nil {
		t.Fatal(err)
	}
	addr = strings.TrimSpace(addr)
	made := map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": map[string]any{"name": "hand-1", "namespace": w.Namespace,
			"labels": map[string]string{"kubernetes.io/service-name": "hand"}},
		"ports":     []any{map[string]any{"name": "http", "port": 8080}},
		"endpoints": []any{map[string]any{"addresses": []string{addr}}},
	}
	yaml, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(context.WithoutCancel(t.Context()), string(yaml)); err != nil {
		t.Fatal(err)
	}
	if err := c.Routed(t.Context(), w.Namespace, "hand"); err != nil {
		t.Fatal(err)
	}
	dir := runDir(t)
	run, err := c.Command(t.Context(), "run", "svc/hand", "-n", w.Namespace, "--out", dir, "--rate=100",
		// 5 s: longer than this machine stands still
		"--duration=3s", "--timeout=5s", "--fail-if=failed>0").Finish(dir)
	run = checked(t, c, run, err)
	if run.Timeline.Verdict.Failed != 0 || target(t, run, "hand new").OK == 0 ||
		target(t, run, "hand direct "+addr+":8080").OK == 0 {
		t.Errorf("targets %+v: want answers of the Service and of its endpoint", run.Timeline.Targets)
	}
}

// A drain is measured from within and, through the node ports, from a machine that is no node: all on one timeline.
// The coordinator's recording has it whole.
func TestServiceIsMeasuredFromOutside(t *testing.T) {
	c := cluster(t)
	w := serve(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}}, nodePortAndHeadless)
	pods, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app=web", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	server, err := c.Kubectl(t.Context(), "-n", "default", "get", "endpointslices", "kubernetes",
		"-o", "jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}")
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// The control plane's network is the machine outside: the nodes' addresses lead there, and the relay to the API
	// server does not.
	outside := filepath.Join(t.TempDir(), "kubeconfig")
	config = regexp.MustCompile(`https://127\.0\.0\.1:\d+`).ReplaceAll(config,
		[]byte("https://"+strings.TrimSpace(server)))
	if err := os.WriteFile(outside, config, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := runDir(t)
	cmd := c.Command(t.Context(), "--dir", c.Dir, "exec", "cp", "--", c.Lapse, "run", "svc/ports",
		"--kubeconfig", outside, "-n", w.Namespace, "--from=outside",
		"--out", dir, "--rate=100", "--baseline=2s", "--settle=4s", "--", "kubectl", "--kubeconfig", outside,
		"-n", w.Namespace, "delete", "--wait=false", strings.Fields(pods)[0])
	cmd.Path = filepath.Join(c.Dir, "bin", "sandbox")
	run, err := cmd.Finish(dir)
	run = checked(t, c, run, err)
	from := map[string]int{}
	for _, target := range run.Timeline.Targets {
		if target.RouteNode != "" {
			from[target.RouteNode]++
			if !strings.HasSuffix(target.Name, " from outside") || target.Node != "" ||
				target.OK == 0 || target.Coverage < 0.5 {
				t.Errorf("target %+v: want one from outside that was answered", target)
			}
		}
	}
	if len(from) != 3 || target(t, run, "ports new").OK == 0 || target(t, run, "control from outside").OK == 0 {
		t.Errorf("asked from outside: %v; want new and reused of every node, and the cluster IP from within", from)
	}
	if run.Timeline.Run.Aborted != "" {
		t.Errorf("aborted: %s", run.Timeline.Run.Aborted)
	}
	for _, window := range run.Timeline.Windows {
		if strings.HasSuffix(window.Target, " from outside") {
			saidOfItsNode(t, window)
		}
	}
}
