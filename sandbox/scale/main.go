// Command scale measures Lapse on the sandbox with many endpoints: 10 Services with 10 and then with 1000 ready
// endpoints, whose Pods no kubelet runs. Their status is written by hand, the real controllers make the
// EndpointSlices, and one server on each node answers for all of their addresses. Every few seconds a Pod of each
// Service ends and another takes its place.
//
//	scale --lapse ../bin/lapse --out ../runs
//
// It prints how much memory and CPU the agent took, and how late it sent requests. Beside it runs a prober that
// measures a single server on the loopback and watches nothing: as late as that one, requests are sent because of all
// that else runs on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lapse/sandbox/drill"
)

type settings struct {
	drill.Files
	endpoints      drill.List
	services, rate int
	length, churn  time.Duration
}

// plan returns the runs, by their numbers of endpoints.
func (s settings) plan() (all []row, err error) {
	for _, text := range s.endpoints {
		n, err := strconv.Atoi(text)
		if err != nil || n < s.services {
			return nil, fmt.Errorf("-endpoints %s: numbers of %d or more, separated by commas",
				s.endpoints.String(), s.services)
		}
		all = append(all, row{endpoints: n})
	}
	return all, nil
}

func main() {
	s := settings{endpoints: drill.List{"10", "1000"}}
	s.Flags(flag.CommandLine)
	s.OutFlag(flag.CommandLine, table)
	flag.IntVar(&s.services, "services", 10, "Services")
	flag.IntVar(&s.rate, "rate", 50, "requests per second, each of new and reused connections of each Service")
	flag.DurationVar(&s.length, "length", 30*time.Minute, "length of each run")
	flag.DurationVar(&s.churn, "churn", 10*time.Second, "how often a Pod of each Service is replaced")
	flag.Var(&s.endpoints, "endpoints", "ready endpoints of all Services together, a run for each")
	serve := flag.String("serve", "", "answer requests at this address, and nothing else")
	drill.Main("scale", func(ctx context.Context) error {
		if *serve != "" {
			at, err := net.Listen("tcp", *serve)
			if err != nil {
				return err
			}
			return answer(ctx, at)
		}
		return scale(ctx, s)
	})
}

// answer answers what comes to at, until ctx ends.
func answer(ctx context.Context, at net.Listener) error {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const (
	namespace = "scale"
	node      = "scale" // without a kubelet
	addresses = "10.250.0.0/16"
	port      = 18080
	table     = "scale.md"
)

func scale(ctx context.Context, s settings) error {
	counts, err := s.plan()
	if err != nil {
		return err
	}
	c, err := drill.Open(s.Lapse, os.Stderr)
	if err != nil {
		return err
	}
	end, err := serveAll(ctx, c)
	defer end()
	if err != nil {
		return err
	}
	study := drill.Study[row]{
		Name:     "scale",
		Table:    table,
		Plan:     func(string) []row { return counts },
		Folder:   func(r row) string { return strconv.Itoa(r.endpoints) },
		Measure:  s.measure,
		Document: s.document,
		Verdict:  func([]row) error { return nil },
	}
	return study.Run(ctx, drill.Series{Files: s.Files, Modes: drill.List{""}}) // in the mode that is up
}

// serveAll has every node answer for the Pods' addresses, until end is called.
func serveAll(ctx context.Context, c *drill.Cluster) (end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return end, err
	}
	self, err := os.Executable()
	if err != nil {
		return end, err
	}
	for _, n := range nodes {
		if n == node {
			continue
		}
		route := c.On(ctx, n, "ip", "route", "replace", "local", addresses, "dev", "lo")
		if out, err := route.CombinedOutput(); err != nil {
			return end, fmt.Errorf("route %s on %s: %w: %s", addresses, n, err, out)
		}
		server := c.On(context.WithoutCancel(ctx), n, self, "--serve", fmt.Sprintf(":%d", port))
		if err := server.Start(); err != nil {
			return end, err
		}
		ends = append(ends, func() {
			_ = server.Process.Signal(syscall.SIGTERM)
			_ = server.Wait() // it got SIGTERM
			_ = c.On(context.Background(), n, "ip", "route", "del", "local", addresses, "dev", "lo").Run()
		})
	}
	return end, nil
}

// A row is what one run took.
type row struct {
	drill.Conditions
	endpoints, targets  int
	length              time.Duration
	memory              float64 // MiB, the most that was resident
	cpu                 float64 // cores, in the mean
	sent, failed        int
	late, aloneLate     lateness // of the agent, and of the lone prober at the same time
	coverage            float64
	recording, document int64 // bytes
}

func (r row) String() string {
	return fmt.Sprintf("%d endpoints: %.0f MiB, %.2f cores, %d of %d failed",
		r.endpoints, r.memory, r.cpu, r.failed, r.sent)
}

