package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lapse/sandbox/outer"
	"lapse/sandbox/problem"
)

// The load balancer of sandbox/outer: one process in a namespace of its own.
//
//	$ sandbox lb up --interval 5s --unhealthy 3 --deregistration-delay 30s
//	$ sandbox kubectl expose deployment web --type LoadBalancer --port 80 --target-port 8080
//	$ sandbox lb status
//	SERVICE      ADDRESS       CHECK               NODE   STATE
//	default/web  10.200.0.201  http:10256/healthz  node1  healthy
//	$ sandbox exec outside -- curl http://10.200.0.201/
//	$ sandbox lb down

const (
	balancerProcess = "lb"
	balancerState   = "lb.json"
)

// runLB is the verb lb.
func runLB(ctx context.Context, a *app, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "up":
		c := outer.Default
		if err := parseVerb(a, "lb up", args[1:], balancerFlags(&c)); err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return problem.Errorf("%v", err)
		}
		release, err := lockMachine()
		if err != nil {
			return err
		}
		defer release()
		return startLB(ctx, a, c)
	case "down":
		if err := parseVerb(a, "lb down", args[1:], nil); err != nil {
			return err
		}
		release, err := lockMachine()
		if err != nil {
			return err
		}
		defer release()
		return a.end(ctx, balancerProcess, "load balancer", (*sandbox).forgetLB)
	case "status":
		if err := parseVerb(a, "lb status", args[1:], nil); err != nil {
			return err
		}
		return showLB(a)
	}
	return problem.Errorf("usage: sandbox lb up|down|status; `sandbox lb up -h` lists the flags")
}

func balancerFlags(c *outer.Config) func(*flag.FlagSet) {
	return func(flags *flag.FlagSet) {
		flags.StringVar(&c.Algorithm, "algorithm", c.Algorithm,
			"which node gets a new connection: "+outer.RoundRobin+" or "+outer.LeastConnections)
		flags.StringVar(&c.Check, "check", c.Check,
			"how a node's health is asked: nodeport, tcp:PORT or http:PORT/PATH (default http:10256/healthz, "+
				"kube-proxy's; of a Service with externalTrafficPolicy Local its health-check node port)")
		flags.DurationVar(&c.Interval, "interval", c.Interval, "time between two checks of a node")
		flags.DurationVar(&c.Timeout, "check-timeout", c.Timeout, "how long a check may take")
		flags.IntVar(&c.Unhealthy, "unhealthy", c.Unhealthy,
			"checks in a row that must fail before a node gets no new connections")
		flags.IntVar(&c.Healthy, "healthy", c.Healthy, "checks in a row that must succeed before it gets them again")
		flags.BoolVar(&c.FailOpen, "fail-open", c.FailOpen, "where no node is healthy, every one gets connections")
		flags.DurationVar(&c.Sync, "sync", c.Sync, "time between two looks at the API server's Nodes and Services")
		flags.DurationVar(&c.Deregistration, "deregistration-delay", c.Deregistration,
			"how long the connections of a node live on that left or is unhealthy")
		flags.BoolVar(&c.Keep, "keep", c.Keep, "do not cut them after that either")
		flags.StringVar(&c.IPMode, "ip-mode", c.IPMode,
			"how nodes and Pods reach the addresses: VIP (by routes of their own) or Proxy (through the load balancer)")
	}
}

// balancerArgs returns the flags of a configuration.
func balancerArgs(c outer.Config) (args []string) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	balancerFlags(&c)(flags)
	flags.VisitAll(func(f *flag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return args
}

func (s shape) balancerAddresses() outer.Addresses {
	first := []netip.Addr{netip.MustParseAddr(balancerFirst)}
	if s.DualStack {
		first = append(first, netip.MustParseAddr(balancerFirst6))
	}
	return outer.Addresses{First: first, Count: balancerCount}
}

// startLB starts the load balancer and waits until it has asked the API server. The caller holds the machine's lock.
func startLB(ctx context.Context, a *app, c outer.Config) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	if p, there := s.process(balancerProcess); there {
		if p.alive() {
			return problem.Errorf("the load balancer is up already: `sandbox lb down` ends it")
		}
		if err := s.forgetLB(ctx); err != nil {
			return err
		}
	}
	argv := append([]string{s.self(), "--dir", s.Dir, "balance"}, balancerArgs(c)...)
	d, err := s.start(balancerProcess, inside(balancerHost.Netns), nil, argv...)
	if err != nil {
		return err
	}
	err = d.until(ctx, 30*time.Second, func(context.Context) error {
		_, err := os.Stat(s.path(balancerState))
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(s.log(balancerProcess), 5))
	}
	fmt.Fprintf(a.log, "load balancer up: Services of type LoadBalancer get addresses from %s on\n", balancerFirst)
	return nil
}

// end ends the load balancer or the ingress, which takes back what it has made. One that was killed is tidied up after.
func (a *app) end(ctx context.Context, process, what string, forget func(*sandbox, context.Context) error) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	p, there := s.process(process)
	if !there {
		fmt.Fprintf(a.log, "no %s is up\n", what)
		return nil
	}
	if p.alive() {
		if err := endOne(ctx, p, 10*time.Second); err != nil {
			return err
		}
	}
	return forget(s, ctx)
}

// forgetLB takes the process out of the state, and what is left of it out of its namespace and the Services.
func (s *sandbox) forgetLB(ctx context.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	err = inNetns(balancerHost.Netns, func() error { return outer.Leave(ctx, api, s.balancerAddresses()) })
	if err != nil {
		return err
	}
	_ = os.Remove(s.path(balancerState))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes = slices.DeleteFunc(s.Processes, func(p process) bool { return p.Name == balancerProcess })
	return s.save()
}

// runBalance is the hidden verb that is the load balancer, in its namespace.
func runBalance(ctx context.Context, a *app, args []string) error {
	c := outer.Default
	if err := parseVerb(a, "balance", args, balancerFlags(&c)); err != nil {
		return err
	}
	s, err := load(a.dir)
	if err != nil {
		return err
	}
	api, err := newAPIClient(s.config(balancerHost.Name+".kubeconfig"),
		"https://"+net.JoinHostPort(controlPlaneAddr, apiPort))
	if err != nil {
		return err
	}
	return outer.Balance(ctx, c, api, s.balancerAddresses(), s.path(balancerState), stampedLog(a.log))
}

// stampedLog writes instants with nanoseconds: they are the truth that a measurement is held against.
func stampedLog(w io.Writer) *slog.Logger {
	stamp := func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000000000Z"))
		}
		return attr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: stamp}))
}

func showLB(a *app) error {
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	if p, there := s.process(balancerProcess); !there || !p.alive() {
		return problem.Errorf("no load balancer is up: run `sandbox lb up`")
	}
	data, err := os.ReadFile(s.path(balancerState))
	if err != nil {
		return err
	}
	var status outer.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "SERVICE\tADDRESS\tCHECK\tNODE\tSTATE\tNEW CONNECTIONS")
	for _, service := range status.Services {
		for _, name := range service.Sorted() {
			gets := ""
			if slices.Contains(service.New, name) {
				gets = "yes"
			}
			addrs := strings.Trim(fmt.Sprint(service.Addrs), "[]")
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
				service.Service, addrs, service.Check, name, service.Nodes[name], gets)
		}
	}
	return nil
}
