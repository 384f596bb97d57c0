package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/loadgen"
	"lapse/record"
	"lapse/timeline"
	"lapse/watcher"
)

// Run measures where the targets ask for, and prints the result.
func (o *Options) Run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopSignals...)
	signal.Ignore(syscall.SIGPIPE) // whoever read our output may leave: the Job is still to be cleaned up
	defer signal.Stop(signals)
	if o.ID == "" {
		o.ID = NewID()
	}
	o.PrintNotes(stderr)
	if o.InCluster() {
		return o.runInCluster(ctx, signals, stdout, stderr)
	}
	return o.runHere(ctx, signals, stdout, stderr)
}

// NewID returns the name of a new run, which is also that of its directory and its Job: short, unlikely to be taken, and fit for a
// Kubernetes name.
func NewID() string {
	return "lapse-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// runHere measures from this machine: of a URL, of a Service with --here, and as the agent in the Job.
func (o *Options) runHere(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	address, err := ListenForPage(o.Dashboard)
	if err != nil {
		return err
	}
	defer address.Close()
	screen := newScreen(stderr, o.total())
	defer screen.close()
	m := newMeasurement(o, NewLogger(screen.talk()))
	dismiss := sync.OnceFunc(m.dismissProbers)
	defer dismiss()
	if err := m.find(ctx, signals); err != nil {
		return err
	}
	for _, e := range m.predicts {
		screen.say(predictedLine(e))
	}
	for _, s := range m.services {
		for _, line := range notCoveredLines(s.info) {
			screen.say(line)
		}
	}
	dir := o.runDir(o.ID)
	file, err := beginRecording(dir, record.Create)
	if err != nil {
		return err
	}
	m.rec = &recording{Writer: file, every: o.blockEvery(), log: m.log}
	measured := false
	defer func() {
		_ = file.Close() // a second Close, except where nothing was measured
		if !measured {
			discard(dir)
		}
	}()
	m.clock = timeline.StartClock()

	shown, closePage := address.Serve(ctx, screen.talk())
	var a *jobRun
	if o.AgentListen != "" {
		if a, closePage, err = m.serveAgent(); err != nil {
			return err
		}
		shown = a.page
	}
	defer closePage()

	m.live = newLive(o.gates, observers(screen, shown, m.rec)...).wokenBy(shown)
	m.command = &wrappedCommand{args: o.Command, capture: !o.NoCapture, output: screen.output(), event: func(e timeline.Event) { m.queue.put(e) }, now: m.clock.Now}
	tl, err := m.run(ctx, signals)
	dismiss() // before the result is held for long
	if err != nil {
		m.live.end(nil)
		return err
	}
	measured = true
	if a != nil {
		m.live.end(tl)
		a.handOver(tl, signals, stdout)
		return ExitWith(tl.Verdict.ExitCode, nil)
	}
	unwritten := saveTimeline(dir, tl)
	signal.Reset(stopSignals...) // nothing is left to be ended in order
	m.live.end(tl)
	return present(stdout, dir, o.Output, tl, unwritten)
}

// observers are who follows a run: shown may be nil, and so may rec. The terminal comes last, because it may be paused.
func observers(terminal *screen, shown *page, rec *recording) (all []Observer) {
	if rec != nil {
		all = append(all, rec)
	}
	if shown != nil {
		all = append(all, newQueued(shown, 0))
	}
	return append(all, memoryLimit{}, terminal)
}

// MeasureOn measures from this machine on a clock that has started, into dir, which is there.
func (o *Options) MeasureOn(ctx context.Context, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o.ID = NewID()
	rec, err := record.Create(filepath.Join(dir, FactsFile))
	if err != nil {
		return nil, Usagef("give another --out", "%w", err)
	}
	defer func() { _ = rec.Close() }() // a second Close, except where nothing was measured
	screen := newScreen(stderr, o.total())
	m := newMeasurement(o, NewLogger(screen.talk()))
	m.rec, m.clock = &recording{Writer: rec, every: o.blockEvery(), log: m.log}, clock
	m.live = newLive(nil, observers(screen, nil, m.rec)...)
	tl, err := m.run(ctx, signals)
	m.live.end(tl)
	return tl, errors.Join(err, m.rec.err)
}

// describe is the run's first fact.
func (m *measurement) describe() timeline.Meta {
	meta := timeline.Meta{
		ID: m.opts.ID, Tool: Version, T0: m.clock.T0(), Options: m.opts.Recorded(), Spec: mustMarshal(m.opts.Spec),
		Command: maskCommand(m.opts.Command), // the agent learns it when it starts
	}
	for _, s := range m.opts.targets {
		if s.URL != nil {
			meta.URLs = append(meta.URLs, maskText(s.URL.Redacted()))
		}
	}
	meta.Services, meta.SetAside = m.distinct(), m.opts.SetAside
	for _, s := range m.services {
		meta.Cluster = s.info.Cluster
	}
	return meta
}

// describeSource is this process as a source of facts: the only one of its run.
func (m *measurement) describeSource() timeline.Source {
	s := timeline.Source{ID: 1, Name: "here", Role: timeline.Workstation, Version: Version, T0: m.clock.T0(), Node: os.Getenv("NODE_NAME")}
	if m.opts.AgentListen != "" {
		s.Role = timeline.Coordinator
	}
	if host, err := os.Hostname(); err == nil {
		s.Name = host
	}
	if pod := os.Getenv("POD_NAME"); pod != "" {
		s.Name, s.Pod = pod, strings.TrimPrefix(os.Getenv("POD_NAMESPACE")+"/"+pod, "/")
	}
	return s
}

// find looks up the Services and hosts that are to be measured, and asks preflight. A signal ends it.
func (m *measurement) find(ctx context.Context, signals <-chan os.Signal) error {
	setup, release := Interruptible(ctx, signals)
	defer release()
	if err := m.findServices(setup); err != nil {
		return StoppedOr(setup, AsUsage(err))
	}
	if err := m.resolve(setup); err != nil {
		return StoppedOr(setup, err)
	}
	if err := m.opts.chooseProbers(setup, m.client); err != nil {
		return StoppedOr(setup, err)
	}
	m.predicts = m.predict(setup)
	if release(); setup.Err() != nil {
		return StoppedOr(setup, nil)
	}
	return nil
}

// findServices looks up every Service that is measured or watched.
func (m *measurement) findServices(ctx context.Context) error {
	if len(m.opts.Chosen) > 0 {
		return m.findChosen(ctx)
	}
	targets := slices.Clone(m.opts.targets)
	if m.opts.Watch != "" {
		watched, err := ParseTarget(m.opts.Watch)
		if err != nil {
			return err
		}
		targets = append(targets, watched)
	}
	for i, s := range targets {
		if s.Service == "" {
			continue
		}
		c, err := m.opts.Kube.Connect(ctx)
		if err != nil {
			return err
		}
		info, err := watcher.Describe(ctx, c.client, c.Namespace, s.Service, m.opts.asked(s))
		if err != nil {
			return err
		}
		m.client = c.client
		m.services = append(m.services, service{target: s, info: info, measured: i < len(m.opts.targets)})
	}
	return nil
}

// resolve refuses hosts that do not resolve: nothing could be measured. Chosen Services are tried, and need not all answer.
func (m *measurement) resolve(ctx context.Context) error {
	if len(m.opts.Chosen) > 0 {
		return m.tryChosen(ctx)
	}
	for _, s := range m.resolved() {
		for _, way := range s.ways() {
			u, err := url.Parse(m.opts.probeBy(s, way).URL)
			if err != nil {
				return Usagef(TargetHint, "%w", err)
			}
			if err := m.reachable(ctx, s, way, u.Hostname()); err != nil {
				return err
			}
		}
	}
	return nil
}

// reachable refuses a way whose host does not resolve here, or has no address that this machine has a route to.
func (m *measurement) reachable(ctx context.Context, s service, way watcher.Way, host string) error {
	name := s.target.Service
	if way.Turns && clusterDomain() == "" {
		return Usagef("measure it in the cluster: drop --here", "Service %q is headless, and its name resolves only in the cluster", name)
	}
	if err := resolvable(ctx, host); err != nil && s.info.Service.ExternalName != "" {
		return Usagef("check its spec.externalName, and who resolves that name", "Service %q only names another host: %w", name, err)
	} else if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil && name != "" && len(m.opts.Probers) == 0 && !loadgen.HasRoute(addr) {
		return Usagef("measure where that family is routed: --from chooses nodes, and ?route=ipv4 or ?route=ipv6 the family",
			"Service %q is asked at %s, and this machine has no route to that address", name, host)
	}
	return nil
}

// wayHost is the host and port under which a Service is asked from here by a way. Its own name is used inside a Pod, as its clients would,
// and its address where the cluster's names do not resolve, or where that is asked for.
func wayHost(info watcher.Info, way watcher.Way, byClusterIP bool) string {
	host := way.Host
	if host == "" {
		host = info.Service.ClusterIP
		if domain := clusterDomain(); domain != "" && !byClusterIP {
			// The dot at the end keeps the resolver from trying the search list first.
			host = fmt.Sprintf("%s.%s.svc.%s.", info.Service.Name, info.Service.Namespace, domain)
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(way.Port)))
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
		return Usagef("check its spelling, and that this machine can resolve it", "host %q does not resolve: %w", host, err)
	}
	return nil
}
