package spec

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lapse/timeline"
)

// The Job keeps off the nodes that the command takes Pods from, as kubectl reads its words; where they do not tell,
// that is said.
func TestNodesThatACommandDrainsAreKnownOrAskedFor(t *testing.T) {
	script := filepath.Join(t.TempDir(), "upgrade.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nkubectl drain node1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	nodes := func(names ...string) drained { return drained{nodes: names} }
	unknown := drained{unknown: "?"}
	for line, want := range map[string]drained{
		"kubectl drain node1":                                                  nodes("node1"),
		"kubectl drain node1 node3 --ignore-daemonsets":                        nodes("node1", "node3"),
		"/usr/bin/kubectl --context prod -n shop drain node/node1 nodes/n2":    nodes("node1", "n2"),
		"kubectl drain --grace-period 5 --timeout=1m --pod-selector a=b node1": nodes("node1"),
		"kubectl drain --dry-run=client node1":                                 nodes("node1"),
		"kubectl drain --dry-run client node1":                                 nodes("client", "node1"), // as kubectl reads it
		"kubectl drain node1 --ignore-daemonsets -v 6 --force":                 nodes("node1"),
		"kubectl -n drain get pods":                                            {},
		"kubectl get pods drain":                                               {},
		"kubectl rollout restart deploy/web":                                   {},
		"kubectl delete pod node1":                                             {},
		"kubectl delete node node1 node2":                                      nodes("node1", "node2"),
		"kubectl delete nodes/node1 pod/x no/node2":                            nodes("node1", "node2"),
		"kubectl delete node --all":                                            unknown,
		"kubectl delete node -l zone=a --wait=false":                           {selector: "zone=a"},
		"kubectl cordon node1":                                                 nodes("node1"),
		"kubectl uncordon node1":                                               {},
		"kubectl drain -l zone=a --ignore-daemonsets":                          {selector: "zone=a"},
		"kubectl drain --selector=zone=a":                                      {selector: "zone=a"},
		"kubectl taint nodes node1 node2 down=now:NoExecute":                   nodes("node1", "node2"),
		"kubectl taint node node1 down=now:NoSchedule":                         {},
		"kubectl drain --unheard-of x node1":                                   unknown,
		"kubectl drain":                                                        unknown,
		"kubectl node-drainer node1":                                           unknown,
		"k drain node1":                                                        nodes("node1"),
		"oc adm drain node1 --force":                                           nodes("node1"),
		"sudo -u admin kubectl drain node1":                                    nodes("node1"),
		"env KUBECONFIG=x timeout 60 kubectl drain node1":                      nodes("node1"),
		"sh -c 'kubectl drain node1'":                                          unknown,
		"/bin/bash upgrade":                                                    unknown,
		script:                                                                 unknown,
		"nodepool-tool drain pool-1":                                           unknown,
		"sleep 5":                                                              {},
		"helm upgrade web ./chart":                                             {},
	} {
		got := drains(timeline.SplitCommand(line))
		if (got.unknown == "") != (want.unknown == "") || !slices.Equal(got.nodes, want.nodes) || got.selector != want.selector {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}

// Preflight is told which node the command drains, where it names exactly one.
func TestTheDrainedNodeIsKnownToPreflight(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl drain node2 --ignore-daemonsets": "node2", "kubectl drain node1 node2": "", "kubectl drain -l pool=old": "", "kubectl rollout restart deploy/web": "", "./upgrade.sh": "", "": "",
	} {
		o := &Options{Command: timeline.SplitCommand(command)}
		if err := checkPreflight(o); err != nil || o.Drains != want {
			t.Errorf("%q drains %q, want %q (%v)", command, o.Drains, want, err)
		}
	}
	agent := &Options{Spec: Spec{Drains: "node2"}}
	if err := checkPreflight(agent); err != nil || agent.Drains != "node2" {
		t.Errorf("the agent forgets what the workstation said: %q (%v)", agent.Drains, err)
	}
}
