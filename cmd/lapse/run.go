package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/record"
	"lapse/timeline"
	"lapse/watcher"
)

func newRun() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run TARGET... [flags] [-- COMMAND...]",
		Short: "Measure while COMMAND runs, or for --duration, then judge",
		Long: `Measure one or more targets while a command runs (or for --duration), then judge.

A svc/ target is measured from a Job in the cluster, which is removed afterwards. A URL is measured
from here, and needs no cluster.`,
		Example: `  lapse run svc/web -n shop --fail-if 'failed>0' -- kubectl drain node1 --ignore-daemonsets
  lapse run http://127.0.0.1:8080/ --duration 30s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var command []string
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
				if len(command) == 0 {
					return refuse("as in `-- kubectl drain node1`", "no command after --")
				}
			}
			if err := o.check(args, command); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	return cmd
}

// run measures where the targets ask for, and prints the result.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopSignals...)
	signal.Ignore(syscall.SIGPIPE) // whoever read our output may leave: the Job is still to be cleaned up
	defer signal.Stop(signals)
	if o.id == "" {
		o.id = newID()
	}
	o.tellNote(stderr)
	if o.inCluster() {
		return o.runInCluster(ctx, signals, stdout, stderr)
	}
	return o.runHere(ctx, signals, stdout, stderr)
}

// stopSignals end a run in order, or its command.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// newID names a run: short, unlikely to be taken, and fit for a Kubernetes name.
func newID() string {
	return time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// runHere measures from this machine: of a URL, of a Service with --here, and as the agent in the Job.
func (o *options) runHere(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	address, err := listenForPage(o.dashboard)
	if err != nil {
		return err
	}
	defer address.close()
	screen := newScreen(stderr, o.total())
	defer screen.close()
	m := newMeasurement(o, newLogger(screen.talk()))
	setup, release := interruptible(ctx, signals)
	defer release()
	if err := m.findServices(setup); err != nil {
		return stoppedOr(setup, asUsage(err))
	}
	if err := m.resolve(setup); err != nil {
		return stoppedOr(setup, err)
	}
	if release(); setup.Err() != nil {
		return stoppedOr(setup, nil)
	}
	dir := o.runDir(o.id)
	if m.rec, err = beginRecording(dir, record.Create); err != nil {
		return err
	}
	measured := false
	defer func() {
		m.rec.Close()
		if !measured {
			discard(dir)
		}
	}()
	m.clock = timeline.StartClock()

	var a *agent
	var shown *page
	closePage := func() {}
	switch {
	case o.control != "":
		if a, closePage, err = m.serveAgent(); err != nil {
			return err
		}
		shown = a.page
	case o.dashboard != "":
		shown, closePage = address.serve(ctx, screen.talk())
	}
	defer closePage()

	m.live = newLive(o.gates, screen, shown)
	m.child = &child{args: o.command, capture: !o.noCapture, output: screen.output(), mark: func(e timeline.Event) { m.queue.put(e) }, now: m.clock.Now}
	m.meta = m.describe()
	tl, err := m.run(ctx, signals)
	if err != nil {
		return err
	}
	measured = true
	if shown != nil {
		shown.show(tl, tl.Run.Duration)
	}
	if a != nil {
		screen.close()
		a.handOver(tl, signals, stdout)
		return exitWith(tl.Verdict.ExitCode, nil)
	}
	unwritten := saveTimeline(dir, tl)
	signal.Reset(stopSignals...) // nothing is left to be ended in order
	screen.close()
	return present(stdout, dir, o.format, tl, unwritten)
}

// describe is the run's first fact.
func (m *measurement) describe() timeline.Meta {
	meta := timeline.Meta{
		ID: m.opts.id, Tool: version, T0: m.clock.T0(), Source: source(), Options: m.opts.recorded(),
		Command: maskCommand(m.opts.command), // the agent learns it when it starts
	}
	for _, s := range m.opts.subjects {
		if s.url != nil {
			meta.URLs = append(meta.URLs, s.url.Redacted())
		}
	}
	meta.Services = m.distinct()
	for _, s := range m.services {
		meta.Cluster = s.info.Cluster
	}
	return meta
}

// source names this prober.
func source() string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "here"
}

// findServices looks up every Service that is measured or watched.
func (m *measurement) findServices(ctx context.Context) error {
	subjects := slices.Clone(m.opts.subjects)
	if m.opts.watch != "" {
		watched, err := parseSubject(m.opts.watch)
		if err != nil {
			return err
		}
		subjects = append(subjects, watched)
	}
	for i, s := range subjects {
		if s.service == "" {
			continue
		}
		c, err := m.opts.kube.connect(ctx)
		if err != nil {
			return err
		}
		info, err := watcher.Describe(ctx, c.client, c.namespace, s.service, s.port)
		if err != nil {
			return err
		}
		m.client = c.client
		m.services = append(m.services, service{subject: s, info: info, measured: i < len(m.opts.subjects)})
	}
	return nil
}

// resolve refuses hosts that do not resolve: nothing could be measured.
func (m *measurement) resolve(ctx context.Context) error {
	for _, s := range m.opts.subjects {
		u, err := url.Parse(m.probeOf(s).URL)
		if err != nil {
			return refuse(targetHint, "%w", err)
		}
		if err := resolvable(ctx, u.Hostname()); err != nil {
			return err
		}
	}
	return nil
}

// serviceHost is the host and port under which a Service is measured from here: its name inside a
// Pod, as its clients would, and its address where the cluster's names do not resolve.
func serviceHost(info watcher.Info) string {
	host := info.Service.ClusterIP
	if domain := clusterDomain(); domain != "" {
		// The dot at the end keeps the resolver from trying the search list first.
		host = fmt.Sprintf("%s.%s.svc.%s.", info.Service.Name, info.Service.Namespace, domain)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(info.Port)))
}

// clusterDomain is the DNS domain of the cluster whose Pod this is, or "" if this is none. The
// kubelet writes it into the Pod's search list, as svc.DOMAIN.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func clusterDomain() string {
	conf, err := os.ReadFile("/etc/resolv.conf")
	if err != nil || os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	for line := range strings.Lines(string(conf)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, name := range fields[1:] {
			if domain, ok := strings.CutPrefix(name, "svc."); ok {
				return domain
			}
		}
	}
	return ""
}

func resolvable(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return refuse("check its spelling, and that this machine can resolve it", "host %q does not resolve: %w", host, err)
	}
	return nil
}
