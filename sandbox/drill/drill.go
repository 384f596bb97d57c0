// Package drill plays maintenance on the sandbox while Lapse measures: it deploys the workload, drains
// a node or deletes a Pod under `lapse run`, and reads what Lapse made of it. The demo, the studies
// and the end-to-end tests stand on it.
//
// It uses Lapse as its users do, as a program with flags and a timeline.json, and so knows nothing of its code.
package drill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Cluster is a sandbox that is up, with the program to measure it. The image that this program names by default is
// to be on the nodes (`make image`, `sandbox load`).
type Cluster struct {
	Dir   string    // the sandbox's state directory
	Lapse string    // path of the lapse binary
	Log   io.Writer // where Lapse's and kubectl's talk goes
}

// Open finds the sandbox that is up.
func Open(lapse string, log io.Writer) (*Cluster, error) {
	c := &Cluster{Dir: cmp.Or(os.Getenv("LAPSE_SANDBOX_DIR"), "/var/lib/lapse-sandbox"), Lapse: lapse, Log: log}
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("no sandbox is up (%w): run `sandbox up` first", err)
	}
	return c, nil
}

// Kubeconfig returns the path of the cluster administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Env returns the environment in which kubectl and lapse find the cluster.
func (c *Cluster) Env() []string {
	return append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+filepath.Join(c.Dir, "bin")+":"+os.Getenv("PATH"))
}

// Kubectl runs kubectl and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, nil, args...)
}

func (c *Cluster) kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "kubectl"), args...)
	cmd.Env, cmd.Stdin = c.Env(), stdin
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s",
			strings.Join(args, " "), err, strings.TrimSpace(talk.String()))
	}
	return out.String(), nil
}

// A Workload is a Deployment of the sandbox's HTTP server, and a Service before it.
type Workload struct {
	Namespace string
	Name      string
	Replicas  int
	Args      []string // of the server: how it starts, answers and ends
	Grace     int      // terminationGracePeriodSeconds; default 30
	Node      string   // where all replicas go; "": to different nodes
	Metrics   []string // args of a second server in each Pod, behind the Service's port "metrics"; nil: none

	// Neighbours are Pods of another Service, spread over all nodes, as real nodes have them. A drain evicts them at
	// the same time, and kube-proxy, which rewrites its rules at once but then not again for a second
	// (minSyncPeriod), has often just done so for one of them when the workload's own endpoint changes.
	Neighbours int
}

// Deploy creates the workload in a new namespace, and waits until every replica is ready and every node leads to it.
func (c *Cluster) Deploy(ctx context.Context, w Workload) error {
	if err := c.Remove(ctx, w.Namespace); err != nil {
		return err
	}
	if err := c.Uncordon(ctx); err != nil {
		return err
	}
	if err := c.Apply(ctx, w.Manifest()); err != nil {
		return err
	}
	if err := c.Ready(ctx, w); err != nil {
		return err
	}
	return c.Routed(ctx, w.Namespace, w.Name)
}

// Routed waits until every node leads connections to the Service: kube-proxy may learn of a new one up to a second
// after its Pods are ready.
func (c *Cluster) Routed(ctx context.Context, namespace, service string) error {
	address, err := c.Kubectl(ctx, "-n", namespace, "get", "service", service,
		"-o", "jsonpath={.spec.clusterIP}/{.spec.ports[0].port}")
	if err != nil {
		return err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, len(nodes))
	var asked sync.WaitGroup
	for i, node := range nodes {
		asked.Go(func() { problems[i] = c.leads(ctx, node, service, address) })
	}
	asked.Wait()
	return errors.Join(problems...)
}

// leads waits until five connections from a node to a Service's address, one after the other, all succeed.
func (c *Cluster) leads(ctx context.Context, node, service, address string) error {
	connect := "for i in 1 2 3 4 5; do timeout 1 bash -c 'exec 3<>/dev/tcp/" + address + "' || exit 1; done"
	for {
		out, err := c.On(ctx, node, "bash", "-c", connect).CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not lead to Service %s: %w: %s", node, service, ctx.Err(), out)
		}
	}
}

// Apply creates or changes the objects of a YAML stream.
func (c *Cluster) Apply(ctx context.Context, yaml string) error {
	_, err := c.kubectl(ctx, strings.NewReader(yaml), "apply", "-f", "-")
	return err
}

