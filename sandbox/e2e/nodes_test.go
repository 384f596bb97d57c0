//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

// A drain is seen from every node, also from the one that is drained. The kube-proxy of one node stands still: its
// routes outlive the Pod, and those of the others do not.
func TestEveryNodesRoutesAreMeasured(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}})
	drained, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := nodes[slices.IndexFunc(nodes, func(n string) bool { return n != drained })]
	watch, err := truth.Begin(t.Context(), c, w)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	args := []string{"--from=all", "--rate=300", "--baseline=2s", "--settle=5s", "--avoid-node=" + drained, "--"}
	run := measure(t, c, w, append(args, staleRoutes(t, c, w, podOn(t, c, w, drained),
		"kubectl drain "+drained+" --ignore-daemonsets", late)...)...)
	if run.ExitCode != 0 && run.ExitCode != 4 { // a prober may have stood still for longer than a node may
		t.Errorf("exit code %d, want 0, or 4 where a node observed too little: no gate was given", run.ExitCode)
	}
	for _, node := range nodes {
		if measured := target(t, run, "web new from "+node); measured.Node != node ||
			measured.OK == 0 || measured.Rate != 100 {
			t.Errorf("%s: measured from %q at %v/s, %d answers",
				measured.Name, measured.Node, measured.Rate, measured.OK)
		}
		routed, err := watch.Routed(node)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range run.Timeline.Routes {
			at, known := routed[r.Pod]
			if r.Node != node || r.Change != "removal" || !known {
				continue
			}
			earliest, latest := run.Timeline.T0.Add(r.Changed.Earliest), run.Timeline.T0.Add(r.Changed.Latest)
			t.Logf("%s at %s: %v to %v, truth %v to %v", r.Pod, node, earliest, latest, at.Earliest, at.Latest)
			if at.Latest.Before(earliest) || latest.Before(at.Earliest) {
				t.Errorf("the routes of %s to %s changed between %v and %v, and are said to have between %v and %v",
					node, r.Pod, at.Earliest, at.Latest, earliest, latest)
			}
			if node == late && run.Timeline.WithoutStandstills(r.Changed.Earliest, r.Changed.Latest) > time.Second {
				t.Errorf("the routes of %s are known no better than from %v to %v", node, earliest, latest)
			}
		}
		if !slices.ContainsFunc(run.Timeline.Routes,
			func(r drill.Route) bool { return r.Node == node && r.Change == "removal" }) {
			t.Errorf("nothing is said of the routes of %s: %+v", node, run.Timeline.Routes)
		}
	}
	left, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "daemonsets,secrets,jobs", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(left) != "" {
		t.Errorf("left behind: %q", left)
	}
}

// `lapse routes` brings a Service of its own: no request fails, every node is seen to follow every change, and the
// node whose kube-proxy stands still until 5 s after a change is the one that takes as long. Nothing is left behind.
func TestRoutesAreMeasuredWithoutHarm(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1})
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const changes, removed = 3, 5 // the second change is of three Pods at once
	dir := runDir(t)
	late := nodes[len(nodes)-1]
	pids, err := c.PIDs("kube-proxy", late)
	if err != nil {
		t.Fatal(err)
	}
	resume := func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	told, pause := 0, time.AfterFunc(time.Hour, func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	})
	t.Cleanup(func() {
		pause.Stop()
		resume()
	})
	out := lapseTelling(t, c, func(line string) {
		switch { // the second change is made 4 s after the first, or later, and its endpoint leaves at once
		case told == 0 && strings.Contains(line, "change 1 of "):
			told = 1
			pause.Reset(3 * time.Second)
		case told == 1 && strings.Contains(line, "change 2 of "):
			told = 2
			time.AfterFunc(5*time.Second, resume)
		}
	}, "routes", "-n", w.Namespace, "--changes", strconv.Itoa(changes), "--rate", "100", "--out", dir)
	t.Log(out)
	timeline, err := drill.ReadTimeline(dir)
	if err != nil {
		t.Fatal(err)
	}
	if lost := timeline.Lost(); lost > 0 {
		t.Errorf("%d requests failed", lost)
	}
	asked := 0
	for _, e := range timeline.Events {
		if e.Kind == "deletion-asked" {
			asked++
		}
	}
	if asked != removed {
		t.Errorf("%d deletions are on record, of %d", asked, removed)
	}
	longest := map[string]time.Duration{} // at least, by node
	removals := map[string]int{}
	for _, r := range timeline.Routes {
		if r.Change != "removal" {
			continue
		}
		if r.Asked == nil {
			t.Errorf("%s at %s: when its deletion was asked for is not known", r.Pod, r.Node)
			continue
		}
		removals[r.Node]++
		longest[r.Node] = max(longest[r.Node], timeline.WithoutStandstills(r.Asked.Latest, r.Changed.Earliest))
	}
	for _, node := range nodes {
		if removals[node] != removed {
			t.Errorf("%d removals are known of %s, want %d", removals[node], node, removed)
		}
		if slow := longest[node] > 3*time.Second; slow != (node == late) {
			t.Errorf("the routes of %s took ≥ %v; kube-proxy of %s stood still for 5 s", node, longest[node], late)
		}
	}
	// CoreDNS follows when its cache lets it go: after 5 s at most. The last removal is watched for longer than that.
	if timeline.DNS == nil || timeline.DNS.NotAsked != "" || len(timeline.DNS.Servers) != 1 {
		t.Fatalf("the DNS servers that were asked: %+v", timeline.DNS)
	}
	dns := timeline.DNS.Servers[0]
	if dns.TTL == nil || dns.TTL.Max > 5*time.Second || dns.Answered < dns.Asked*9/10 ||
		!strings.Contains(out, "DNS: REMOVED") || !strings.Contains(out, dns.Addr) {
		t.Errorf("%+v", dns)
	}
	still := timeline.Run.Duration - timeline.WithoutStandstills(0, timeline.Run.Duration)
	followed := 0
	for _, change := range dns.Changes {
		if change.Change == "removal" && change.Lag != nil && !change.Open && change.Lag.Max < 7*time.Second+still {
			followed++
		}
	}
	if followed != removed {
		t.Errorf("DNS was seen to follow %d removals within 7 s and %v of standstill, want %d: %+v",
			followed, still, removed, dns.Changes)
	}
	for _, want := range []string{"REMOVED ALONE", "REMOVED WITH OTHERS", "So that a drain here loses nothing: serve on for ",
		"1 s is assumed, as its ConfigMap"} { // the sandbox has none
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	left, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "daemonsets,secrets,jobs,services,deployments",
		"-l", "app.kubernetes.io/managed-by=lapse", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(left) != "" {
		t.Errorf("left behind: %q", left)
	}
}

// lapseTelling runs the binary, hands on each line that it says on standard error, and returns what it prints.
func lapseTelling(t *testing.T, c *drill.Cluster, said func(line string), args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Lapse, args...)
	cmd.Env = c.Env()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		t.Log(lines.Text())
		said(lines.Text())
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 4 {
		t.Fatalf("lapse %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	return out.String()
}
