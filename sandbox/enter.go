package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/problem"
)

// runEnter is the hidden verb through which every component starts: it moves itself into the right
// namespaces and becomes the component, so that pid and parent stay what they were.
//
//	enter --net lapse-cp -- etcd ...                        a network namespace
//	enter --net lapse-node1 --root DIR -- containerd ...    and the node's own /var and /run; with --uptime its clocks
//	enter --beside PID -- kubelet ...                       the namespaces of another process
//
// With --before-others the component gets CPU first. CoreDNS needs that: in a cluster it runs on other machines too,
// and asks for CPU of its own. Here a server that keeps all cores busy would also make names fail to resolve.
func runEnter(_ context.Context, a *app, args []string) error {
	var netns, root, keep string
	var beside int
	var uptime time.Duration
	var beforeOthers bool
	flags := flagSet("enter", a.log)
	flags.StringVar(&netns, "net", "", "network namespace")
	flags.StringVar(&root, "root", "", "directory that holds the node's var and run")
	flags.StringVar(&keep, "keep", "", "directories that stay reachable, separated by colons")
	flags.DurationVar(&uptime, "uptime", 0, "by how much the node has been up longer than this machine")
	flags.IntVar(&beside, "beside", 0, "pid whose namespaces to enter")
	flags.BoolVar(&beforeOthers, "before-others", false, "give it CPU first when the machine is busy")
	if err := parse(flags, args); err != nil {
		return err
	}
	argv := flags.Args()
	if len(argv) == 0 {
		return problem.Errorf("enter: which command?")
	}
	if beforeOthers {
		if err := runBeforeOthers(); err != nil {
			return err
		}
	}
	switch {
	case beside != 0:
		return execBeside(beside, argv)
	case root != "":
		return execAsNode(netns, root, filepath.SplitList(keep), uptime, argv)
	default:
		return execInNetns(netns, argv)
	}
}

func runExec(_ context.Context, a *app, args []string) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return problem.Errorf("usage: sandbox exec NODE -- CMD...")
	}
	ns, err := s.netns(args[0])
	if err != nil {
		return err
	}
	if ns == outsideHost.Netns { // the relay's address is the host's own
		if err := os.Setenv("KUBECONFIG", s.config(outsideHost.Name+".kubeconfig")); err != nil {
			return err
		}
	}
	return execInNetns(ns, args[1:])
}

func (s *sandbox) netns(name string) (string, error) {
	if name == controlPlane {
		return controlPlaneNetns, nil
	}
	for _, h := range hosts {
		if name == h.Name {
			return h.Netns, nil
		}
	}
	n, ok := findNode(s.nodes(), name)
	if !ok {
		return "", problem.Errorf("no node %q: there are node1 to node%d, %s, %s and %s", name, s.Nodes, controlPlane,
			balancerHost.Name, outsideHost.Name)
	}
	return n.Netns, nil
}

func runKubectl(_ context.Context, a *app, args []string) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	if err := os.Setenv("KUBECONFIG", s.kubeconfig()); err != nil {
		return err
	}
	return execve(append([]string{s.bin("kubectl")}, args...))
}

func runKubeconfig(_ context.Context, a *app, args []string) error {
	if err := parseVerb(a, "kubeconfig", args, func(*flag.FlagSet) {}); err != nil {
		return err
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, s.kubeconfig())
	return nil
}

func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", problem.Errorf("%s: command not found", name)
	}
	return path, nil
}

// under reports whether path lies below one of the directories.
func under(path string, dirs []string) bool {
	below := func(dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
	return slices.ContainsFunc(dirs, below)
}

// unescapeMount undoes the octal escapes of /proc/self/mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
