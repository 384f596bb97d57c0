//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kill ends the guard's process in Pods by SIGKILL, and waits until their containers have started again.
func (g *guarded) kill(pods ...string) {
	g.t.Helper()
	restarts := map[string]string{}
	for _, pod := range pods {
		count, err := strconv.Atoi(g.kubectl("-n", g.namespace, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"))
		if err != nil {
			g.t.Fatal(err)
		}
		restarts[pod] = strconv.Itoa(count + 1)
		uid := g.kubectl("-n", g.namespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
		if err := syscall.Kill(g.pid(uid, "guard"), syscall.SIGKILL); err != nil {
			g.t.Fatal(err)
		}
	}
	for pod, count := range restarts {
		g.kubectl("-n", g.namespace, "wait", "pod/"+pod, "--for=jsonpath={.status.containerStatuses[0].restartCount}="+count, "--timeout=3m")
	}
}

// pid returns the process of Lapse with a verb in a Pod, found by its control group.
func (g *guarded) pid(uid, verb string) int {
	g.t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		g.t.Fatal(err)
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(group), uid) {
			continue // it has ended, or is not of this Pod
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.Contains(string(command), "\x00"+verb+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			g.t.Fatal(err)
		}
		return pid
	}
	g.t.Fatalf("no lapse %s runs in the Pod %s", verb, uid)
	return 0
}

// pods returns the guard's Pods, first the one that leads.
func (g *guarded) pods() []string {
	g.t.Helper()
	leader := g.kubectl("-n", g.namespace, "get", "lease", "lapse-guard", "-o", "jsonpath={.spec.holderIdentity}")
	all := []string{leader}
	for _, pod := range strings.Fields(g.kubectl("-n", g.namespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "-o", "jsonpath={.items[*].metadata.name}")) {
		if pod != leader {
			all = append(all, pod)
		}
	}
	return all
}

// inState waits until each of the guard's Pods has a Service in a state.
func (g *guarded) inState(pods []string, service, state string) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Minute)
	defer cancel()
	series := fmt.Sprintf(`lapse_guard_state{service=%q,state=%q}`, service, state)
	for _, pod := range pods {
		path := "/api/v1/namespaces/" + g.namespace + "/pods/" + pod + ":7117/proxy/metrics"
		for is := false; !is; time.Sleep(200 * time.Millisecond) { // the guard is asked again
			err := g.c.Metrics(ctx, path, func(of string, value float64) { is = is || of == series && value == 1 })
			if ctx.Err() != nil {
				return fmt.Errorf("%s is not %s in %s: %w", service, state, pod, cmp.Or(err, ctx.Err()))
			}
		}
	}
	return nil
}

// awaits waits until the guard's status says something.
func (g *guarded) awaits(what string) {
	g.t.Helper()
	var said []byte
	until(g.t, "the guard's status says "+what, func() bool {
		cmd := exec.CommandContext(g.t.Context(), g.c.Lapse, "guard", "status", "-n", g.namespace)
		cmd.Env = g.c.Env()
		said, _ = cmd.CombinedOutput() // the one that leads may have been killed
		return strings.Contains(string(said), what)
	}, func() string { return string(said) })
}

// beginRollOut begins a rollout of the workload, and returns how to wait for its end. That returns what the gate is asked.
func (g *guarded) beginRollOut() (end func() []string) {
	g.t.Helper()
	ns := g.w.Namespace
	g.kubectl("-n", ns, "rollout", "restart", "deployment/web")
	return func() []string {
		g.t.Helper()
		g.kubectl("-n", ns, "rollout", "status", "deployment/web", "--timeout=2m")
		return []string{"--hash=" + g.kubectl("-n", ns, "get", "pods", "-l", "app=web", "--sort-by=.metadata.creationTimestamp",
			"-o", "jsonpath={.items[-1:].metadata.labels.pod-template-hash}")}
	}
}

// said returns how many Events the Service has of rollouts.
func (g *guarded) said() int {
	g.t.Helper()
	events := g.kubectl("-n", g.w.Namespace, "get", "events", "-o", `jsonpath={range .items[?(@.involvedObject.kind=="Service")]}{.message}{"\n"}{end}`)
	return strings.Count(events, "rollout of web")
}

// The guard that leads is killed while it waits, and in the middle of a rollout: the other one has measured all along, and
// each rollout has one verdict and one Event. Both killed know nothing of the time before, and measure the next rollout.
func TestKilledGuardsLoseNoRollout(t *testing.T) {
	t.Parallel()
	g := guard(t, 2, "")
	g.kubectl("-n", g.namespace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")
	since := time.Now().UTC().Format(time.RFC3339Nano)
	rollouts := 0
	passes := func(during func()) {
		t.Helper()
		rollouts += g.passes(func() []string {
			end := g.beginRollOut()
			during()
			return end()
		}, "rollout of web: ")
		g.stands()
	}
	g.kill(g.pods()[0])
	passes(func() {})
	passes(func() {
		g.awaits("recording")
		g.kill(g.pods()[0])
	})
	if n := g.said(); n != rollouts {
		t.Errorf("%d rollouts, and the Service has Events of %d", rollouts, n)
	}
	g.kill(g.pods()...)
	g.stands()
	said := lapse(t, g.c, "gate", "svc/web", "-n", g.w.Namespace, "--since="+since, "--none-passes", "--wait=1m")
	if !strings.HasPrefix(said, "INCONCLUSIVE ") || !strings.Contains(said, "measured") {
		t.Errorf("of the time before both were killed the gate says %s", said)
	}
	passes(func() {})
}

// The API server stands still in the middle of a rollout, for longer than any Lease. What was measured meanwhile is
// judged, and told once when it is back. Then `lapse delete guard` leaves nothing.
func TestAGuardOutlivesTheAPIServer(t *testing.T) {
	g := guard(t, 2, "")
	g.kubectl("-n", g.namespace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")
	state, err := g.c.State()
	if err != nil {
		t.Fatal(err)
	}
	signal := func(s syscall.Signal) {
		for _, p := range state.Processes {
			if p.Name == "kube-apiserver" {
				_ = syscall.Kill(p.PID, s)
			}
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	rollouts := g.passes(func() []string {
		end := g.beginRollOut()
		g.awaits("recording")
		signal(syscall.SIGSTOP)
		back := make(chan struct{})
		time.AfterFunc(40*time.Second, func() { // the nodes are taken for lost after 50 s
			signal(syscall.SIGCONT)
			close(back)
		})
		<-back
		var err error
		until(t, "the API server answers", func() bool {
			_, err = g.c.Kubectl(t.Context(), "get", "--raw", "/readyz")
			return err == nil
		}, func() string { return err.Error() })
		return end()
	}, "rollout of web: ")
	if n := g.said(); n != rollouts {
		t.Errorf("%d rollouts, and the Service has Events of %d", rollouts, n)
	}
	if restarts := g.kubectl("-n", g.namespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"); restarts != "0 0" {
		t.Errorf("the guards have restarted: %s", restarts)
	}
	lapse(t, g.c, "delete", "guard", "-n", g.namespace)
	if left := g.kubectl("-n", g.namespace, "get", "deployments,replicasets,pods,services,configmaps,serviceaccounts,roles,rolebindings,poddisruptionbudgets,leases",
		"-o", "name", "--ignore-not-found"); strings.Contains(left, "lapse") {
		t.Errorf("left is\n%s", left)
	}
}
