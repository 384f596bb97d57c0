//go:build cluster

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/command"
)

// These tests bring real clusters up and down: as root, with the components built.
//
//	sandbox down && go test -tags cluster -count=1 -v .

// rig is a sandbox in a state directory of its own.
type rig struct {
	t      *testing.T
	binary string
	dir    string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if err := mayRun(goos, os.Geteuid()); err != nil {
		t.Fatal(err)
	}
	if owners := netnsOwners(t.Context()); len(owners) > 0 {
		t.Fatalf("a sandbox is up, and a machine has one at most: %v", owners)
	}
	r := &rig{t: t, binary: filepath.Join(t.TempDir(), "sandbox"), dir: "/var/lib/lapse-sandbox-test"}
	if out, err := exec.Command("go", "build", "-o", r.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, code := r.try("setup"); code != exitOK {
		t.Fatalf("setup: %s", out)
	}
	before := takeInventory(t)
	t.Cleanup(func() {
		if out, code := r.try("down"); code != exitOK {
			t.Errorf("down: %s", out)
		}
		takeInventory(t).sameAs(t, before)
	})
	return r
}

func (r *rig) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), r.binary, append([]string{"--dir", r.dir}, args...)...)
	if r.t.Context().Err() != nil { // in a Cleanup
		cmd = exec.Command(cmd.Path, cmd.Args[1:]...)
	}
	return cmd
}

