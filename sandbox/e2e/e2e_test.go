//go:build e2e

// Package e2e runs Lapse on the real cluster of the sandbox, as its users would: the binary, kubectl, and what
// they print. The sandbox must be up, with Lapse's image in it; LAPSE names the binary (`make test-e2e`).
//
// Tests that measure a disturbance run alone. Those that only ask whether a result is kept run in parallel.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

const (
	routeOutlivesPod = "route-outlives-pod"
	noReadyEndpoint  = "no-ready-endpoint"
)

func cluster(t *testing.T) *drill.Cluster {
	t.Helper()
	lapse := os.Getenv("LAPSE")
	if lapse == "" {
		t.Fatal("LAPSE does not name the binary to test: run `make test-e2e`")
	}
	c, err := drill.Open(lapse, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// deploy deploys the Service web in a namespace of the test's own.
func deploy(t *testing.T, c *drill.Cluster, w drill.Workload) drill.Workload {
	t.Helper()
	return deployAs(t, c, w, "web")
}

// deployAs deploys a Service in a namespace of the test's own.
func deployAs(t *testing.T, c *drill.Cluster, w drill.Workload, name string) drill.Workload {
	t.Helper()
	w.Namespace = "e2e-" + strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	w.Namespace, w.Name = w.Namespace[:min(len(w.Namespace), 50)], name
	deployBeside(t, c, w)
	return w
}

// deployBeside deploys a workload, whose namespace goes with the test.
func deployBeside(t *testing.T, c *drill.Cluster, w drill.Workload) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
		defer cancel()
		if err := c.Remove(ctx, w.Namespace); err != nil {
			t.Error(err)
		}
	})
	if err := c.Deploy(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// until waits until something is so, at most five minutes; otherwise says what is. It asks twice a second: most
// questions start a program, and what is measured meanwhile needs the machine, too.
func until(t *testing.T, what string, so func() bool, otherwise func() string) {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !so(); <-tick.C {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("no time in which %s: %s", what, otherwise())
		}
	}
}

// drain drains a node of the workload's once, under Lapse.
func drain(t *testing.T, c *drill.Cluster, w drill.Workload, args ...string) drill.Run {
	t.Helper()
	run, err := c.Drain(t.Context(), w, runDir(t), args...)
	return checked(t, c, run, err)
}

// measure runs Lapse on the workload once.
func measure(t *testing.T, c *drill.Cluster, w drill.Workload, args ...string) drill.Run {
	t.Helper()
	run, err := c.Measure(t.Context(), w, runDir(t), args...)
	return checked(t, c, run, err)
}

// runDir is where a test's run goes. That of a test that failed is kept in the repository's runs directory.
func runDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		kept, err := filepath.Abs(filepath.Join("../../runs",
			"e2e-"+time.Now().UTC().Format("20060102-150405-")+t.Name()))
		if err == nil {
			err = os.CopyFS(kept, os.DirFS(dir))
		}
		t.Logf("the run is kept in %s (%v)", kept, err)
	})
	return dir
}

func checked(t *testing.T, c *drill.Cluster, run drill.Run, err error) drill.Run {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(run.Output)
	validate(t, c, run)
	return run
}

