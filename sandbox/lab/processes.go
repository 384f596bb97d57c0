package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const processUsage = "kube-proxy, kubelet or containerd and its NODE, kube-apiserver, kube-controller-manager, " +
	"kube-scheduler, coredns, etcd, or `server of POD`"

var (
	ofNode       = []string{"kube-proxy", "kubelet", "containerd"}
	ofTheCluster = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "etcd"}
)

// onProcess returns a step on a process.
func onProcess(do func(ctx context.Context, p *play, pids []int, name string) error) func(words) (action, bool) {
	return func(w words) (action, bool) {
		return func(ctx context.Context, p *play) error {
			w := p.expand(w)
			pids, err := p.find(ctx, w)
			if err != nil {
				return err
			}
			return do(ctx, p, pids, w.rest())
		}, isComponent(w) || w.is("server of POD")
	}
}

func isComponent(w words) bool {
	return len(w) == 1 && slices.Contains(ofTheCluster, w[0]) || len(w) == 2 && slices.Contains(ofNode, w[0])
}

// find finds the processes that a step is about, among those of the sandbox.
func (p *play) find(ctx context.Context, w words) ([]int, error) {
	if w.is("server of POD") {
		return p.servers(ctx, w[2])
	}
	state, err := p.cluster.State() // read again: a restarted component has another pid
	if err != nil {
		return nil, err
	}
	name := strings.Join(w, "-")
	for _, c := range state.Processes {
		if c.Name != name {
			continue
		}
		if _, start, err := stat(c.PID); err != nil || start != c.Start {
			return nil, fmt.Errorf("%s of the sandbox has ended", name)
		}
		return []int{c.PID}, nil
	}
	return nil, fmt.Errorf("the sandbox has no %s", name)
}

// servers returns the workload's processes in a Pod, found by its control group.
func (p *play) servers(ctx context.Context, pod string) (pids []int, err error) {
	uid, known := p.uids[pod]
	if !known {
		if uid, err = p.field(ctx, "pod/"+pod, "{.metadata.uid}"); err != nil {
			return nil, err
		}
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(group), "/lapse-sandbox/") || !strings.Contains(string(group), uid) {
			continue // it has ended, or is not of this Pod
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.HasPrefix(string(command), "/workload\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no server runs in Pod %s", pod)
	}
	return pids, nil
}

func stopProcess(_ context.Context, p *play, pids []int, name string) error {
	starts := map[int]uint64{}
	for _, pid := range pids {
		_, starts[pid], _ = stat(pid)
	}
	p.undoing("stop "+name, func(context.Context) error {
		for _, pid := range pids {
			if _, start, err := stat(pid); err == nil && start == starts[pid] {
				_ = send([]int{pid}, syscall.SIGCONT)
			}
		}
		return nil
	})
	return send(pids, syscall.SIGSTOP)
}

func continueProcess(ctx context.Context, p *play, _ []int, name string) error {
	was, err := p.undone(ctx, "stop "+name)
	if err == nil && !was {
		err = fmt.Errorf("%s was not stopped", name)
	}
	return err
}

func killProcess(_ context.Context, _ *play, pids []int, _ string) error {
	return send(pids, syscall.SIGKILL)
}

func parseRestart(w words) (action, bool) {
	return func(ctx context.Context, p *play) error { return p.restart(ctx, p.expand(w)...) }, isComponent(w)
}

func parseCut(w words) (action, bool) {
	ok := len(w) == 3 && w[1] == "from"
	return func(ctx context.Context, p *play) error {
		w := p.expand(w)
		p.undoing("cut "+w[0], func(ctx context.Context) error { return p.restoreNode(ctx, w[0]) })
		if w[2] == "all" {
			return p.inNode(ctx, "cp", "", "ip", "link", "set", "to-"+w[0], "down")
		}
		peers, err := p.addresses(ctx, w[2])
		if err != nil {
			return err
		}
		port := ""
		if w[2] == "api" {
			port = "6443"
		}
		return p.inNode(ctx, w[0], cutRules(cutTable+p.namespace, peers, port), "nft", "-f", "-")
	}, ok
}

// parseFlush deletes the entries of a node's connection tracking whose replies come from a Pod, as a proxy does that
// does not leave established connections alone. What is sent on one of them next is a packet of no connection.
func parseFlush(w words) (action, bool) {
	return func(ctx context.Context, p *play) error {
		w := p.expand(w)
		return p.inNode(ctx, w[0], "", "conntrack", "-D", "-r", w[2])
	}, len(w) == 3 && w[1] == "of"
}

func parseRestore(w words) (action, bool) {
	return func(ctx context.Context, p *play) error {
		node := p.expand(w)[0]
		was, err := p.undone(ctx, "cut "+node)
		if err == nil && !was {
			err = fmt.Errorf("%s was not cut from anything", node)
		}
		return err
	}, len(w) == 1
}

// cutRules returns a table that drops what goes to and comes from addresses, or from one TCP port of theirs.
func cutRules(table string, peers []string, port string) string {
	to, from := "", ""
	if port != "" {
		to, from = " tcp dport "+port, " tcp sport "+port
	}
	var rules strings.Builder
	for _, family := range []string{"ip", "ip6"} {
		those := slices.DeleteFunc(slices.Clone(peers),
			func(peer string) bool { return strings.Contains(peer, ":") != (family == "ip6") })
		if len(those) == 0 {
			continue
		}
		set := "{ " + strings.Join(those, ", ") + " }"
		fmt.Fprintf(&rules, "table %s %s {\n", family, table)
		for _, hook := range []string{"input", "forward", "output"} {
			fmt.Fprintf(&rules, "\tchain %s {\n\t\ttype filter hook %s priority 10; policy accept;\n", hook, hook)
			fmt.Fprintf(&rules, "\t\t%s daddr %s%s drop\n\t\t%s saddr %s%s drop\n\t}\n",
				family, set, to, family, set, from)
		}
		rules.WriteString("}\n")
	}
	return rules.String()
}

// restoreNode ends the play's cuts of a node; it does no harm where there are none.
func (p *play) restoreNode(ctx context.Context, node string) error {
	return errors.Join(
		p.plug(ctx, node),
		p.inNode(ctx, node, fmt.Sprintf("table ip %[1]s\ndelete table ip %[1]s\ntable ip6 %[1]s\n"+
			"delete table ip6 %[1]s\n", cutTable+p.namespace), "nft", "-f", "-"))
}

// addresses of a peer: the API server's, a node's and its Pods', or the address itself.
func (p *play) addresses(ctx context.Context, peer string) ([]string, error) {
	switch {
	case peer == "api":
		out, err := p.cluster.Kubectl(ctx, "get", "endpointslices", "-n", "default",
			"-l", "kubernetes.io/service-name=kubernetes", "-o", "jsonpath={.items[*].endpoints[*].addresses[*]}")
		return strings.Fields(out), err
	case isNode(peer):
		out, err := p.cluster.Kubectl(ctx, "get", "node", peer,
			"-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address} {.spec.podCIDRs[*]}`)
		return strings.Fields(out), err
	}
	return []string{peer}, nil
}
