package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/kube"
	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/record"
	"lapse/timeline"
	"lapse/watcher"
)

// Phases of a run, as RunPhase events name them.
const (
	phaseBaseline  = "baseline"
	PhaseMeasuring = "measuring"
	phaseSettling  = "settling"
	PhaseEnded     = "ended"
)

// A service is a Service that is measured or watched.
type service struct {
	target   targetSpec
	info     watcher.Info
	measured bool // and not only watched
}

// A servicePlan is what is done about the endpoints of one Service.
type servicePlan struct {
	service string // NAMESPACE/NAME
	*directPlan
}

// A measurement owns one run on this machine. One goroutine, in run, owns its facts: probes and
// watchers put theirs into the queue, and everything else is told by order.
type measurement struct {
	opts     *Options
	meta     timeline.Meta
	source   timeline.Source
	clock    timeline.Clock
	services []service
	client   kube.Client // nil: nothing to watch
	log      *slog.Logger
	live     *live

	queue  *queue
	rec    *record.Writer
	prober *loadgen.Prober
	plans  []servicePlan // of the measured Services
	child  *child
	done   chan int   // the command's exit code
	orders chan order // what the workstation tells a run in the cluster

	entered    func(phase, detail string)     // told of each phase; nil: nobody cares
	overdue    func(now time.Duration) string // why the end of the workstation's command is awaited no longer, or ""; nil: it is
	removal    func() string                  // who ended this process, if anybody knows, or ""; nil: nobody does
	phase      string
	flushed    time.Duration // when the recording last was
	nextEvent  uint32
	nextTarget timeline.TargetID
	targets    map[timeline.TargetID]timeline.Target
	errors     map[failing]string // the first error of each target and class that needs one
	draining   bool               // nothing more is sent: the last answers are awaited
	signalled  bool               // a signal ended the run
	recErr     error              // the first error of the recording
}

// newMeasurement returns a measurement that still wants its recording, its clock, and whoever follows it live.
func newMeasurement(o *Options, log *slog.Logger) *measurement {
	return &measurement{opts: o, log: log, queue: newQueue(), orders: make(chan order, 4), done: make(chan int, 1)}
}

// An order tells a run from outside to change its phase.
type order struct {
	phase  string // phaseSettling or phaseEnded
	reason string // why, if it was not planned
}

// failing names a target and how it failed.
type failing struct{ target, class string }

// run measures from baseline to end. It returns the judged run; the error is only for a run that
// could not begin. signals are what the terminal sends us.
func (m *measurement) run(ctx context.Context, signals <-chan os.Signal) (*model.Timeline, error) {
	m.plans, m.targets, m.errors = nil, map[timeline.TargetID]timeline.Target{}, map[failing]string{}
	m.add(m.meta)
	m.add(m.source)
	m.prober = loadgen.New(loadgen.Config{Clock: m.clock, Source: m.source.ID, Sink: m.queue.put, Logger: m.log, Pacing: loadgen.Pacing(m.opts.Pacing)})
	if err := m.startTargets(); err != nil {
		return nil, err
	}

	var probing, watching sync.WaitGroup
	stopProbing, stopWatching := m.start(ctx, &probing, &watching)
	m.enter(phaseBaseline, "")
	reason := m.loop(ctx, signals)
	end := m.clock.Now()

	stopProbing()
	reason = m.drain(&probing, m.prober.Abandon, signals, reason)
	stopWatching()
	watching.Wait()
	m.absorb()
	if m.signalled && m.removal != nil {
		reason = cmp.Or(m.removal(), reason)
	}
	m.add(timeline.Event{Seen: end, Kind: timeline.RunPhase, From: m.phase, To: PhaseEnded, Detail: reason})
	m.live.tracker.SetEnd(end)
	m.keep(m.rec.Close())
	if m.entered != nil {
		m.entered(PhaseEnded, reason)
	}
	tl := m.live.timeline()
	if m.recErr != nil {
		verdict.Unsaved(tl, m.recErr)
	}
	return tl, nil
}

