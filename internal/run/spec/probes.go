package spec

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/run/exit"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/loadgen/lookup"
	"lapse/timeline"
	"lapse/watcher"
)

// A Service is a target with the description of its Service. A bare URL has none.
type Service struct {
	Target   Target
	Info     watcher.Info
	Measured bool // and not only watched
}

// PortText returns the Service's port for people: its name, or its number if it has none.
func (s Service) PortText() string {
	return cmp.Or(s.Info.PortName, strconv.Itoa(int(s.Info.Port)))
}

// Ways returns the ways to a target, at least one.
func (s Service) Ways() []watcher.Way {
	if len(s.Info.Ways) == 0 {
		return []watcher.Way{{Port: s.Info.Port}}
	}
	return s.Info.Ways
}

// ProbesOf returns the probes of a target: one for each way to it and each kind of connection.
func (o *Options) ProbesOf(s Service) (probes []loadgen.Probe) {
	for _, way := range s.Ways() {
		for _, kind := range kindsOf(o, s.Target) {
			p := o.ProbeBy(s, way)
			p.Kind, p.Timeout = timeline.TargetKind(kind), o.Timeout
			parts := []string{o.Label(s.Target), way.Name(), kind}
			p.Name = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
			proof := loadgen.ProofOf(p)
			p.Proves, p.Blind = proof.Text, proof.Blind
			switch p.Kind {
			case timeline.Held:
				o.holdOpen(&p, o.Held)
			case timeline.Reused:
				p.Target.Connections = cmp.Or(p.Connections, loadgen.DefaultConnections)
			}
			probes = append(probes, p)
		}
	}
	return probes
}

// ProbesFrom returns the probes of a target for the ith of n nodes, which share the held connections and Rate.
func (o *Options) ProbesFrom(s Service, i, n int) (probes []loadgen.Probe) {
	for _, p := range o.ProbesOf(s) {
		if p.Kind != timeline.Held {
			p.Rate = o.RateFrom(n)
		} else if share := heldShare(o.Held, i, n); share > 0 {
			o.holdOpen(&p, share)
		} else {
			continue
		}
		probes = append(probes, p)
	}
	return probes
}

// ProbeOf returns the probe of a target by its first way, without a kind and a name.
func (o *Options) ProbeOf(s Service) loadgen.Probe { return o.ProbeBy(s, s.Ways()[0]) }

// ProbeBy returns the probe of a target by a way, without a kind and a name.
func (o *Options) ProbeBy(s Service, way watcher.Way) loadgen.Probe {
	p := probe(o, timeline.Target{Rate: o.RateFrom(1)})
	target, info := s.Target, s.Info
	if target.Service == "" {
		p.URL = target.URL.String()
		return p
	}
	p.Service, p.PortName = ServiceKey(info.Service), info.PortName
	p.Route, p.RouteNode, p.Family, p.Turns = way.Route, way.Node, way.Family, way.Turns
	p.URL = (&url.URL{Scheme: o.SchemeOf(target), Host: wayHost(info, way, domain(o))}).String()
	if protocolOf(o, target).Paths {
		p.URL += target.Path
	}
	known := info.Service.Name + "." + info.Service.Namespace
	if info.Service.ExternalName != "" { // the host does not know the Service's own name
		known = strings.TrimSuffix(info.Service.ExternalName, ".")
	}
	p.Host = cmp.Or(p.Host, known)
	return p
}

// domain returns the cluster's DNS domain, if requests go to Services by their names.
func domain(o *Options) string {
	if o.ByClusterIP {
		return ""
	}
	return ClusterDomain(o.Env)
}

// wayHost returns the host and port of the requests to a Service by a way. Inside a Pod the host is the Service's
// name, as for its clients. Without a domain it is the Service's address.
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

// ServiceKey returns NAMESPACE/NAME.
func ServiceKey(s timeline.Service) string { return s.Namespace + "/" + s.Name }