// target returns one target's totals.
func target(t *testing.T, run drill.Run, name string) drill.Target {
	t.Helper()
	found, err := run.Timeline.Target(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// staleRoutes is a shell command that runs another, which deletes a Pod ("pod/NAME"), while the kube-proxy of some
// nodes, or of every one, stands still until 1 s after that: so that routes outlive the Pod for certain, where it
// would be luck. kube-proxy writes its rules up to a second later, and from 3 s on Lapse asks who was late.
func staleRoutes(t *testing.T, c *drill.Cluster, w drill.Workload, pod, command string, nodes ...string) []string {
	t.Helper()
	deleted := "kubectl -n " + w.Namespace + " wait " + pod +
		" --for=jsonpath={.metadata.deletionTimestamp} --timeout=2m >/dev/null 2>&1" // it may be gone
	words, resume, err := c.StaleRoutes(command, deleted+"; sleep 1", nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(resume)
	return words
}

// podOn is the workload's Pod on a node, as "pod/NAME".
func podOn(t *testing.T, c *drill.Cluster, w drill.Workload, node string) string {
	t.Helper()
	pods, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name,
		"--field-selector", "spec.nodeName="+node, "-o", "name")
	if err != nil || len(strings.Fields(pods)) != 1 {
		t.Fatalf("the Pods on %s: %q, %v", node, pods, err)
	}
	return strings.TrimSpace(pods)
}

// validate checks what holds of every run: every failure of a judged target lies in a window of it, and the
// recording gives the same answer again.
func validate(t *testing.T, c *drill.Cluster, run drill.Run) {
	t.Helper()
	inWindows := map[string]int{}
	for _, w := range run.Timeline.Windows {
		if w.Kind != "slow" {
			inWindows[w.Target] += w.Failed
		}
		if w.Start.Earliest > w.Start.Latest || w.End.Earliest > w.End.Latest ||
			w.Length.Min > w.Length.Max || len(w.Causes) == 0 {
			t.Errorf("window %+v contradicts itself", w)
		}
	}
	for _, target := range run.Timeline.Targets {
		if (target.Kind == "new" || target.Kind == "reused") && inWindows[target.Name] != target.Failed {
			t.Errorf("%s: %d requests failed, %d in windows", target.Name, target.Failed, inWindows[target.Name])
		}
	}
	cmd := exec.CommandContext(t.Context(), c.Lapse, "report", run.Dir, "-o", "json")
	again, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != run.ExitCode {
		t.Errorf("lapse report exits with %d (%v), lapse run did with %d", code, err, run.ExitCode)
	}
	first, err := os.ReadFile(filepath.Join(run.Dir, "timeline.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again) {
		t.Errorf("the recording, judged again, gives another timeline: see %s", run.Dir)
	}
}

func TestDrainWithoutFixLosesRequests(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Neighbours: 6, Args: []string{"--on-sigterm", "exit"}})
	node, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := truth.Begin(t.Context(), c, w)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	args := []string{"--rate=300", "--fail-if=failed>0", "--settle=5s", "--avoid-node=" + node, "--"}
	run := measure(t, c, w, append(args, staleRoutes(t, c, w, podOn(t, c, w, node),
		"kubectl drain "+node+" --ignore-daemonsets")...)...)
	agreesWithTheTruth(t, run, watch, w.Replicas, 1)
	if run.ExitCode != 3 {
		t.Errorf("exit code %d, want 3: the gate failed", run.ExitCode)
	}
	windows := run.Timeline.CausedBy(routeOutlivesPod)
	if !slices.ContainsFunc(windows, func(w drill.Window) bool { return w.Causes[0].Confidence == "high" }) {
		t.Errorf("windows %+v: want one whose cause is %s at high confidence", run.Timeline.Windows, routeOutlivesPod)
	}
	for _, window := range windows {
		if !strings.ContainsAny(window.Causes[0].Fix, "0123456789") {
			t.Errorf("cause %+v: want a fix with a number", window.Causes[0])
		}
	}
	if stopped := run.Timeline.Pods; !slices.ContainsFunc(stopped,
		func(p drill.Pod) bool { return p.Stopped != nil && p.Exited != nil }) {
		t.Errorf("no Pod was seen to stop and to exit: %+v", stopped)
	}
}

// agreesWithTheTruth checks that nothing Lapse says of Pods and their routes is contradicted by what became of them.
func agreesWithTheTruth(t *testing.T, run drill.Run, watch *truth.Watch, replicas, ended int) {
	t.Helper()
	pods, err := watch.End(run.Timeline.ProberNode())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		t.Logf("truth: %s was routed to for %s ms after it had stopped", p.Name, truth.Millis(p.Lag()))
	}
	if len(pods) != ended {
		t.Errorf("%d Pods ended, want %d", len(pods), ended)
	}
	for _, wrong := range truth.Contradictions(run.Timeline, pods, replicas) {
		t.Error(wrong)
	}
}

func TestDrainWithFixLosesNothing(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Neighbours: 6,
		Args: []string{"--on-sigterm", "graceful", "--drain-for", "5s"}})
	run := drain(t, c, w, "--rate=300", "--settle=5s", "--fail-if=failed>0")
	v := run.Timeline.Verdict
	if lost := run.Timeline.Lost(); lost != 0 {
		t.Errorf("%d requests failed in spite of the fix: %+v", lost, run.Timeline.Windows)
	}
	if v.DetectionLimit == 0 {
		t.Errorf("verdict %+v: want one that states its detection limit", v)
	}
	// Whether it passes is a matter of how busy this machine is, and is to be said accordingly.
	if passed := v.Coverage >= 0.99; v.Failed == 0 &&
		(passed != (run.ExitCode == 0) || passed != (v.Result == "pass")) {
		t.Errorf("coverage %.4f, exit code %d, verdict %+v: want a pass at 99 %% or more, else exit code 4",
			v.Coverage, run.ExitCode, v)
	}
}

