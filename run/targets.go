package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/run/measure"
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
func (r *found) resolved() []service {
	byTarget := map[targetSpec]service{}
	for _, s := range slices.Backward(r.services) { // the first of two counts
		byTarget[s.target] = s
	}
	all := make([]service, len(r.opts.targets))
	for i, target := range r.opts.targets {
		all[i] = service{target: target, info: byTarget[target].info, measured: true}
	}
	return all
}

// distinct are the Services of the run, each once, with their measured ports.
func (r *found) distinct() []timeline.Service {
	var all []timeline.Service
	for _, s := range r.services {
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
func (r *found) portsOf(of timeline.Service, measured bool) []string {
	var ports []string
	for _, s := range r.services {
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
			if err := m.StartTarget(p); err != nil {
				return err
			}
		}
	}
	m.planDirects()
	m.Parts = append(m.Parts, measure.Part{Event: m.followEndpoints, Refresh: m.followPlans})
	return nil
}

// controlRate returns the rate of the control target: that of a single target, and at most [source.MostControl].
func (s *Spec) controlRate() float64 {
	if s.Chooses() {
		return source.MostControl
	}
	return min(s.Rate, source.MostControl)
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
	p.URL = (&url.URL{Scheme: o.schemeOf(target), Host: wayHost(info, way, o.domain())}).String()
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

// domain returns the cluster's DNS domain, if requests go to Services by their names.
func (o *Options) domain() string {
	if o.ByClusterIP {
		return ""
	}
	return clusterDomain(o.Env)
}

// wayHost is the host and port of the requests to a Service by a way. Inside a Pod the host is the Service's name, as
// for its clients. Without a domain it is the Service's address.
func wayHost(info watcher.Info, way watcher.Way, domain string) string {
	host := way.Host
	if host == "" {
		host = info.Service.ClusterIP
		if domain != "" {
			// The dot at the end keeps the resolver from trying the search list first.
			host = fmt.Sprintf("%s.%s.svc.%s.", info.Service.Name, info.Service.Namespace, domain)
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(way.Port)))
}

// hammer runs the background load until ctx ends.
func (m *measurement) hammer(ctx context.Context) {
	err := hey.Hammer(ctx, hey.HammerConfig{Args: m.opts.Hammer, Probe: m.opts.probeOf(m.resolved()[0]), Clock: m.Clock, Sink: m.Queue.Put})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the background load failed", "error", err)
	}
}