// ControlRate returns the rate of each control target: the rate of a target that is measured from one place, at most
// [source.MostControl].
func (s *Spec) ControlRate() float64 {
	if s.Chooses() {
		return source.MostControl
	}
	return min(s.RateFrom(1), source.MostControl)
}

// AssignedProbes returns the probes of the targets that the coordinator has assigned.
func (o *Options) AssignedProbes(targets []agent.Assigned) (probes []loadgen.Probe) {
	for _, t := range targets {
		probe := probe(o, t.Target)
		probe.Host = t.Host
		switch t.Kind {
		case timeline.Held:
			probe.Connections = t.Connections
		case timeline.Control:
			probe = loadgen.Probe{Target: t.Target}
		}
		probes = append(probes, probe)
	}
	return probes
}

// Assigned returns the Spec for a prober. It contains the values from Secrets instead of their names.
func (s *Spec) Assigned() plain {
	plain := plain(*s)
	plain.HeadersFrom, plain.EchoFrom = nil, ""
	return plain
}

// FromOutside is the place that --from names for this machine.
const FromOutside = "outside"

// readOutside removes the workstation from --from, which then has only nodes.
func readOutside(o *Options) error {
	places := strings.Split(o.From, ",")
	if !slices.Contains(places, FromOutside) {
		return nil
	}
	o.Outside = true
	o.From = strings.Join(slices.DeleteFunc(places, func(place string) bool { return place == FromOutside }), ",")
	const advice = "as in `lapse run svc/web --from all,outside -- kubectl drain node1 --ignore-daemonsets`"
	switch {
	case o.Changes > 0:
		return exit.Usagef("drop it from --from",
			"--from outside: the Service of `lapse routes` has no address outside of the cluster")
	case o.YAML, o.AgentListen != "":
		return exit.Usagef("`lapse run` measures from here as well",
			"--from outside: a Job that is applied by hand has no workstation")
	case o.Chooses():
		return exit.Usagef("name the Services; "+advice,
			"--from outside: chosen Services need not have an address outside of the cluster")
	case !o.InCluster():
		return exit.Usagef("drop it, or name a Service; "+advice,
			"--from outside: what is measured here is measured from nowhere else")
	}
	return CheckMeasures()
}

// OutsideProbes returns the probes of this machine: the targets by their ways from outside, and a control target.
func (o *Options) OutsideProbes() (probes []loadgen.Probe) {
	for _, s := range o.FromHere {
		for _, p := range o.ProbesOf(s) {
			p.Name += " from " + FromOutside
			probes = append(probes, p)
		}
	}
	return append(probes, loadgen.Probe{Target: timeline.Target{
		Name: "control from " + FromOutside, Kind: timeline.Control, Rate: o.ControlRate(), Timeout: o.Timeout,
	}})
}

// LooksNamesUp reports whether DNS servers are asked for the Services' names in addition: requests go to these names,
// and there are at most [mostNames].
func (o *Options) LooksNamesUp() bool {
	return o.InCluster() && !o.Chooses() && !o.ByClusterIP && o.CountServices() <= mostNames
}

// IsHeadless reports whether a Service is asked at its endpoints' own addresses.
func IsHeadless(info watcher.Info) bool {
	return slices.ContainsFunc(info.Ways, func(w watcher.Way) bool { return w.Turns })
}

// DNS says which DNS servers are asked: for the name of a measured headless Service, for the twin of the Service of
// `lapse routes`, and by `lapse run` for the names of its Services. The workstation finds the servers, so that the Job
// needs no rights outside of its namespace.
type DNS struct {
	Servers  []lookup.Server `json:"servers,omitempty"`
	NotAsked string          `json:"notAsked,omitzero"` // why there are none, or which were left out
}

// mostNames is the largest number of Services whose names are looked up: each adds a target for each DNS server.
const mostNames = 5

// CompareClocks is how often the workstation's clock is compared with the run's.
const CompareClocks = 10 * time.Second