// ApplyStatus writes the status of objects that are there, as a controller or a kubelet does.
func (c *Cluster) ApplyStatus(ctx context.Context, yaml string) error {
	_, err := c.kubectl(ctx, strings.NewReader(yaml), "apply",
		"--server-side", "--force-conflicts", "--subresource=status", "-f", "-")
	return err
}

// Remove deletes a namespace with all that is in it.
func (c *Cluster) Remove(ctx context.Context, namespace string) error {
	_, err := c.Kubectl(ctx, "delete", "namespace", namespace, "--ignore-not-found", "--wait", "--timeout=5m")
	return err
}

// Nodes lists the nodes' names.
func (c *Cluster) Nodes(ctx context.Context) ([]string, error) {
	nodes, err := c.names(ctx, "get", "nodes")
	for i := range nodes {
		nodes[i] = strings.TrimPrefix(nodes[i], "node/")
	}
	return nodes, err
}

// State is what the sandbox says of itself.
type State struct {
	Nodes     int       `json:"nodes"`
	ProxyMode string    `json:"proxyMode"` // how kube-proxy routes: iptables, nftables or ipvs
	DualStack bool      `json:"dualStack"`
	Processes []Process `json:"processes"`
}

// Process is one of a component.
type Process struct {
	Name  string `json:"name"` // kube-proxy-node1, coredns
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // tells it from a later process with the same pid
}

// State reads the sandbox's state.
func (c *Cluster) State() (s State, err error) {
	data, err := os.ReadFile(filepath.Join(c.Dir, "sandbox.json"))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// PIDs finds the processes of a component on some nodes, or on every one.
func (c *Cluster) PIDs(component string, nodes ...string) (pids []int, err error) {
	state, err := c.State()
	if err != nil {
		return nil, err
	}
	for _, p := range state.Processes {
		node, of := strings.CutPrefix(p.Name, component+"-")
		if of && strings.HasPrefix(node, "node") && (len(nodes) == 0 || slices.Contains(nodes, node)) {
			pids = append(pids, p.PID)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("the sandbox has no process %s on %v", component, nodes)
	}
	return pids, nil
}

// ProxyMode returns how kube-proxy routes, "unknown" if the state does not say.
func (c *Cluster) ProxyMode() string {
	state, err := c.State()
	if err != nil {
		return "unknown"
	}
	return state.ProxyMode
}

// On prepares a command in a node's network.
func (c *Cluster) On(ctx context.Context, node string, command ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "sandbox"),
		append([]string{"--dir", c.Dir, "exec", node, "--"}, command...)...)
}

// Uncordon lets every node take Pods again.
func (c *Cluster) Uncordon(ctx context.Context) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, append([]string{"uncordon"}, nodes...)...)
	return err
}

// Ready waits until the workload has all its replicas, and none more.
func (c *Cluster) Ready(ctx context.Context, w Workload) error {
	for _, name := range w.deployments() {
		_, err := c.Kubectl(ctx, "-n", w.Namespace, "rollout", "status", "deployment/"+name, "--timeout=5m")
		if err != nil {
			return err
		}
	}
	for {
		pods, err := c.names(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name)
		if err != nil {
			return err
		}
		if len(pods) == w.Replicas {
			return nil
		}
		// A Pod is still terminating: it is gone when kubectl says so.
		gone := append([]string{"-n", w.Namespace, "wait", "--for=delete", "--timeout=2s"}, pods...)
		if _, err := c.Kubectl(ctx, gone...); ctx.Err() != nil {
			return fmt.Errorf("waiting for %d Pods, there are %d: %w (%w)", w.Replicas, len(pods), ctx.Err(), err)
		}
	}
}

func (c *Cluster) names(ctx context.Context, args ...string) ([]string, error) {
	out, err := c.Kubectl(ctx, append(args, "-o", "name")...)
	return strings.Fields(out), err
}

// NodeOf returns the node of one of the workload's Pods.
func (c *Cluster) NodeOf(ctx context.Context, w Workload) (string, error) {
	out, err := c.Kubectl(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name,
		"-o", "jsonpath={.items[0].spec.nodeName}")
	return strings.TrimSpace(out), err
}