// start starts the goroutines that produce facts, and returns how to stop them.
func (m *measurement) start(ctx context.Context, probing, watching *sync.WaitGroup) (stopProbing, stopWatching func()) {
	probeCtx, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	watchCtx, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	control, err := loadgen.ServeControl(watchCtx)
	if err != nil {
		m.noControl(err)
	} else if err := m.startTarget(loadgen.Probe{Target: timeline.Target{
		Name: "control", Kind: timeline.Control, URL: "http://" + control.String() + "/", Rate: min(m.opts.Rate, 100),
	}}); err != nil {
		m.noControl(err)
	}
	if len(m.services) > 0 {
		watching.Go(func() { m.watch(watchCtx) })
	}
	probing.Go(func() {
		if err := m.prober.Run(probeCtx); err != nil {
			m.tell(order{PhaseEnded, "probing failed: " + err.Error()})
		}
	})
	if m.opts.Hammer != "" {
		probing.Go(func() { m.hammer(probeCtx) })
	}
	return stopProbing, stopWatching
}

func (m *measurement) noControl(err error) {
	m.log.Warn("no control target: a stall of this machine may pass for one of the service", "error", err)
}

// watch feeds the events of all Services to the queue until ctx ends. Without them the run goes on, and says so.
func (m *measurement) watch(ctx context.Context) {
	config := watcher.Config{Client: m.client, Namespace: m.services[0].info.Service.Namespace, Clock: m.clock, Sink: m.queue.put, Logger: m.log}
	for _, s := range m.distinct() {
		config.Services = append(config.Services, watcher.Service{Name: s.Name, Ports: m.portsOf(s, false)})
	}
	if err := watcher.Run(ctx, config); err != nil && ctx.Err() == nil {
		m.log.Warn("the cluster is no longer watched", "error", err)
	}
}

// distinct are the Services of the run, each once, with those of their ports that are measured.
func (m *measurement) distinct() []timeline.Service {
	var all []timeline.Service
	for _, s := range m.services {
		i := slices.IndexFunc(all, func(have timeline.Service) bool { return serviceKey(have) == serviceKey(s.info.Service) })
		if i < 0 {
			i, all = len(all), append(all, s.info.Service)
			all[i].Measured = nil
		}
		if port := s.portText(); s.measured && !slices.Contains(all[i].Measured, port) {
			all[i].Measured = append(all[i].Measured, port)
		}
	}
	return all
}

// portText is the Service's port for people: its name, or its number if it has none.
func (s service) portText() string {
	return cmp.Or(s.info.PortName, strconv.Itoa(int(s.info.Port)))
}

// portsOf are the names of a Service's ports that the run is about, or measures.
func (m *measurement) portsOf(of timeline.Service, measured bool) []string {
	var ports []string
	for _, s := range m.services {
		if serviceKey(s.info.Service) == serviceKey(of) && (s.measured || !measured) && !slices.Contains(ports, s.info.PortName) {
			ports = append(ports, s.info.PortName)
		}
	}
	return ports
}

// tell gives the loop an order. It does not wait.
func (m *measurement) tell(o order) {
	select {
	case m.orders <- o:
	default:
	}
}

// loop runs the phases. It returns why the run ended, or "" if as planned.
func (m *measurement) loop(ctx context.Context, signals <-chan os.Signal) (reason string) {
	phase := time.NewTimer(m.opts.Baseline)
	defer phase.Stop()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	settle := func() {
		m.enter(phaseSettling, "")
		phase.Reset(m.opts.Settle)
	}
	interrupted := ""
	for {
		select {
		case <-m.queue.ready:
			m.absorb()
		case <-tick.C:
			m.upkeep()
			if m.overdue == nil || m.phase != PhaseMeasuring {
				continue
			}
			if why := m.overdue(m.clock.Now()); why != "" {
				interrupted = why
				settle()
			}
		case <-phase.C:
			switch m.phase {
			case phaseBaseline:
				if sick := m.sick(); sick != "" {
					return sick
				}
				m.enter(PhaseMeasuring, "")
				if err := m.begin(phase); err != nil {
					return err.Error()
				}
			case PhaseMeasuring:
				if m.opts.ExternalCommand {
					interrupted = "the end of the command was not reported within --max-duration"
				}
				settle()
			case phaseSettling:
				return interrupted
			}
		case <-m.done:
			settle()
		case o := <-m.orders:
			if o.phase == PhaseEnded {
				return o.reason
			}
			if m.phase != phaseSettling { // an order may come twice
				interrupted = o.reason
				settle()
			}
		case sig := <-signals:
			if interrupted != "" || !m.running() || sig != syscall.SIGINT {
				m.stopChild()
				m.signalled = true
				return stoppedBy(sig)
			}
			interrupted = stoppedBy(sig)
			m.child.signal(syscall.SIGINT)
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		}
	}
}

