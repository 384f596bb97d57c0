// Command sandbox runs a real Kubernetes with several nodes on one Linux machine, without Docker and
// without virtual machines: etcd, kube-apiserver, controller-manager and scheduler in one network
// namespace, and per node one namespace with containerd, kubelet and kube-proxy of its own.
//
//	$ sandbox setup              install what is missing, build every component once
//	$ sandbox up --nodes 3       about 20 seconds
//	$ sandbox kubectl get nodes
//	$ sandbox down               nothing is left behind
//
// Everything lives in one state directory and in namespaces named lapse-*. The host's own network,
// mounts, sysctls, Docker and containerd stay as they are; the host reaches the API server through a
// relay on 127.0.0.1.
//
// Reading order: up.go starts everything, down.go ends it; plan.go has the addresses, config/ the
// configuration of every component, kernel_linux.go the system calls. Package build makes what is started.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"lapse/sandbox/problem"
)

// Exit codes: a problem is something the reader can put right (not root, a missing package, a wrong
// flag); anything else that fails is exit 1.
const (
	exitOK      = 0
	exitFailed  = 1
	exitProblem = 2
)

// app is what every verb gets: where to write, and the two directories.
type app struct {
	out, log io.Writer
	dir      string // the state of the running sandbox; gone after down
	cache    string // built components; kept
}

type verb struct {
	name, args, help string
	hidden           bool
	run              func(ctx context.Context, a *app, args []string) error
}

var verbs []verb

func init() { // not a literal: printing the usage reads the table
	verbs = []verb{
		{name: "setup", help: "install missing Debian packages and build every component once", run: runSetup},
		{name: "up", args: "[--nodes 3] [--proxy-mode MODE] [--families ipv4,ipv6] [--lb] [--ingress]",
			help: "start the cluster and wait until it is ready", run: runUp},
		{name: "down", help: "end everything and leave nothing behind (works after a crash, works twice)",
			run: runDown},
		{name: "status", help: "show what is running", run: runStatus},
		{name: "kubeconfig", help: "print the path of the kubeconfig", run: runKubeconfig},
		{name: "load", args: "IMAGE.tar|debian:PACKAGE",
			help: "import an image into every node; debian:nginx-light is made of this package and what it depends on",
			run:  runLoad},
		{name: "exec", args: "NODE -- CMD...",
			help: "run a command in a node's network (cp: the control plane, outside: a client that is no node)",
			run:  runExec},
		{name: "restart", args: "COMPONENT",
			help: "end a component (kubelet-node1, coredns) and start it again as it was",
			run:  runRestart},
		{name: "lb", args: "up|down|status",
			help: "a load balancer outside of the nodes, for Services of type LoadBalancer; `lb up -h` lists its flags",
			run:  runLB},
		{name: "ingress", args: "up|down|status",
			help: "HAProxy before the Pods, by Ingress objects; `ingress up -h` lists its flags",
			run:  runIngress},
		{name: "kubectl", args: "ARGS...", help: "run kubectl against the sandbox", run: runKubectl},
		{name: "enter", hidden: true, run: runEnter},
		{name: "relay", hidden: true, run: runRelay},
		{name: "balance", hidden: true, run: runBalance},
		{name: "proxy", hidden: true, run: runProxy},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	addSbinToPath()
	err := dispatch(ctx, args, stdout, stderr)
	switch _, fixable := errors.AsType[problem.Error](err); {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case fixable:
		fmt.Fprintln(stderr, "sandbox:", err)
		return exitProblem
	default:
		fmt.Fprintln(stderr, "sandbox:", err)
		return exitFailed
	}
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	a := &app{out: stdout, log: stderr}
	global := flagSet("sandbox", stderr)
	dirFlag(global, a)
	global.Usage = func() { usage(stderr) }
	if err := parse(global, args); err != nil {
		return err
	}
	name := global.Arg(0)
	for _, v := range verbs {
		if v.name == name {
			if err := a.resolve(); err != nil {
				return err
			}
			return v.run(ctx, a, global.Args()[1:])
		}
	}
	if name == "" || name == "help" {
		usage(stderr)
		return flag.ErrHelp
	}
	return problem.Errorf("unknown verb %q; `sandbox help` lists them", name)
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "sandbox: a real multi-node Kubernetes on one Linux machine\n\nusage: sandbox [--dir DIR] VERB")
	for _, v := range verbs {
		if !v.hidden {
			fmt.Fprintf(w, "  %-54s %s\n", v.name+" "+v.args, v.help)
		}
	}
	fmt.Fprintf(w, "\nLAPSE_SANDBOX_DIR holds the state (%s), LAPSE_SANDBOX_CACHE the built components.\n", defaultDir)
}

const defaultDir = "/var/lib/lapse-sandbox"

func dirFlag(flags *flag.FlagSet, a *app) {
	flags.StringVar(&a.dir, "dir", cmp.Or(a.dir, os.Getenv("LAPSE_SANDBOX_DIR"), defaultDir), "state directory")
}

func flagSet(name string, w io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(w)
	return flags
}

// parse turns a wrong flag into a problem; flag has printed the usage already.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return problem.Errorf("%v", err)
	}
	return err
}

// parseVerb reads a verb's own flags, --dir among them, and refuses stray arguments.
func parseVerb(a *app, name string, args []string, define func(*flag.FlagSet)) error {
	flags := flagSet("sandbox "+name, a.log)
	dirFlag(flags, a)
	if define != nil {
		define(flags)
	}
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return problem.Errorf("%s: unexpected argument %q", name, flags.Arg(0))
	}
	return a.resolve()
}

// resolve makes both directories absolute: the components run from elsewhere.
func (a *app) resolve() error {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return err
	}
	if dir == "/" {
		return problem.Errorf("--dir must be a directory of its own, not /")
	}
	a.dir = dir
	a.cache, err = cacheDir()
	return err
}

func cacheDir() (string, error) {
	if dir := os.Getenv("LAPSE_SANDBOX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", problem.Errorf("no cache directory (%v): set LAPSE_SANDBOX_CACHE", err)
	}
	return filepath.Join(dir, "lapse-sandbox"), nil
}

// addSbinToPath: `su` without a dash leaves root without the directories that hold ip and iptables.
func addSbinToPath() {
	_ = os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
}