func (s settings) measure(ctx context.Context, c *drill.Cluster, r *row, dir string) error {
	if err := deploy(ctx, c, s.services, r.endpoints); err != nil {
		return err
	}
	defer func() {
		_ = c.Remove(context.Background(), namespace)
		_, _ = c.Kubectl(context.Background(), "delete", "node", node, "--ignore-not-found")
	}()
	args := []string{"run", "-n", namespace, "--out", dir, "--duration", s.length.String(),
		"--rate", strconv.Itoa(s.rate)}
	for i := range s.services {
		args = append(args, "svc/"+service(i))
	}
	r.Begin("lapse " + strings.Join(args, " "))
	cmd := c.Command(ctx, args...)
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return err
	}
	alone, err := s.probeAlone(ctx, c, dir+"-alone")
	if err != nil {
		return err
	}
	over, done := context.WithCancel(ctx)
	churned, watched := make(chan error, 1), make(chan usage, 1)
	go func() { churned <- churn(over, c, s, r.endpoints) }()
	go func() { watched <- watchAgent(over) }()
	run, err := cmd.Finish(dir)
	done()
	reference, aloneErr := alone()
	if err := errors.Join(err, <-churned, aloneErr); err != nil {
		return err
	}
	u := <-watched
	if u.lived == 0 {
		return errors.New("the agent's process was not found")
	}
	r.length, r.memory, r.cpu = s.length, float64(u.peak)/(1<<20), u.cpu.Seconds()/u.lived.Seconds()
	for _, t := range run.Timeline.Targets {
		r.targets++
		r.sent, r.failed = r.sent+t.Sent, r.failed+t.Failed
	}
	r.coverage = run.Timeline.Verdict.Coverage
	for name, size := range map[string]*int64{"facts.lapse": &r.recording, "timeline.json": &r.document} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			*size = info.Size()
		}
	}
	from, to := run.Timeline.T0, run.Timeline.T0.Add(run.Timeline.Run.Duration)
	var lateErr error
	r.late, err = readLateness(ctx, c, run, from, to)
	r.aloneLate, lateErr = readLateness(ctx, c, reference, from, to)
	return errors.Join(err, lateErr)
}

// An ender ends a run and returns it.
type ender func() (drill.Run, error)

// probeAlone starts a prober that measures a server on the loopback, and nothing else, at the rate of one Service.
// end ends it and returns its run.
func (s settings) probeAlone(ctx context.Context, c *drill.Cluster, dir string) (end ender, err error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- answer(serving, at) }()
	cmd := c.Command(ctx, "run", "http://"+at.Addr().String()+"/", "--out", dir, "--rate", strconv.Itoa(s.rate),
		"--duration", (2 * s.length).String())
	if err := cmd.Start(); err != nil {
		stop()
		return nil, errors.Join(err, <-served)
	}
	return func() (drill.Run, error) {
		stopped := cmd.Process.Signal(os.Interrupt)
		run, ended := cmd.Finish(dir)
		stop()
		return run, errors.Join(stopped, ended, <-served)
	}, nil
}

const head = `# Many endpoints

Made by ` + "`make scale`" + ` on %s: %s. %d Services; each run %v; every %v one Pod of each Service is deleted,
serves on for %v, and another takes its place. The Pods run nowhere: their status is written by hand, the sandbox's
controllers make the EndpointSlices, and a server on each node answers for their addresses, with
` + "`--rate %d`" + `, %d requests per second in all, without the direct ones. **Alone** is a second prober that
measures one server on the loopback at the same time and watches nothing. Its lateness comes from all else that runs on
these cores: the control plane, three kube-proxies that write the rules, the servers. What exceeds it is Lapse's own.

`

// document returns the measurement as Markdown: docs/measured/cost.md has what it says.
func (s settings) document(rows []row) string {
	return fmt.Sprintf(head, rows[0].Began.Format(time.DateOnly), rows[0].Machine, s.services, s.length, s.churn,
		(s.churn/3).Round(time.Second), s.rate, 2*s.rate*s.services) + drill.Table(columns, rows)
}

var columns = []drill.Column[row]{
	{Head: "ready endpoints", Cell: func(r row) string { return strconv.Itoa(r.endpoints) }},
	{Head: "targets in all", Cell: func(r row) string { return strconv.Itoa(r.targets) }},
	{Head: "memory, peak", Cell: func(r row) string { return fmt.Sprintf("%.0f MiB", r.memory) }},
	{Head: "CPU, mean", Cell: func(r row) string { return fmt.Sprintf("%.2f cores", r.cpu) }},
	{Head: "sent", Cell: func(r row) string { return strconv.Itoa(r.sent) }},
	{Head: "failed", Cell: func(r row) string { return strconv.Itoa(r.failed) }},
	{Head: "sent late, p50", Cell: func(r row) string { return r.late.p50.String() }},
	{Head: "p99", Cell: func(r row) string { return r.late.p99.String() }},
	{Head: "alone, p50", Cell: func(r row) string { return r.aloneLate.p50.String() }},
	{Head: "p99", Cell: func(r row) string { return r.aloneLate.p99.String() }},
	{Head: "coverage", Cell: func(r row) string { return fmt.Sprintf("%.2f %%", math.Floor(r.coverage*1e4)/1e2) }},
	{Head: "recording", Cell: func(r row) string { return fmt.Sprintf("%.1f MB", float64(r.recording)/1e6) }},
	{Head: "timeline.json", Cell: func(r row) string { return fmt.Sprintf("%.1f MB", float64(r.document)/1e6) }},
}