// drain takes in the last answers, which probing awaits no longer than the timeout. It returns why the run ended: reason, unless
// it is "" and somebody ends the run only now. Who does, or sends a signal, wants no more to be awaited: abandon is to see to it.
func (m *measurement) drain(probing *sync.WaitGroup, abandon func(), signals <-chan os.Signal, reason string) string {
	m.draining = true
	over := make(chan struct{})
	go func() { probing.Wait(); close(over) }()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return reason
		case <-m.queue.ready:
			m.absorb()
		case <-tick.C:
			m.upkeep()
		case o := <-m.orders:
			if o.phase == PhaseEnded && reason == "" { // an order may come twice
				reason, signals = o.reason+notAwaited, nil
				abandon()
			}
		case sig := <-signals:
			reason = cmp.Or(reason, stoppedBy(sig)) + notAwaited
			m.signalled, signals = true, nil
			abandon()
		}
	}
}

// notAwaited is added to why a run ended that did not wait for its last answers.
const notAwaited = "; the last answers were not awaited"

// begin starts what the measuring phase waits for: the command, the duration, or the workstation.
func (m *measurement) begin(phase *time.Timer) error {
	switch {
	case len(m.opts.Command) > 0:
		return m.child.start(func(code int) { m.done <- code })
	case m.opts.Duration > 0:
		phase.Reset(m.opts.Duration)
	case m.opts.ExternalCommand:
		phase.Reset(m.opts.MaxDuration)
	}
	return nil
}

func (m *measurement) running() bool {
	return m.child != nil && m.child.cmd != nil && m.phase == PhaseMeasuring
}

func (m *measurement) stopChild() {
	if m.running() {
		m.child.stop(m.done)
	}
}

func (m *measurement) enter(phase, detail string) {
	m.add(timeline.Event{Seen: m.clock.Now(), Kind: timeline.RunPhase, From: m.phase, To: phase, Detail: detail})
	m.phase = phase
	if m.entered != nil {
		m.entered(phase, detail)
	}
}

// upkeep, called at every refresh, puts what was measured on record when it is time to, and shows how far the run has come. A
// refresh may come a little early, and the block is not to wait for the next one.
func (m *measurement) upkeep() {
	now := m.clock.Now()
	if now-m.flushed > m.opts.blockEvery()-refresh/2 {
		m.flushed = now
		m.keep(m.rec.Flush())
	}
	if !m.draining {
		m.followPlans(now)
	}
	m.live.show(now)
}

// absorb takes in what the queue holds.
func (m *measurement) absorb() {
	for _, f := range m.queue.take() {
		m.add(f)
		if e, ok := f.(timeline.Event); ok && !m.draining {
			m.followEndpoints(e)
		}
	}
}

// add records and judges one fact. It numbers events on the way, and names their source.
func (m *measurement) add(f timeline.Fact) {
	if e, ok := f.(timeline.Event); ok {
		m.nextEvent++
		e.ID, e.Source = m.nextEvent, m.source.ID
		f = e
		if which := (failing{e.Object.Name, e.To}); e.Kind == timeline.RequestError && m.errors[which] == "" {
			m.errors[which] = e.Detail
		}
	}
	m.keep(m.rec.Append(f))
	m.live.add(f)
}

// keep remembers and tells the first error of the recording. The run goes on in memory: what was
// measured still makes a report.
func (m *measurement) keep(err error) {
	if err != nil && m.recErr == nil {
		m.recErr = err
		m.log.Error("the recording is incomplete from here on; the report is not", "error", err)
	}
}

// sick says why a run must not go on after its baseline, or "". A target is well that answered at least half of the requests
// that are over, and one of them at least: where answers are awaited for longer than the baseline lasts, none has failed yet. Without a baseline nobody wants to know.
func (m *measurement) sick() string {
	m.absorb()
	for _, t := range m.live.tracker.Brief().Targets {
		switch {
		case !t.Kind.Judged(), m.opts.Baseline == 0:
		case t.Failed*2 > t.Sent:
			class := commonest(t.Classes)
			why := class
			if text := m.errors[failing{t.Name, class}]; text != "" {
				why += ": " + text
			}
			return fmt.Sprintf("before anything was done to it, %d of %d requests to %s failed (%s): %s",
				t.Failed, t.Sent, t.Name, why, cmp.Or(asks[class], "is the address right, and is it up?"))
		case t.OK == 0 && t.NotSent > 0:
			return fmt.Sprintf("before anything was done to it, nothing was learnt of %s within %v, for the prober did not run well enough: "+
				"%d requests were not sent, or could not be told from its own faults. Give it CPU, or a longer --baseline", t.Name, m.opts.Baseline, t.NotSent)
		case t.OK == 0:
			return fmt.Sprintf("before anything was done to it, %s gave no good answer within %v: is the address right, and is it up? "+
				"If it is slow, or hardly asked at --rate %v, give it a longer --baseline", t.Name, m.opts.Baseline, m.opts.Rate)
		}
	}
	return ""
}

