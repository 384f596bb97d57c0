package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lapse/sandbox/build"
	"lapse/sandbox/command"
	"lapse/sandbox/outer"
	"lapse/sandbox/problem"
)

type upOptions struct {
	nodes     int
	proxyMode string
	families  string
	lb        bool
	ingress   bool
}

func (o upOptions) validate() error {
	if o.nodes < 1 || o.nodes > maxNodes {
		return problem.Errorf("--nodes %d: choose 1 to %d", o.nodes, maxNodes)
	}
	if o.proxyMode != "iptables" && o.proxyMode != "nftables" && o.proxyMode != "ipvs" {
		return problem.Errorf("--proxy-mode %q: choose iptables, nftables or ipvs", o.proxyMode)
	}
	if o.families != "ipv4" && o.families != dualStack {
		return problem.Errorf("--families %q: choose ipv4 or %s", o.families, dualStack)
	}
	return nil
}

const dualStack = "ipv4,ipv6"

func (o upOptions) describe() string {
	if o.families == dualStack {
		return fmt.Sprintf("%d nodes, %s, kube-proxy %s", o.nodes, dualStack, o.proxyMode)
	}
	return fmt.Sprintf("%d nodes, kube-proxy %s", o.nodes, o.proxyMode)
}

func (s *sandbox) options() upOptions {
	o := upOptions{nodes: s.Nodes, proxyMode: s.ProxyMode, families: "ipv4"}
	if s.DualStack {
		o.families = dualStack
	}
	return o
}

func runUp(ctx context.Context, a *app, args []string) error {
	var o upOptions
	err := parseVerb(a, "up", args, func(flags *flag.FlagSet) {
		flags.IntVar(&o.nodes, "nodes", 3, "number of nodes")
		flags.BoolVar(&o.lb, "lb", false, "also start the load balancer, as `sandbox lb up` does")
		flags.BoolVar(&o.ingress, "ingress", false, "also start the ingress, as `sandbox ingress up` does")
		flags.StringVar(&o.proxyMode, "proxy-mode", "iptables",
			"how kube-proxy routes: iptables, nftables, or ipvs, which many kernels lack")
		flags.StringVar(&o.families, "families", "ipv4",
			"address families of Pods, Services and nodes: ipv4 or "+dualStack)
	})
	if err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	if err := preflight(ctx, a.dir); err != nil {
		return err
	}
	if err := theKernel.can(o); err != nil {
		return err
	}
	release, err := lockMachine()
	if err != nil {
		return err
	}
	defer release()
	if err := up(ctx, a, o); err != nil {
		return err
	}
	if o.lb {
		if err := startLB(ctx, a, outer.Default); err != nil {
			return err
		}
	}
	if o.ingress {
		return startIngress(ctx, a, ingressOptions{ProxyConfig: outer.DefaultProxy, on: balancerHost.Name})
	}
	return nil
}

func up(ctx context.Context, a *app, o upOptions) error {
	already, err := isUp(ctx, a, o)
	if already || err != nil {
		return err
	}
	if err := notTaken(netnsOwners(ctx), a.dir); err != nil {
		return err
	}
	p, err := prepare(ctx, a)
	if err != nil {
		return err
	}
	meminfo, _ := os.ReadFile("/proc/meminfo")
	if err := enoughMemory(string(meminfo), o.nodes); err != nil {
		return err
	}
	begin := time.Now()
	s, err := create(a.dir, o)
	if err != nil {
		return err
	}
	if err := s.bringUp(ctx, a.log, p); err != nil {
		return s.giveUp(a.log, err)
	}
	fmt.Fprintf(a.log, "ready after %.1f s: %s, Kubernetes %s\n\n",
		time.Since(begin).Seconds(), o.describe(), build.KubernetesVersion)
	fmt.Fprintf(a.log, "  export KUBECONFIG=%s PATH=%s:$PATH\n", s.kubeconfig(), s.path("bin"))
	return nil
}

// isUp answers for the sandbox that may be there already. One that is broken, or left over from before a crash or
// a reboot, is cleared away.
func isUp(ctx context.Context, a *app, o upOptions) (bool, error) {
	s, err := load(a.dir)
	if err != nil { // none, or a file that was cut off
		return false, clearLeftover(ctx, a)
	}
	if dead := s.ended(); s.Ready && len(dead) == 0 {
		if s.options().describe() != o.describe() {
			return false, problem.Errorf("a sandbox with %s is up: run `sandbox down` first", s.options().describe())
		}
		fmt.Fprintf(a.log, "already up: %s\n", o.describe())
		return true, nil
	}
	fmt.Fprintln(a.log, "clearing away what an earlier sandbox left")
	return false, down(context.WithoutCancel(ctx), a.dir, false)
}

// clearLeftover clears away a sandbox whose state file is lost or cut off.
func clearLeftover(ctx context.Context, a *app) error {
	if !holdsFiles(a.dir) && len(claimOf(netnsOwners(ctx), a.dir).namespaces) == 0 {
		return nil
	}
	fmt.Fprintln(a.log, "clearing away what an earlier sandbox left")
	return down(context.WithoutCancel(ctx), a.dir, false)
}

func holdsFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// create makes the state directory and its file, before anything else exists.
func create(dir string, o upOptions) (*sandbox, error) {
	s := &sandbox{
		stateDir:    stateDir{dir},
		shape:       shape{Nodes: o.nodes, DualStack: o.families == dualStack},
		netnsBefore: netnsBefore{HadNetnsMount: len(mountsUnder(netnsDir)) > 0},
		ProxyMode:   o.proxyMode,
		Boot:        bootID(),
		Started:     time.Now().UTC(),
	}
	_, err := os.Lstat(netnsDir)
	s.HadNetnsDir = err == nil
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, problem.Errorf("the state directory cannot be made: %v", err)
	}
	os.RemoveAll(s.path("logs")) // of an up that failed
	if err := s.save(); err != nil {
		return nil, err
	}
	for _, sub := range []string{"bin", "logs", "pki", "config", "nodes", "etcd"} {
		if err := os.MkdirAll(s.path(sub), 0o700); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// giveUp says which component failed and why, and takes down what was started. The logs stay.
func (s *sandbox) giveUp(log io.Writer, err error) error {
	if failed, ok := errors.AsType[componentError](err); ok {
		fmt.Fprintf(log, "\nthe last lines of %s:\n%s\n\n", s.log(failed.component), tail(s.log(failed.component), 15))
	}
	if e := down(context.Background(), s.Dir, true); e != nil {
		fmt.Fprintln(log, "while clearing away:", e)
	}
	return fmt.Errorf("%w (logs: %s)", err, s.path("logs"))
}

// bringUp starts everything in the order in which things need each other.
func (s *sandbox) bringUp(ctx context.Context, log io.Writer, p prepared) error {
	b := &bringer{sandbox: s, prepared: p, log: log, containerd: map[string]*daemon{}}
	if err := b.installBinaries(); err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"network", b.network},
		{"relay, certificates, configuration", b.files},
		{"etcd, API server, containerd, images", b.firstLayer},
		{"controllers, scheduler, CoreDNS, kubelets, kube-proxies", b.secondLayer},
		{"nodes ready, names resolve", b.settle},
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.run(ctx); err != nil {
			return err
		}
		fmt.Fprintf(log, "  %-58s %5.1f s\n", step.name, time.Since(begin).Seconds())
	}
	s.Ready = true
	return s.save()
}

// bringer is one up under way.
type bringer struct {
	*sandbox
	prepared
	log io.Writer

	relay, apiServer, coreDNS *daemon
	containerd                map[string]*daemon // by node; filled before the nodes' goroutines start
	kubelets                  []*daemon
	proxies                   []*daemon
}

func (b *bringer) bin(name string) string { return b.prepared.bin(name) }

// installBinaries puts this program (it may run from a temporary directory of `go run`) and kubectl in bin/.
func (b *bringer) installBinaries() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.self(), data, 0o755); err != nil {
		return err
	}
	return os.Symlink(b.bin("kubectl"), b.sandbox.bin("kubectl"))
}

func (b *bringer) network(ctx context.Context) error {
	if err := buildNetwork(ctx, b.Dir, b.nodes(), b.DualStack); err != nil {
		return err
	}
	switched, err := makeCgroups(b.nodes())
	b.Controllers = switched
	return errors.Join(err, b.save())
}

func (b *bringer) files(context.Context) error {
	listener, err := listenRelay()
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	b.Endpoint = listener.Addr().String()
	if b.relay, err = b.launch("relay", nil, []*os.File{socket}, "relay"); err != nil {
		return err
	}
	if err := b.writeCredentials(time.Now()); err != nil {
		return err
	}
	return b.writeConfig(b.runtime)
}

func (b *bringer) firstLayer(ctx context.Context) error {
	for _, n := range b.nodes() {
		d, err := b.startContainerd(n)
		if err != nil {
			return err
		}
		b.containerd[n.Name] = d
	}
	tasks := []func(context.Context) error{b.startAPIServer}
	for _, n := range b.nodes() {
		tasks = append(tasks, func(ctx context.Context) error { return b.prepareNode(ctx, n) })
	}
	return parallel(ctx, tasks...)
}

func (b *bringer) secondLayer(ctx context.Context) error {
	if err := b.startControllers(); err != nil {
		return err
	}
	for _, n := range b.nodes() {
		if err := b.startNode(n); err != nil {
			return err
		}
	}
	// On the server's side, since the kubelets register their nodes at the same time: a client that looks first and
	// creates then comes too late.
	return command.Run(ctx, "", b.bin("kubectl"), "--kubeconfig", b.kubeconfig(), "apply",
		"--server-side", "--force-conflicts", "--validate=false", "-f", b.config("objects.yaml"))
}

// prepareNode waits for the node's containerd and gives it the images that are always there.
func (b *bringer) prepareNode(ctx context.Context, n node) error {
	containerd := b.containerd[n.Name]
	socket := filepath.Join(b.nodeRoot(n.Name), "run/containerd/containerd.sock")
	err := containerd.until(ctx, time.Minute, func(ctx context.Context) error {
		if _, err := os.Stat(socket); err != nil {
			return err
		}
		return b.serves(ctx, containerd.process) // the socket is there a moment before containerd listens on it
	})
	if err != nil {
		return err
	}
	for _, tar := range b.images {
		if err := b.importImage(ctx, b.runtime, n, tar); err != nil {
			return err
		}
	}
	return nil
}
