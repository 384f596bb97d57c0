package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lapse/sandbox/build"
	"lapse/sandbox/outer"
	"lapse/sandbox/problem"
)

// The ingress of sandbox/outer: a controller, and HAProxy as its child.
//
//	$ sandbox ingress up --reload-interval 3s
//	$ sandbox kubectl create ingress web --rule=/*=web:80
//	$ sandbox exec outside -- curl http://10.200.0.2/
//	$ sandbox ingress status
//	$ sandbox ingress down

const (
	ingressProcess = "ingress"
	ingressState   = "ingress.json"
)

// ingressOptions are the flags of ingress up.
type ingressOptions struct {
	outer.ProxyConfig
	on string // a node, or the load balancer's host
}

func ingressFlags(o *ingressOptions) func(*flag.FlagSet) {
	return func(flags *flag.FlagSet) {
		flags.DurationVar(&o.Interval, "reload-interval", o.Interval,
			"how often the API server is asked; so late at most the proxy follows")
		flags.DurationVar(&o.Connect, "connect-timeout", o.Connect,
			"how long the proxy waits for a connection to a Pod")
		flags.IntVar(&o.Retries, "retries", o.Retries,
			"tries with another Pod where a connection to one fails; 0: the client gets the 503")
		flags.StringVar(&o.on, "on", o.on, "where it runs: lb (outside of the nodes), or a node, on which it listens "+
			"as with hostNetwork")
	}
}

// runIngress is the verb ingress.
func runIngress(ctx context.Context, a *app, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	o := ingressOptions{ProxyConfig: outer.DefaultProxy, on: balancerHost.Name}
	switch verb {
	case "up":
		if err := parseVerb(a, "ingress up", args[1:], ingressFlags(&o)); err != nil {
			return err
		}
		if err := o.Validate(); err != nil {
			return problem.Errorf("%v", err)
		}
	case "down", "status":
		if err := parseVerb(a, "ingress "+verb, args[1:], nil); err != nil {
			return err
		}
		if verb == "status" {
			return showIngress(a)
		}
	default:
		return problem.Errorf("usage: sandbox ingress up|down|status; `sandbox ingress up -h` lists the flags")
	}
	release, err := lockMachine()
	if err != nil {
		return err
	}
	defer release()
	if verb == "down" {
		return a.end(ctx, ingressProcess, "ingress", (*sandbox).forgetIngress)
	}
	return startIngress(ctx, a, o)
}

// ingressHost returns the namespace that --on names, and the addresses it has there.
func (s shape) ingressHost(on string) (ns string, addrs []netip.Addr, err error) {
	ns, addrs = balancerHost.Netns, []netip.Addr{balancerHost.Addr, balancerHost.Addr6}
	if on != balancerHost.Name {
		n, ok := findNode(s.nodes(), on)
		if !ok {
			const choice = "--on %s: choose %s or a node, node1 to node%d"
			return "", nil, problem.Errorf(choice, on, balancerHost.Name, s.Nodes)
		}
		ns, addrs = n.Netns, []netip.Addr{n.Addr, n.Addr6}
	}
	if !s.DualStack {
		addrs = addrs[:1]
	}
	return ns, addrs, nil
}

// outerPlace returns where the load balancer or the ingress runs, as its command line says.
func (s shape) outerPlace(argv []string) (place, error) {
	on := balancerHost.Name
	for _, arg := range argv {
		if value, ok := strings.CutPrefix(arg, "--on="); ok {
			on = value
		}
	}
	ns, _, err := s.ingressHost(on)
	return inside(ns), err
}

// startIngress starts it and waits until it accepts connections. The caller holds the machine's lock.
func startIngress(ctx context.Context, a *app, o ingressOptions) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	ns, addrs, err := s.ingressHost(o.on)
	if err != nil {
		return err
	}
	if p, there := s.process(ingressProcess); there {
		if p.alive() {
			return problem.Errorf("the ingress is up already: `sandbox ingress down` ends it")
		}
		if err := s.forgetIngress(ctx); err != nil {
			return err
		}
	}
	if _, err := build.IngressProxy.In(a.cache); err != nil {
		return err
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	ingressFlags(&o)(flags)
	argv := []string{s.self(), "--dir", s.Dir, "proxy"}
	flags.VisitAll(func(f *flag.Flag) { argv = append(argv, "--"+f.Name+"="+f.Value.String()) })
	d, err := s.start(ingressProcess, inside(ns), nil, argv...)
	if err != nil {
		return err
	}
	err = d.until(ctx, 30*time.Second, func(ctx context.Context) error {
		conn, err := dialIn(ctx, ns, "tcp", net.JoinHostPort(addrs[0].String(), "80"))
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(s.log(ingressProcess), 5))
	}
	fmt.Fprintf(a.log, "ingress up: http://%s/ leads where Ingress objects say\n", addrs[0])
	return nil
}

// forgetIngress takes the process out of the state, and its addresses out of the Ingresses.
func (s *sandbox) forgetIngress(ctx context.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	var status outer.ProxyStatus
	if data, err := os.ReadFile(s.path(ingressState)); err == nil && json.Unmarshal(data, &status) == nil {
		if err := outer.LeaveIngress(ctx, api, status.Addrs); err != nil {
			return err
		}
	}
	_ = os.Remove(s.path(ingressState))
	_ = os.RemoveAll(s.path(ingressProcess))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes = slices.DeleteFunc(s.Processes, func(p process) bool { return p.Name == ingressProcess })
	return s.save()
}

// runProxy is the hidden verb that is the ingress, in its namespace.
func runProxy(ctx context.Context, a *app, args []string) error {
	o := ingressOptions{ProxyConfig: outer.DefaultProxy, on: balancerHost.Name}
	if err := parseVerb(a, "proxy", args, ingressFlags(&o)); err != nil {
		return err
	}
	s, err := load(a.dir)
	if err != nil {
		return err
	}
	if _, o.Listen, err = s.ingressHost(o.on); err != nil {
		return err
	}
	root, err := build.IngressProxy.In(a.cache)
	if err != nil {
		return err
	}
	o.Program, o.Env = filepath.Join(root, "usr/sbin/haproxy"), build.IngressProxy.Env(root)
	o.Dir = s.path(ingressProcess)
	api, err := newAPIClient(s.config(balancerHost.Name+".kubeconfig"),
		"https://"+net.JoinHostPort(controlPlaneAddr, apiPort))
	if err != nil {
		return err
	}
	return outer.Proxy(ctx, o.ProxyConfig, api, s.path(ingressState), a.log, stampedLog(a.log))
}

func showIngress(a *app) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	if p, there := s.process(ingressProcess); !there || !p.alive() {
		return problem.Errorf("no ingress is up: run `sandbox ingress up`")
	}
	data, err := os.ReadFile(s.path(ingressState))
	if err != nil {
		return err
	}
	var status outer.ProxyStatus
	if err := json.Unmarshal(data, &status); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "http://%s/, reloaded %d times\n\n", status.Addrs[0], status.Reloads)
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "HOST\tPATH\tTO\tPODS")
	for _, r := range status.Routes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Host, r.Path, r.To, strings.Join(r.Servers, " "))
	}
	return nil
}