// A Run is what Lapse made of a drill.
type Run struct {
	Dir      string
	ExitCode int
	Output   string // Lapse's standard output
	Timeline Timeline
}

// Measure runs `lapse run svc/NAME` with args, which may end in a command to wrap. The error is only for a
// run that left no timeline.
func (c *Cluster) Measure(ctx context.Context, w Workload, dir string, args ...string) (Run, error) {
	args = append([]string{"run", "svc/" + w.Name, "-n", w.Namespace, "--out", dir}, args...)
	return c.Command(ctx, args...).Finish(dir)
}

// A Command is Lapse, not yet started, or under way.
type Command struct {
	*exec.Cmd
	out bytes.Buffer
}

// Command prepares Lapse with args, which are of the verb run and say --out.
func (c *Cluster) Command(ctx context.Context, args ...string) *Command {
	cmd := &Command{Cmd: exec.CommandContext(ctx, c.Lapse, args...)}
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env(), &cmd.out, c.Log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// Outside is Command on the machine outside of the nodes, which reaches their load balancer and their ingress.
func (c *Cluster) Outside(ctx context.Context, args ...string) *Command {
	lapse, err := filepath.Abs(c.Lapse)
	if err != nil {
		lapse = c.Lapse
	}
	cmd := c.Command(ctx, args...)
	cmd.Path, cmd.Err = filepath.Join(c.Dir, "bin", "sandbox"), nil
	cmd.Args = append([]string{cmd.Path, "--dir", c.Dir, "exec", "outside", "--", lapse}, args...)
	return cmd
}

// Finish starts a command that has not been, waits for its end, and reads what it left in its folder.
func (c *Command) Finish(dir string) (Run, error) {
	var err error
	if c.Process == nil {
		err = c.Run()
	} else {
		err = c.Wait()
	}
	run := Run{Dir: dir, ExitCode: c.ProcessState.ExitCode(), Output: c.out.String()}
	var readErr error
	if run.Timeline, readErr = ReadTimeline(dir); readErr != nil {
		return run, fmt.Errorf("%s left no timeline: %w (exit code %d)",
			strings.Join(c.Args, " "), cmp.Or(err, readErr), run.ExitCode)
	}
	return run, nil
}

// ReadTimeline reads what a run left in its folder.
func ReadTimeline(dir string) (t Timeline, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "timeline.json"))
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("read %s/timeline.json: %w", dir, err)
	}
	return t, nil
}

// Judge judges a saved run again.
func Judge(ctx context.Context, lapse, dir string) (Run, error) {
	cmd := exec.CommandContext(ctx, lapse, "report", dir, "-o", "json")
	out, err := cmd.Output()
	run := Run{Dir: dir, ExitCode: cmd.ProcessState.ExitCode()}
	if jsonErr := json.Unmarshal(out, &run.Timeline); jsonErr != nil {
		return run, fmt.Errorf("judge %s again: %w", dir, cmp.Or(err, jsonErr))
	}
	return run, nil
}

// Drain drains a node of the workload's while Lapse measures.
func (c *Cluster) Drain(ctx context.Context, w Workload, dir string, args ...string) (Run, error) {
	if err := c.Uncordon(ctx); err != nil {
		return Run{}, err
	}
	if err := c.Ready(ctx, w); err != nil {
		return Run{}, err
	}
	node, err := c.NodeOf(ctx, w)
	if err != nil {
		return Run{}, err
	}
	return c.Measure(ctx, w, dir, append(args, "--", "kubectl", "drain", node, "--ignore-daemonsets")...)
}

// StaleRoutes returns a command that runs a shell command while the kube-proxy of some nodes, or of every node, is
// stopped, until another shell command has ended: routes outlive a Pod for certain then. It exits with the first
// command's code. resume continues every kube-proxy at once: call it in the end, whatever became of the command.
func (c *Cluster) StaleRoutes(command, until string, nodes ...string) (words []string, resume func(), err error) {
	pids, err := c.PIDs("kube-proxy", nodes...)
	if err != nil {
		return nil, nil, err
	}
	all := strings.Trim(fmt.Sprint(pids), "[]")
	script := fmt.Sprintf("kill -STOP %s; (%s; kill -CONT %s) & %s; code=$?; wait; exit $code",
		all, until, all, command)
	return []string{"sh", "-c", script}, func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
		}
	}, nil
}
