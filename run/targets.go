package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/run/mask"
	"lapse/run/source"
	"lapse/timeline"
	"lapse/watcher"
)

// A service is a target with the description of its Service. A bare URL has none.
type service struct {
	target   targetSpec
	info     watcher.Info
	measured bool // and not only watched
}

// resolved are the targets of the run, in order, each with the description of its Service.
func (m *measurement) resolved() []service {
	byTarget := map[targetSpec]service{}
	for _, s := range slices.Backward(m.services) { // the first of two counts
		byTarget[s.target] = s
	}
	all := make([]service, len(m.opts.targets))
	for i, target := range m.opts.targets {
		all[i] = service{target: target, info: byTarget[target].info, measured: true}
	}
	return all
}

// A servicePlan decides which endpoints of one Service are direct targets.
type servicePlan struct {
	service string // NAMESPACE/NAME
	*directPlan
}

// distinct are the Services of the run, each once, with their measured ports.
func (m *measurement) distinct() []timeline.Service {
	var all []timeline.Service
	for _, s := range m.services {
		i := slices.IndexFunc(all, func(have timeline.Service) bool { return serviceKey(have) == serviceKey(s.info.Service) })
		if i < 0 {
			i, all = len(all), append(all, s.info.Service)
			all[i].Measured, all[i].NotCovered = nil, nil
		}
		for _, sentence := range s.info.Service.NotCovered {
			if s.measured && !slices.Contains(all[i].NotCovered, sentence) {
				all[i].NotCovered = append(all[i].NotCovered, sentence)
			}
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

// portsOf are the names of a Service's ports in the run: all, or the measured ones.
func (m *measurement) portsOf(of timeline.Service, measured bool) []string {
	var ports []string
	for _, s := range m.services {
		if serviceKey(s.info.Service) == serviceKey(of) && (s.measured || !measured) && !slices.Contains(ports, s.info.PortName) {
			ports = append(ports, s.info.PortName)
		}
	}
	return ports
}

// startTargets starts the probes of every target, unless probers measure them, and plans the direct targets.
func (m *measurement) startTargets() error {
	for _, s := range m.resolved() {
		if m.fleet != nil {
			break
		}
		for _, p := range m.opts.probesOf(s) {
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

// controlRate is the rate of the control target: 100 requests per second, or that of a single target if it is less.
func (o *Options) controlRate() float64 {
	if o.Chooses() {
		return 100
	}
	return min(o.Rate, 100)
}

func serviceKey(s timeline.Service) string { return s.Namespace + "/" + s.Name }

// probesOf are the probes of a target: one for each way to it and each kind of connection.
func (o *Options) probesOf(s service) (probes []loadgen.Probe) {
	for _, way := range s.ways() {
		for _, kind := range o.kindsOf(s.target) {
			p := o.probeBy(s, way)
			p.Kind, p.Timeout = timeline.TargetKind(kind), o.Timeout
			p.Name = strings.Join(slices.DeleteFunc([]string{o.label(s.target), way.Name(), kind}, func(part string) bool { return part == "" }), " ")
			proof := loadgen.ProofOf(p)
			p.Proves, p.Blind = proof.Text, proof.Blind
			switch p.Kind {
			case timeline.Held:
				o.hold(&p, o.Held)
			case timeline.Reused:
				p.Target.Connections = cmp.Or(p.Connections, loadgen.DefaultConnections)
			}
			probes = append(probes, p)
		}
	}
	return probes
}

// ways are the ways to a target, at least one.
func (s service) ways() []watcher.Way {
	if len(s.info.Ways) == 0 {
		return []watcher.Way{{Port: s.info.Port}}
	}
	return s.info.Ways
}

// probeOf is the probe of a target by its first way, without a kind and a name.
func (o *Options) probeOf(s service) loadgen.Probe { return o.probeBy(s, s.ways()[0]) }

// probeBy is the probe of a target by a way, without a kind and a name.
func (o *Options) probeBy(s service, way watcher.Way) loadgen.Probe {
	p := o.probe(timeline.Target{Rate: o.Rate})
	target, info := s.target, s.info
	if target.Service == "" {
		p.URL = target.URL.String()
		return p
	}
	p.Service, p.PortName = serviceKey(info.Service), info.PortName
	p.Route, p.RouteNode, p.Family, p.Turns = way.Route, way.Node, way.Family, way.Turns
	p.URL = (&url.URL{Scheme: o.schemeOf(target), Host: wayHost(info, way, o.ByClusterIP)}).String()
	if o.protocolOf(target).Paths {
		p.URL += target.Path
	}
	known := info.Service.Name + "." + info.Service.Namespace
	if info.Service.ExternalName != "" { // the host does not know the Service's own name
		known = strings.TrimSuffix(info.Service.ExternalName, ".")
	}
	p.Host = cmp.Or(p.Host, known)
	return p
}

// probe is a probe of a target with the options that all probes have in common.
func (o *Options) probe(t timeline.Target) loadgen.Probe {
	return loadgen.Probe{
		Target:        t,
		Method:        o.Method,
		Host:          o.Host,
		Header:        o.Header,
		Echo:          o.Sent,
		Reply:         o.Awaited,
		RootCAs:       o.roots,
		Connections:   o.Connections,
		ExpectStatus:  o.statuses,
		ExpectBody:    o.ExpectBody,
		BackendHeader: o.BackendHeader,
		GRPCMethod:    o.GRPCMethod,
		GRPCMessage:   o.GRPCRequest,
	}
}

// wayHost is the host and port of the requests to a Service by a way. Inside a Pod the host is the Service's name, as
// for its clients. Outside, or with byClusterIP, it is the Service's address.
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

// startTarget numbers a target, starts its probe and records it.
func (m *measurement) startTarget(p loadgen.Probe) error {
	if m.nextTarget == math.MaxUint32 {
		return fmt.Errorf("measure %s: a run has at most %d targets", p.Name, uint32(math.MaxUint32))
	}
	p.ID = m.nextTarget + 1
	p.Source = m.source.ID
	p.Timeout = m.opts.Timeout
	began, err := m.prober.Start(p)
	if err != nil {
		return err
	}
	m.nextTarget++
	m.register(p.Target)
	m.add(began)
	return nil
}

// register records a target. The queue is read later, so that the target comes before its requests.
func (m *measurement) register(t timeline.Target) {
	m.targets[t.ID] = t
	t.URL = mask.Text(t.URL)
	m.add(t)
}

// followEndpoints starts, speeds up and ends direct targets after a change of endpoints.
func (m *measurement) followEndpoints(e timeline.Event) {
	for _, plan := range m.plans {
		if (e.Kind != timeline.EndpointChanged || e.Service == plan.service) && plan.learn(e) {
			m.follow(plan, m.clock.Now())
		}
	}
}

// followPlans makes the changes of direct targets that are due by now.
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

// startDirect starts an endpoint's target, or starts it again.
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
		var began timeline.Event
		if began, err = m.prober.Start(p); err == nil {
			began.From = "ended"
			m.add(began)
		}
	}
	if ep.probed, ep.refused = err == nil, err != nil; err != nil {
		m.log.Warn("a Pod's own address is not measured", "pod", p.Pod, "error", err)
	}
}

// directProbe is the probe of an endpoint's own address, otherwise equal to the Service's probe on that port.
func (m *measurement) directProbe(service string, ep *directEndpoint, rate float64) (loadgen.Probe, bool) {
	for _, s := range m.services {
		if serviceKey(s.info.Service) != service || s.info.PortName != ep.port || !s.measured {
			continue
		}
		p := m.opts.probeOf(s)
		p.Kind, p.Rate, p.Addr = timeline.Direct, rate, ep.addr
		p.Route, p.RouteNode, p.Family, p.Turns = "", "", 0, false
		p.URL = directURL(p.URL, ep.addr)
		if p.PodNode = ep.pod.Node; ep.pod.Kind == "Pod" { // and not an EndpointSlice made by hand
			p.Pod, p.PodUID = ep.pod.Namespace+"/"+ep.pod.Name, ep.pod.UID
		}
		p.Name = m.directName(s, ep)
		return p, true
	}
	return loadgen.Probe{}, false
}

// directName is the unique name of an endpoint's target. It has the port if several ports of the Service are
// measured, and the address if the Pod has two addresses or is unknown.
func (m *measurement) directName(s service, ep *directEndpoint) string {
	name := cmp.Or(s.target.label, s.info.Service.Name)
	if len(m.portsOf(s.info.Service, true)) > 1 {
		name = m.opts.label(s.target)
	}
	if ep.pod.Kind != "Pod" {
		return m.unused(name + " direct " + ep.addr.String())
	}
	name += " direct " + ep.pod.Name
	if m.unused(name) == name {
		return name
	}
	return m.unused(name + " " + ep.addr.String())
}

// unused is a name that no target has: this one, or with a number behind it. A Pod that comes back under its name and
// at its address, as one of a StatefulSet may, is another target.
func (m *measurement) unused(name string) string {
	taken := map[string]bool{}
	for _, t := range m.targets {
		taken[t.Name] = true
	}
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s (%d)", name, n)
	}
	return free
}

func (m *measurement) endDirect(ep *directEndpoint) {
	m.prober.Stop(ep.target)
	ep.probed = false
	m.add(source.TargetIs(m.targets[ep.target].Name, "measuring", "ended", m.clock.Now()))
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
	err := hey.Hammer(ctx, hey.HammerConfig{Args: m.opts.Hammer, Probe: m.opts.probeOf(m.resolved()[0]), Clock: m.clock, Sink: m.queue.Put})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the background load failed", "error", err)
	}
}