// asks are what to check first where requests fail so from the beginning.
var asks = map[string]string{
	timeline.DNS.String():     "is the name right?",
	timeline.TLS.String():     "--ca-file says whom to trust, --host which name to ask for",
	timeline.HTTP4xx.String(): askStatus,
	timeline.HTTP5xx.String(): askStatus,
	timeline.Body.String():    "--expect-status and --expect-body say what a good answer is",
}

const askStatus = "check the path, --header, --host and --method; if that is a good answer, --expect-status says so"

// commonest is the class of most failures; of several as common, always the same. What was our own fault is none.
func commonest(classes map[string]int) string {
	name, most := "", 0
	for class := range timeline.NumClasses {
		if n := classes[class.String()]; class.Failed() && n > most {
			name, most = class.String(), n
		}
	}
	return name
}

// startTargets starts the judged targets of every target.
func (m *measurement) startTargets() error {
	for _, s := range m.opts.targets {
		for _, p := range m.probesOf(s) {
			if err := m.startTarget(p); err != nil {
				return err
			}
		}
	}
	for _, s := range m.distinct() {
		if len(s.Measured) > 0 && m.opts.DirectRate > 0 {
			m.plans = append(m.plans, servicePlan{serviceKey(s), newDirectPlan(m.opts.DirectRate, max(1, mostDirect/len(m.services)), m.portsOf(s, true)...)})
		}
	}
	return nil
}

func serviceKey(s timeline.Service) string { return s.Namespace + "/" + s.Name }

// probesOf are the probes a target asks for, one for each kind of connection.
func (m *measurement) probesOf(s targetSpec) (probes []loadgen.Probe) {
	for _, kind := range m.opts.kindsOf(s) {
		p := m.probeOf(s)
		p.Kind = timeline.TargetKind(kind)
		p.Name = strings.TrimSpace(m.opts.label(s) + " " + kind)
		probes = append(probes, p)
	}
	return probes
}

// probeOf is the probe a target asks for, but for its kind and name.
func (m *measurement) probeOf(s targetSpec) loadgen.Probe {
	p := loadgen.Probe{
		Target:        timeline.Target{Rate: m.opts.Rate},
		Method:        m.opts.Method,
		Host:          m.opts.Host,
		Header:        m.opts.Header,
		RootCAs:       m.opts.roots,
		Connections:   m.opts.Connections,
		ExpectStatus:  m.opts.statuses,
		ExpectBody:    m.opts.ExpectBody,
		BackendHeader: m.opts.BackendHeader,
	}
	p.Echo, p.Reply = m.opts.Sent, m.opts.Awaited
	if s.Service == "" {
		p.URL = s.URL.String()
		return p
	}
	info := m.infoOf(s)
	p.Service, p.PortName = serviceKey(info.Service), info.PortName
	p.URL = (&url.URL{Scheme: m.opts.Scheme, Host: serviceHost(info)}).String()
	if m.opts.protocolOf(s).Paths {
		p.URL += s.Path
	}
	p.Host = cmp.Or(p.Host, info.Service.Name+"."+info.Service.Namespace)
	return p
}

func (m *measurement) infoOf(s targetSpec) watcher.Info {
	for _, have := range m.services {
		if have.target == s {
			return have.info
		}
	}
	return watcher.Info{}
}

// startTarget numbers a target, starts its probe and records it.
func (m *measurement) startTarget(p loadgen.Probe) error {
	if m.nextTarget == math.MaxUint32 {
		return fmt.Errorf("measure %s: a run has at most %d targets", p.Name, uint32(math.MaxUint32))
	}
	p.ID = m.nextTarget + 1
	p.Source = m.source.ID
	p.Timeout = m.opts.Timeout
	if p.Kind == timeline.Reused {
		p.Target.Connections = cmp.Or(p.Connections, loadgen.DefaultConnections)
	}
	now := m.clock.Now()
	if err := m.prober.Start(p); err != nil {
		return fmt.Errorf("measure %s: %w", p.Name, err)
	}
	m.nextTarget++
	m.targets[p.ID] = p.Target
	recorded := p.Target
	recorded.URL = maskText(recorded.URL)
	m.add(recorded) // the queue is taken in later: the target comes before its requests
	m.add(targetIs(p.Name, "", "measuring", now))
	return nil
}