// try returns what a verb says, on either stream, and its exit code.
func (r *rig) try(args ...string) (string, int) {
	cmd := r.command(args...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func (r *rig) must(args ...string) string {
	r.t.Helper()
	out, code := r.try(args...)
	if code != exitOK {
		r.t.Fatalf("sandbox %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// up brings the cluster up, with a file of ours open as `flock FILE sandbox up` would, which nothing may hold
// afterwards.
func (r *rig) up(args ...string) {
	r.t.Helper()
	file, err := os.Create(filepath.Join(r.t.TempDir(), "lock"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	cmd := r.command(append([]string{"up"}, args...)...)
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.CombinedOutput()
	r.t.Logf("%s", out)
	if err != nil {
		r.t.Fatalf("sandbox up %s: %v", strings.Join(args, " "), err)
	}
	s, err := load(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range s.Processes {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		for _, fd := range open {
			if target, _ := os.Readlink(fd); target == file.Name() {
				r.t.Errorf("%s keeps a file of the caller's open", p.Name)
			}
		}
	}
}

func (r *rig) kubectl(args ...string) string {
	r.t.Helper()
	return r.must(append([]string{"kubectl"}, args...)...)
}

func (r *rig) apply(yaml string) {
	r.t.Helper()
	cmd := r.command("kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(yaml)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
}

// patience is for what takes seconds: only a defect takes so long, however busy the machine is.
const patience = 3 * time.Minute

// soon repeats until check finds what it looks for.
func soon(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (r *rig) process(name string) process {
	r.t.Helper()
	s, err := load(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	p, ok := s.process(name)
	if !ok {
		r.t.Fatalf("no process %s", name)
	}
	return p
}

// An inventory is what a sandbox could leave behind on a machine.
type inventory map[string]string

var sandboxProgram = regexp.MustCompile(`^(etcd|kube-.*|kubelet|containerd.*|runc|coredns|pause|workload|sandbox)$`)

func takeInventory(t *testing.T) inventory {
	t.Helper()
	output := func(name string, args ...string) string {
		out, _ := exec.Command(name, args...).Output()
		return string(out)
	}
	inv := inventory{
		"namespaces":     output("ip", "netns", "list"),
		"interfaces":     regexp.MustCompile(`mtu.*|link/.*`).ReplaceAllString(output("ip", "-o", "link", "show"), ""),
		"routes":         output("ip", "route", "show", "table", "all"),
		"iptables":       regexp.MustCompile(`(?m)^#.*|\[.*\]`).ReplaceAllString(output("iptables-save"), ""),
		"nftables":       output("nft", "list", "ruleset"),
		"mounts":         strings.Join(mountsUnder("/"), "\n"),
		"processes":      strings.Join(sandboxProcesses(), "\n"),
		"cgroups":        strings.Join(cgroupDirs(), "\n"),
		"abstract locks": regexp.MustCompile(`@lapse.*`).FindString(readFile("/proc/net/unix")),
	}
	for name := range kubeletTunables {
		inv["sysctl "+name] = readFile("/proc/sys/" + name)
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet",
		"net/bridge/bridge-nf-call-iptables", "net/netfilter/nf_conntrack_max"} {
		inv["sysctl "+name] = readFile("/proc/sys/" + name)
	}
	for _, path := range []string{
		"/var/lib/lapse-sandbox-test", "/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd",
		"/var/log/pods", "/var/log/containers",
		"/run/netns", "/run/containerd", "/run/cni", "/run/xtables.lock", "/etc/cni", "/opt/containerd",
		"/opt/cni", "/usr/libexec/kubernetes",
	} {
		_, err := os.Lstat(path)
		inv["path "+path] = fmt.Sprint("exists: ", err == nil)
	}
	return inv
}

func readFile(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func sandboxProcesses() (found []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range entries {
		name := strings.TrimSpace(readFile(comm))
		st, err := parseStat(readFile(filepath.Join(filepath.Dir(comm), "stat")))
		if err == nil && st.state != 'Z' && sandboxProgram.MatchString(name) {
			found = append(found, name+" "+filepath.Base(filepath.Dir(comm)))
		}
	}
	return found
}

func cgroupDirs() (found []string) {
	for _, h := range hierarchies() {
		filepath.WalkDir(h.path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && regexp.MustCompile(`lapse|kube|cri-`).MatchString(path) {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

func (inv inventory) sameAs(t *testing.T, before inventory) {
	t.Helper()
	for what, was := range before {
		if inv[what] != was {
			t.Errorf("left behind in %s:\n%s\nbefore:\n%s", what, inv[what], was)
		}
	}
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: lapse-workload:dev
        imagePullPolicy: Never
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
        resources: {requests: {ephemeral-storage: 10Mi}}
        securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// pods maps the running, ready pods of web to their nodes.
func (r *rig) pods() map[string]string {
	r.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name              string
				DeletionTimestamp string
			}
			Spec   struct{ NodeName string }
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal([]byte(r.kubectl("get", "pods", "-l", "app=web", "-o", "json")), &list); err != nil {
		r.t.Fatal(err)
	}
	pods := map[string]string{}
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" && p.Metadata.DeletionTimestamp == "" {
				pods[p.Metadata.Name] = p.Spec.NodeName
			}
		}
	}
	return pods
}

// answers asks the Service from inside a pod, by name, until each of the pods has answered.
func (r *rig) answers(from string, url string, pods map[string]string) {
	r.t.Helper()
	silent := maps.Clone(pods)
	var last string
	for deadline := time.Now().Add(patience); len(silent) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %v: answers of %v to %s from %s; the last one was %q", patience, silent, url,
				from, last)
		}
		last, _ = r.try("kubectl", "exec", from, "--", "/workload", "get", url)
		maps.DeleteFunc(silent, func(name, _ string) bool { return strings.Contains(last, "200 "+name) })
	}
}

func TestClusterWorksAndGoes(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			r.up("--nodes", "3", "--proxy-mode", mode)
			r.apply(web)
			r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
			soon(t, "two pods are ready", func() bool { return len(r.pods()) == 2 })
			pods := r.pods()

			nodes := map[string]bool{}
			for name, node := range pods {
				nodes[node] = true
				// From each pod to both, itself included: across nodes, on one bridge, and round to itself.
				r.answers(name, "http://web/", pods)
				r.answers(name, "http://web.default.svc.cluster.local/", pods)
			}
			if len(nodes) != 2 {
				t.Errorf("both pods run on %v", nodes)
			}
			name := slices.Sorted(maps.Keys(pods))[0]
			r.logsExecAndPortForwardWork(name)
			r.twoPodsOfOneNodeReachEachOther()
			r.nodesReachServicesAndPods()
			r.rightsAreHeld()
			r.podsWeighAsOnMachinesOfTheirOwn()
			r.podsHaveTheClocksOfTheirNodes(pods)
			r.componentsRestart(pods)
			r.drainEvictsAndNamesStillResolve(pods)
			r.upAgain(mode)
			r.must("down")
			if out := r.must("down"); !strings.Contains(out, "nothing is up") {
				t.Errorf("the second down says %q", out)
			}
		})
	}
}

func (r *rig) logsExecAndPortForwardWork(pod string) {
	r.t.Helper()
	if out := r.kubectl("logs", pod); !strings.Contains(out, "listens on") {
		r.t.Errorf("logs: %q", out)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	forward := exec.CommandContext(ctx, r.binary, "--dir", r.dir, "kubectl", "port-forward", pod, "18099:8080")
	if err := forward.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer forward.Wait()
	defer cancel()
	soon(r.t, "an answer through port-forward", func() bool {
		resp, err := http.Get("http://127.0.0.1:18099/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.Header.Get("X-Pod") == pod
	})
}

func (r *rig) twoPodsOfOneNodeReachEachOther() {
	r.t.Helper()
	var yaml strings.Builder
	for _, name := range []string{"left", "right"} {
		fmt.Fprintf(&yaml, `
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  nodeName: node3
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "lapse-workload:dev", imagePullPolicy: Never}]
---
apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {selector: {app: %s}, ports: [{port: 80, targetPort: 8080}]}
---
`, name, name, name, name)
	}
	r.apply(yaml.String())
	r.kubectl("wait", "--for=condition=Ready", "pod/left", "pod/right", "--timeout="+patience.String())
	// (A pod's own short name is in its /etc/hosts, and is not the Service.)
	r.answers("left", "http://right.default/", map[string]string{"right": ""})
	r.answers("left", "http://left.default/", map[string]string{"left": ""})
	r.kubectl("delete", "pod/left", "pod/right", "service/left", "service/right")
}

func (r *rig) nodesReachServicesAndPods() {
	r.t.Helper()
	service := r.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	podIP := strings.Fields(r.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))[0]
	binary := r.workloadBinary()
	for _, node := range []string{"node1", "node2", "node3"} {
		r.must("exec", node, "--", binary, "get", "http://"+service+"/")
		r.must("exec", node, "--", binary, "get", "http://"+podIP+":8080/")
	}
	r.must("exec", controlPlane, "--", binary, "get", "http://"+podIP+":8080/")
	if out, code := r.try("exec", "node9", "--", "true"); code != exitProblem || !strings.Contains(out, "no node") {
		r.t.Errorf("exec on an unknown node: exit %d, %s", code, out)
	}
}

func (r *rig) workloadBinary() string {
	binary := filepath.Join(r.t.TempDir(), "workload")
	if out, err := exec.Command("go", "build", "-o", binary, "./workload").CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// rightsAreHeld: RBAC, the node authorizer and NodeRestriction are on.
func (r *rig) rightsAreHeld() {
	r.t.Helper()
	can := func(args ...string) string {
		out, _ := r.try(append([]string{"kubectl", "auth", "can-i"}, args...)...)
		return strings.Fields(out + " ?")[0]
	}
	if got := can("list", "pods", "--as=system:serviceaccount:default:default"); got != "no" && got != "Warning:" {
		r.t.Errorf("a bare service account may list pods: %s", got)
	}
	for want, args := range map[string][]string{ // each a label that node1 tries to set
		"only its own Node object":        {"node2", "a=b"},
		"is not allowed to modify labels": {"node1", "node-restriction.kubernetes.io/a=b"},
	} {
		cmd := r.command(append([]string{"exec", "node1", "--", filepath.Join(r.dir, "bin/kubectl"),
			"--kubeconfig", filepath.Join(r.dir, "config/node1.kubeconfig"), "label", "node"}, args...)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			r.t.Errorf("node1 labels %v: %v, %s", args, err, out)
		}
	}
}

func (r *rig) podsWeighAsOnMachinesOfTheirOwn() {
	r.t.Helper()
	for _, h := range hierarchies() {
		for name, want := range map[string]int{"cpu.shares": podShares(runtime.NumCPU(), 3),
			"cpu.weight": weightOf(podShares(runtime.NumCPU(), 3))} {
			got := strings.TrimSpace(readFile(filepath.Join(h.path, cgroupRoot, name)))
			if got != "" && got != fmt.Sprint(want) {
				r.t.Errorf("%s of all pods is %s, want %d", name, got, want)
			}
		}
	}
}

// A monotonic clock means something on its own machine only: those of Pods on two nodes are hours apart.
func (r *rig) podsHaveTheClocksOfTheirNodes(pods map[string]string) {
	r.t.Helper()
	want := map[string]bool{}
	for _, name := range pods {
		n, _ := findNode(planNodes(3), name)
		want[fmt.Sprint(int64(n.Uptime/time.Second))] = true
	}
	got := map[string]bool{}
	for _, h := range hierarchies() {
		err := filepath.WalkDir(filepath.Join(h.path, cgroupRoot), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // of a container that has just ended
				return nil
			}
			if err != nil || d.Name() != "cgroup.procs" {
				return err
			}
			for pid := range strings.FieldsSeq(readFile(path)) {
				for line := range strings.Lines(readFile("/proc/" + pid + "/timens_offsets")) {
					if f := strings.Fields(line); f[0] == "monotonic" {
						got[f[1]] = true
					}
				}
			}
			return nil
		})
		if err != nil {
			r.t.Error(err)
		}
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("the clocks of Pods are ahead by %v seconds, want %v", got, want)
	}
}

func (r *rig) drainEvictsAndNamesStillResolve(before map[string]string) {
	r.t.Helper()
	name := slices.Sorted(maps.Keys(before))[0]
	node := before[name]
	if out := r.kubectl("drain", node, "--timeout="+patience.String()); !strings.Contains(out, "evicted") {
		r.t.Errorf("drain: %s", out)
	}
	soon(r.t, "two pods are ready elsewhere", func() bool {
		after := r.pods()
		for _, on := range after {
			if on == node {
				return false
			}
		}
		return len(after) == 2
	})
	after := r.pods()
	for pod := range after {
		r.answers(pod, "http://web/", after)
	}
	r.kubectl("uncordon", node)
}

// A component that is restarted is another process that does the same, and the Pods do not notice.
func (r *rig) componentsRestart(pods map[string]string) {
	r.t.Helper()
	const restarts = "{.items[*].status.containerStatuses[*].restartCount}"
	before := r.kubectl("get", "pods", "-o", "jsonpath="+restarts)
	for _, name := range []string{"kubelet-node1", "containerd-node1", "kube-proxy-node1",
		"kube-controller-manager", "coredns"} {
		old := r.process(name)
		r.must("restart", name)
		if p := r.process(name); p.PID == old.PID || old.alive() || !p.alive() {
			r.t.Errorf("%s was process %d (alive: %v), now it is %d (alive: %v)",
				name, old.PID, old.alive(), p.PID, p.alive())
		}
		// The system call gives 20 - nice (getpriority(2)).
		priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, r.process(name).PID)
		if err != nil || (priority > 20) != (name == "coredns") {
			r.t.Errorf("%s has priority %d, %v: only CoreDNS gets CPU before others", name, priority, err)
		}
		// What was restarted serves already: no wait, and one try.
		r.kubectl("get", "--raw", "/api/v1/nodes/node1/proxy/healthz")
	}
	r.kubectl("wait", "--for=condition=Ready", "node/node1", "--timeout="+patience.String())
	for name := range pods {
		r.answers(name, "http://web/", pods)
	}
	if after := r.kubectl("get", "pods", "-o", "jsonpath="+restarts); after != before {
		r.t.Errorf("containers' restarts: %s, before %s", after, before)
	}
	if out, code := r.try("restart", "kubelet-node9"); code != exitProblem || !strings.Contains(out, "no component") {
		r.t.Errorf("restart of what is not there: exit %d, %s", code, out)
	}
}

func (r *rig) upAgain(mode string) {
	r.t.Helper()
	if out := r.must("up", "--nodes", "3", "--proxy-mode", mode); !strings.Contains(out, "already up") {
		r.t.Errorf("up again says %q", out)
	}
	if out, code := r.try("up", "--nodes", "2", "--proxy-mode", mode); code != exitProblem ||
		!strings.Contains(out, "sandbox down") {
		r.t.Errorf("up with other parameters: exit %d, %s", code, out)
	}
	other := exec.Command(r.binary, "--dir", filepath.Join(r.t.TempDir(), "other"), "up")
	if out, _ := other.CombinedOutput(); other.ProcessState.ExitCode() != exitProblem ||
		!strings.Contains(string(out), "sandbox down --dir "+r.dir) {
		r.t.Errorf("a second sandbox: %s", out)
	}
	if out := r.must("status"); !strings.Contains(out, "node3") {
		r.t.Errorf("status: %s", out)
	}
}

// Whatever was killed, and even when the state directory is gone, down finds the rest.
func TestDownAfterACrashLeavesNothing(t *testing.T) {
	had := len(mountsUnder(netnsDir)) > 0
	t.Cleanup(func() {
		removeNetnsDir()
		if had {
			mountNetnsDir(t)
		}
	})
	for name, test := range map[string]struct {
		// what /run/netns was before; where the state is lost, down leaves it, for it cannot know it to be its own
		netnsDir func(testing.TB)
		crash    func(*rig)
	}{
		"containerd and API server killed": {makeNetnsDir, func(r *rig) {
			for _, name := range []string{"containerd-node1", "kube-apiserver", "relay"} {
				kill(r.process(name).PID)
			}
		}},
		"shims killed": {mountNetnsDir, func(r *rig) {
			for _, p := range sandboxProcesses() {
				if name, pid, _ := strings.Cut(p, " "); strings.HasPrefix(name, "containerd-shim") {
					var n int
					fmt.Sscan(pid, &n)
					kill(n)
				}
			}
		}},
		"state file lost": {mountNetnsDir, func(r *rig) {
			os.Remove(filepath.Join(r.dir, stateFile))
			os.WriteFile(filepath.Join(r.dir, stateFile), []byte("{"), 0o600)
		}},
		"state directory deleted": {mountNetnsDir, func(r *rig) { os.RemoveAll(r.dir) }},
	} {
		t.Run(name, func(t *testing.T) {
			removeNetnsDir()
			test.netnsDir(t)
			r := newRig(t)
			r.up("--nodes", "2")
			r.apply(web)
			r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
			test.crash(r)
			r.must("down")
		})
	}
}

// removeNetnsDir makes the machine one on which no network namespace had a name, unless one has.
func removeNetnsDir() { netnsBefore{}.restore() }

// makeNetnsDir makes it one on which somebody made the directory, and no more.
func makeNetnsDir(t testing.TB) {
	t.Helper()
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// mountNetnsDir does what any first use of a named network namespace does to a machine.
func mountNetnsDir(t testing.TB) {
	t.Helper()
	for _, verb := range []string{"add", "delete"} {
		if err := command.Run(context.Background(), "", "ip", "netns", verb, "lapse-sandbox-test"); err != nil {
			t.Fatal(err)
		}
	}
}

// An up that was cut off leaves something; the next up clears it away by itself.
func TestUpAfterAKilledUp(t *testing.T) {
	r := newRig(t)
	r.upKilledAfter("") // the state file is there, and little else
	r.upKilledAfter("network")
	r.upKilledAfter("etcd, API server, containerd, images")
	r.up("--nodes", "2")
	kill(r.process("kubelet-node2").PID)
	soon(t, "status notices", func() bool {
		out, code := r.try("status")
		return code == exitFailed && strings.Contains(out, "kubelet-node2")
	})
	r.up("--nodes", "2")
}

// A down that was killed while it removed files is finished by the next down, and by the next up.
func TestDownThatWasKilledIsFinished(t *testing.T) {
	r := newRig(t)
	for _, next := range []string{"down", "up"} {
		r.up("--nodes", "1")
		r.downKilled()
		if next == "up" {
			r.up("--nodes", "1")
			continue
		}
		r.must("down")
		if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("down leaves the directory: %v", err)
		}
	}
}

// downKilled kills a down as soon as something of the state directory is gone.
func (r *rig) downKilled() {
	r.t.Helper()
	before, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := r.command("down")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for soFar := before; len(soFar) == len(before); soFar, err = os.ReadDir(r.dir) {
		if err != nil {
			r.t.Error(err)
			break
		}
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
}

// upKilledAfter kills an up once it has said that a step is done; without one, once it has a state file.
func (r *rig) upKilledAfter(step string) {
	r.t.Helper()
	cmd := r.command("up", "--nodes", "2")
	talk, stderr := io.Pipe()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(talk); lines.Scan(); {
			if step != "" && strings.Contains(lines.Text(), step) {
				done <- true
				break
			}
		}
		io.Copy(io.Discard, talk)
	}()
	if step == "" {
		soon(r.t, "a state file", func() bool {
			_,
				err := os.Stat(filepath.Join(r.dir, stateFile))
			return err == nil
		})
	} else {
		select {
		case <-done:
		case <-time.After(patience):
			r.t.Errorf("up did not say %q", step)
		}
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	stderr.Close()
}

// A component that does not start is named, with the end of its log, and nothing of the attempt stays but the logs.
func TestFailedUpShowsTheLogOfTheComponent(t *testing.T) {
	r := newRig(t)
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if out, err := exec.Command("cp", "-rs", cache+"/.", broken).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, etcd := range globs(t, filepath.Join(broken, "components-*", "etcd")) {
		os.Remove(etcd)
		os.WriteFile(etcd, []byte("#!/bin/sh\necho no room for a quorum\nexit 1\n"), 0o755)
	}
	t.Setenv("LAPSE_SANDBOX_CACHE", broken)
	out, code := r.try("up", "--nodes", "1")
	if code != exitFailed || !strings.Contains(out, "no room for a quorum") ||
		!strings.Contains(out, "etcd ended before it was ready") {
		t.Errorf("exit %d, %s", code, out)
	}
	if left := sandboxProcesses(); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "logs/etcd.log")); err != nil {
		t.Error(err)
	}
}

func globs(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing at %s: %v", pattern, err)
	}
	return found
}