func TestOnlyReplicaDeletedIsNoReadyEndpoint(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1, Args: []string{"--on-sigterm", "exit", "--ready-delay", "3s"}})
	run := measure(t, c, w, "--rate=200", "--baseline=2s", "--settle=8s", "--fail-if=failed>0",
		"--", "kubectl", "-n", w.Namespace, "delete", "pod", "-l", "app=web")
	windows := run.Timeline.CausedBy(noReadyEndpoint)
	i := slices.IndexFunc(windows, func(w drill.Window) bool { return w.Target == "web new" })
	if run.ExitCode != 3 || i < 0 {
		t.Fatalf("exit code %d, windows %+v: want a window without a ready endpoint",
			run.ExitCode, run.Timeline.Windows)
	}
	window := windows[i]
	if window.Kind != "outage" || window.Length.Min < 2*time.Second {
		t.Errorf("window %+v: want an outage for as long as the replacement was not ready, 3 s at least", window)
	}
	if window.Classes["refused"] == 0 || window.Classes["timeout_connect"] == 0 {
		t.Errorf("classes %v: want some refused, then timeouts", window.Classes)
	}
}

func TestPinnedConnectionsAreCutWhileNewOnesAreClean(t *testing.T) {
	c := cluster(t)
	// The server ignores SIGTERM: new connections go to the other replica, while persistent ones stay with it until
	// it is killed. It is slow, so that dozens of requests are under way at that moment.
	w := deploy(t, c, drill.Workload{Replicas: 2, Grace: 4,
		Args: []string{"--on-sigterm", "ignore", "--latency", "200ms"}})
	run := drain(t, c, w, "--rate=300", "--settle=6s", "--fail-if=failed>0")
	fresh, reused := target(t, run, "web new"), target(t, run, "web reused")
	if run.Timeline.LostBy(fresh) != 0 || run.Timeline.LostBy(reused) == 0 || run.ExitCode != 3 {
		t.Errorf("%d new and %d reused connections failed, exit code %d: want only reused ones cut",
			fresh.Failed, reused.Failed, run.ExitCode)
	}
	for _, window := range run.Timeline.Windows {
		if window.Causes[0].Rule == routeOutlivesPod {
			t.Errorf("window %+v: connections that were pinned to the Pod are no late route", window)
		}
	}
}

func TestAgentMayOnlyRead(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1})
	apply(t, c, w, "--duration=1s")
	accounts, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "serviceaccounts",
		"-l", "app.kubernetes.io/managed-by=lapse", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Kubectl(t.Context(), "auth", "can-i", "--list", "-n", w.Namespace,
		"--as", "system:serviceaccount:"+w.Namespace+":"+accounts)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(list)
	for line := range strings.Lines(list) {
		// Every account may ask what it may do: that creates a review, and changes nothing.
		if strings.Contains(line, "selfsubject") || strings.HasPrefix(line, "Resources") {
			continue
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "*"} {
			if verbs := line[strings.LastIndex(line, "["):]; strings.Contains(verbs, verb) {
				t.Errorf("the agent may %s: %s", verb, line)
			}
		}
	}
	for _, right := range []string{"pods", "endpointslices.discovery.k8s.io", "services", "events", "deployments.apps",
		"poddisruptionbudgets.policy"} {
		if !strings.Contains(list, right) {
			t.Errorf("the agent may not read %s", right)
		}
	}
}

// A drain's outcome, as far as Lapse could have changed it.
type outcome struct {
	ExitCode int
	Evicted  []string // in order, without the parts of the names that are random
}

func TestDrainIsTheSameWithoutLapse(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "exit"}})

	run := drain(t, c, w, "--rate=100", "--baseline=2s", "--settle=2s")
	var lines []string
	for _, e := range run.Timeline.Events {
		if e.Kind == "command-output" {
			lines = append(lines, e.Detail)
		}
	}
	with := outcome{ExitCode: *run.Timeline.Run.Command.ExitCode, Evicted: evicted(lines)}

	if err := c.Ready(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	node, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Kubectl(t.Context(), "drain", node, "--ignore-daemonsets")
	if err != nil {
		t.Fatal(err)
	}
	without := outcome{ExitCode: 0, Evicted: evicted(strings.Split(out, "\n"))}
	if with.ExitCode != without.ExitCode || !slices.Equal(with.Evicted, without.Evicted) || len(with.Evicted) == 0 {
		t.Errorf("with Lapse %+v, without %+v", with, without)
	}
}

// evicted lists the workloads whose Pods a drain says it has evicted.
func evicted(lines []string) []string {
	var names []string
	for _, line := range lines {
		if pod, ok := strings.CutPrefix(strings.TrimSpace(line), "pod/"); ok && strings.HasSuffix(pod, " evicted") {
			parts := strings.Split(strings.Fields(pod)[0], "-")
			names = append(names, strings.Join(parts[:max(1, len(parts)-2)], "-"))
		}
	}
	return names
}

func TestLosingTheAgentKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	// The wrapped command deletes the Pod that measures, and waits until it is gone.
	kill := "kubectl -n " + w.Namespace + " delete pod -l app.kubernetes.io/managed-by=lapse --now --wait && sleep 3"
	run := measure(t, c, w, "--rate=100", "--fail-if=failed>0", "--", "sh", "-c", kill)
	fresh := target(t, run, "web new")
	if fresh.OK == 0 || run.Timeline.Run.Aborted == "" {
		t.Errorf("target %+v, aborted %q: want what was measured, and that it ended early",
			fresh, run.Timeline.Run.Aborted)
	}
	if run.ExitCode != 6 {
		t.Errorf("exit code %d, want 6: the run was cut short", run.ExitCode)
	}
	// Nothing is said of the time after the loss: the run ends with what was recorded, and the command slept for 3 s
	// after it.
	if r := run.Timeline.Run; r.Command.End != nil && *r.Command.End-r.Duration < 2*time.Second {
		t.Errorf("it lasted %v, the command until %v: want the run to end when the Pod was lost",
			r.Duration, *r.Command.End)
	}
	nothingLeft(t, c, run)
}

// apply creates a run that nobody follows, and returns the Job's name.
func apply(t *testing.T, c *drill.Cluster, w drill.Workload, args ...string) string {
	t.Helper()
	if err := c.Apply(t.Context(), lapse(t, c, append([]string{"gen", "svc/web", "-n", w.Namespace},
		args...)...)); err != nil {
		t.Fatal(err)
	}
	name, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "jobs", "-l", "app.kubernetes.io/managed-by=lapse",
		"-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := c.Kubectl(context.Background(), "delete", "clusterroles,clusterrolebindings",
			"-l", "lapse.dev/run="+name); err != nil {
			t.Error(out, err)
		}
	})
	return name
}

// measuring waits until a Job's Pod is ready. (The Job is there at once; to wait for its Pod by a label fails while
// there is none.)
func measuring(t *testing.T, c *drill.Cluster, w drill.Workload, job string) {
	t.Helper()
	if _, err := c.Kubectl(t.Context(), "-n", w.Namespace, "wait", "--for=jsonpath={.status.ready}=1",
		"job/"+job, "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
}

// Without a command the workstation has nothing to do but follow: it must end with the run, and clean up.
func TestDurationEndsByItself(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	run := measure(t, c, w, "--rate=100", "--duration=3s")
	if run.Timeline.Run.Aborted != "" || run.Timeline.Verdict.Sent == 0 || run.Timeline.Lost() != 0 {
		t.Errorf("aborted %q, verdict %+v: want a clean run to its planned end",
			run.Timeline.Run.Aborted, run.Timeline.Verdict)
	}
	nothingLeft(t, c, run)
}

// nothingLeft checks that a run has taken all its objects away.
func nothingLeft(t *testing.T, c *drill.Cluster, run drill.Run) {
	t.Helper()
	const kinds = "jobs,pods,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
	left, err := c.Kubectl(t.Context(), "get", kinds, "-A", "-l", "lapse.dev/run="+run.Timeline.Run.ID, "-o", "name")
	if err != nil || strings.TrimSpace(left) != "" || run.Timeline.Run.ID == "" {
		t.Errorf("left behind by %s: %s (%v)", run.Timeline.Run.ID, left, err)
	}
}

func TestKustomizeAloneMeasures(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	overlay := t.TempDir()
	base, err := filepath.Abs("../../deploy/kustomize/base")
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(overlay, base)
	if err != nil {
		t.Fatal(err)
	}
	kustomization := fmt.Sprintf(`
resources: [%s]
namespace: %s
images:
- {name: lapse, newName: lapse, newTag: dev}
patches:
- target: {kind: Job, name: lapse}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/args, value: [run, svc/web, --duration=5s, --rate=100, --fail-if=failed>0]}
`, rel, w.Namespace)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "-k", overlay); err != nil {
		t.Fatal(err)
	}
	// The verdict is in the termination message once the Pod has ended, and the timeline in its log until then.
	measuring(t, c, w, "lapse")
	dir := filepath.Join(t.TempDir(), "fetched")
	out := lapse(t, c, "retrieve", "lapse", "-n", w.Namespace, "--out", dir)
	t.Log(out)
	timeline, err := drill.ReadTimeline(dir)
	if err != nil {
		t.Fatal(err)
	}
	if timeline.Verdict.Sent == 0 || timeline.Verdict.Result == "" {
		t.Errorf("verdict %+v: want a run that was measured", timeline.Verdict)
	}
}

// lapse runs the binary to a good end, and returns what it prints. That a run measured too little, as on a busy
// machine, is as good (exit 4).
func lapse(t *testing.T, c *drill.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Lapse, args...)
	cmd.Env, cmd.Stderr = c.Env(), t.Output()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 4) {
		t.Fatalf("lapse %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
