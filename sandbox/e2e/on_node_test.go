//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// A drain is measured at every Service with endpoints on the node, in two namespaces, and at no other. The one that
// has both replicas there loses more than the one whose other replica stays.
func TestEveryServiceOfANodeIsMeasured(t *testing.T) {
	c := cluster(t)
	spread := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "exit"}})
	drained, err := c.NodeOf(t.Context(), spread)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := nodes[slices.IndexFunc(nodes, func(n string) bool { return n != drained })]
	both := drill.Workload{Namespace: spread.Namespace + "-2", Name: "both", Node: drained, Replicas: 2,
		Args: []string{"--on-sigterm", "exit"}}
	away := drill.Workload{Namespace: spread.Namespace + "-3", Name: "away", Node: other, Replicas: 1}
	deployBeside(t, c, both)
	deployBeside(t, c, away)
	dir := runDir(t)
	run, err := c.Command(t.Context(), "run", "--on-node", drained, "--total-rate=400", "--baseline=2s",
		"--settle=5s", "--out", dir,
		"--", "kubectl", "drain", drained, "--ignore-daemonsets").Finish(dir)
	run = checked(t, c, run, err)
	if run.ExitCode != 0 {
		t.Errorf("exit code %d, want 0: no gate was given", run.ExitCode)
	}
	var names []string
	for _, s := range run.Timeline.Services {
		names = append(names, s.Name)
		if s.Verdict == nil || s.Verdict.Sent == 0 || s.Name == both.Namespace+"/both" && s.Verdict.Incidents == 0 {
			t.Errorf("%s: verdict %+v", s.Name, s.Verdict)
		}
	}
	if want := []string{both.Namespace + "/both", spread.Namespace + "/web"}; !slices.Equal(names, want) {
		t.Errorf("measured, the worst first: %q, want %q", names, want)
	}
	if i := slices.Index(names, both.Namespace+"/both"); i >= 0 && run.Timeline.Services[i].Verdict != nil &&
		run.Timeline.Services[i].Verdict.Failed == 0 {
		t.Error("no request to the Service that lost both endpoints failed")
	}
	if slices.ContainsFunc(run.Timeline.Run.SetAside,
		func(s drill.SetAside) bool { return s.Namespace != "kube-system" && s.Namespace != "default" }) {
		t.Errorf("set aside: %+v", run.Timeline.Run.SetAside)
	}
	left, err := c.Kubectl(t.Context(), "get", "roles,rolebindings,clusterroles,clusterrolebindings,jobs", "-A",
		"-l", "lapse.dev/run", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(left) != "" {
		t.Errorf("left behind: %q", left)
	}
}