func targetIs(name, from, to string, now time.Duration) timeline.Event {
	return timeline.Event{Seen: now, Kind: timeline.TargetChanged, From: from, To: to, Object: timeline.Object{Kind: "Target", Name: name}}
}

// followEndpoints starts, hurries and ends direct targets as endpoints come and go.
func (m *measurement) followEndpoints(e timeline.Event) {
	for _, plan := range m.plans {
		if (e.Kind != timeline.EndpointChanged || e.Service == plan.service) && plan.learn(e) {
			m.follow(plan, m.clock.Now())
		}
	}
}

// followPlans does what is due because time has passed.
func (m *measurement) followPlans(now time.Duration) {
	for _, plan := range m.plans {
		m.follow(plan, now)
	}
}

func (m *measurement) follow(plan servicePlan, now time.Duration) {
	for _, c := range plan.changes(now) {
		switch {
		case !c.probe:
			m.endDirect(c.directEndpoint)
			c.turned = now
		case !c.probed:
			m.startDirect(plan.service, c.directEndpoint, c.rate)
			c.turned = now
		default:
			m.prober.SetRate(c.target, c.rate)
		}
		c.directEndpoint.rate = c.rate
	}
}

// startDirect starts an endpoint's target, or goes on with it.
func (m *measurement) startDirect(service string, ep *directEndpoint, rate float64) {
	p, ok := m.directProbe(service, ep, rate)
	if !ok {
		ep.refused = true
		return
	}
	var err error
	if ep.target == 0 {
		if err = m.startTarget(p); err == nil {
			ep.target = m.nextTarget
		}
	} else {
		p.Target = m.targets[ep.target]
		p.Rate = rate
		now := m.clock.Now()
		if err = m.prober.Start(p); err == nil {
			m.add(targetIs(p.Name, "ended", "measuring", now))
		}
	}
	if ep.probed, ep.refused = err == nil, err != nil; err != nil {
		m.log.Warn("a Pod's own address is not measured", "pod", p.Pod, "error", err)
	}
}

// directProbe is the probe of an endpoint's own address: as its Service is probed on that port.
func (m *measurement) directProbe(service string, ep *directEndpoint, rate float64) (loadgen.Probe, bool) {
	for _, s := range m.services {
		if serviceKey(s.info.Service) != service || s.info.PortName != ep.port || !s.measured {
			continue
		}
		p := m.probeOf(s.target)
		p.Kind, p.Rate, p.Addr = timeline.Direct, rate, ep.addr
		p.URL = directURL(p.URL, ep.addr)
		p.Pod, p.PodUID, p.PodNode = ep.pod.Namespace+"/"+ep.pod.Name, ep.pod.UID, ep.pod.Node
		p.Name = m.directName(s, ep)
		return p, true
	}
	return loadgen.Probe{}, false
}

// directName names an endpoint's target, which no other of the run may be called. The port is named where several of the Service's are
// measured, the address where its Pod has two.
func (m *measurement) directName(s service, ep *directEndpoint) string {
	name := s.info.Service.Name
	if len(m.portsOf(s.info.Service, true)) > 1 {
		name = m.opts.label(s.target)
	}
	if ep.pod.Name == "" {
		return name + " direct " + ep.addr.String()
	}
	name += " direct " + ep.pod.Name
	for _, t := range m.targets {
		if t.Name == name {
			return name + " " + ep.addr.String()
		}
	}
	return name
}

func (m *measurement) endDirect(ep *directEndpoint) {
	m.prober.Stop(ep.target)
	ep.probed = false
	m.add(targetIs(m.targets[ep.target].Name, "measuring", "ended", m.clock.Now()))
}

// directURL is the URL base with addr in place of its host.
func directURL(base string, addr netip.AddrPort) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Host = addr.String()
	return u.String()
}

// hammer runs the background load until ctx ends.
func (m *measurement) hammer(ctx context.Context) {
	err := hey.Hammer(ctx, hey.HammerConfig{Args: m.opts.Hammer, Probe: m.probeOf(m.opts.targets[0]), Clock: m.clock, Sink: m.queue.put})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the background load failed", "error", err)
	}
}
