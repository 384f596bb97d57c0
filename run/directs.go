package run

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"lapse/loadgen"
	"lapse/run/measure"
	"lapse/run/source"
	"lapse/run/spec"
	"lapse/timeline"
)

// directs are the targets at the own addresses of Pods. They come and go with the endpoints.
type directs struct {
	loop  *measure.Loop
	found *found
	plans []servicePlan // of the measured Services
}

// A servicePlan decides which endpoints of one Service are direct targets.
type servicePlan struct {
	service string // NAMESPACE/NAME
	*directPlan
}

// planDirects plans the direct targets of each measured Service.
func (d *directs) planDirects() {
	rate := d.found.opts.DirectRate
	for _, s := range d.found.distinct() {
		if len(s.Measured) > 0 && rate > 0 {
			most := max(1, mostDirect/len(d.found.services))
			d.plans = append(d.plans, servicePlan{spec.ServiceKey(s), newDirectPlan(rate, most, d.found.portsOf(s, true)...)})
		}
	}
}

// followEndpoints starts, speeds up and ends direct targets after a change of endpoints.
func (d *directs) followEndpoints(e timeline.Event) {
	for _, plan := range d.plans {
		if (e.Kind != timeline.EndpointChanged || e.Service == plan.service) && plan.learn(e) {
			d.follow(plan, d.loop.Clock.Now())
		}
	}
}

// followPlans makes the changes of direct targets that are due by now.
func (d *directs) followPlans(now time.Duration) {
	for _, plan := range d.plans {
		d.follow(plan, now)
	}
}

func (d *directs) follow(plan servicePlan, now time.Duration) {
	for _, c := range plan.changes(now) {
		switch {
		case !c.probe:
			d.endDirect(c.directEndpoint)
			c.turned = now
		case !c.probed:
			d.startDirect(plan.service, c.directEndpoint, c.rate)
			c.turned = now
		default:
			d.loop.Prober.SetRate(c.target, c.rate)
		}
		c.directEndpoint.rate = c.rate
	}
}

// startDirect starts an endpoint's target, or starts it again.
func (d *directs) startDirect(service string, ep *directEndpoint, rate float64) {
	p, ok := d.directProbe(service, ep, rate)
	if !ok {
		ep.refused = true
		return
	}
	var err error
	if ep.target == 0 {
		if err = d.loop.StartTarget(p); err == nil {
			ep.target = d.loop.NextTarget
		}
	} else {
		p.Target = d.loop.Targets[ep.target]
		p.Rate = rate
		var began timeline.Event
		if began, err = d.loop.Prober.Start(p); err == nil {
			began.From = "ended"
			d.loop.Add(began)
		}
	}
	if ep.probed, ep.refused = err == nil, err != nil; err != nil {
		d.loop.Log.Warn("a Pod's own address is not measured", "pod", p.Pod, "error", err)
	}
}

// directProbe is the probe of an endpoint's own address, otherwise equal to the Service's probe on that port.
func (d *directs) directProbe(service string, ep *directEndpoint, rate float64) (loadgen.Probe, bool) {
	for _, s := range d.found.services {
		if spec.ServiceKey(s.Info.Service) != service || s.Info.PortName != ep.port || !s.Measured {
			continue
		}
		p := d.found.opts.ProbeOf(s)
		p.Kind, p.Rate, p.Addr = timeline.Direct, rate, ep.addr
		p.Route, p.RouteNode, p.Family, p.Turns = "", "", 0, false
		p.URL = directURL(p.URL, ep.addr)
		if p.PodNode = ep.pod.Node; ep.pod.Kind == "Pod" { // and not an EndpointSlice made by hand
			p.Pod, p.PodUID = ep.pod.Namespace+"/"+ep.pod.Name, ep.pod.UID
		}
		p.Name = d.directName(s, ep)
		return p, true
	}
	return loadgen.Probe{}, false
}

// directName is the unique name of an endpoint's target. It has the port if several ports of the Service are
// measured, and the address if the Pod has two addresses or is unknown.
func (d *directs) directName(s spec.Service, ep *directEndpoint) string {
	name := cmp.Or(s.Target.Label, s.Info.Service.Name)
	if len(d.found.portsOf(s.Info.Service, true)) > 1 {
		name = d.found.opts.Label(s.Target)
	}
	if ep.pod.Kind != "Pod" {
		return d.unused(name + " direct " + ep.addr.String())
	}
	name += " direct " + ep.pod.Name
	if d.unused(name) == name {
		return name
	}
	return d.unused(name + " " + ep.addr.String())
}

// unused is a name that no target has: this one, or with a number behind it. A Pod that comes back under its name and
// at its address, as one of a StatefulSet may, is another target.
func (d *directs) unused(name string) string {
	taken := map[string]bool{}
	for _, t := range d.loop.Targets {
		taken[t.Name] = true
	}
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s (%d)", name, n)
	}
	return free
}

func (d *directs) endDirect(ep *directEndpoint) {
	d.loop.Prober.Stop(ep.target)
	ep.probed = false
	d.loop.Add(source.TargetIs(d.loop.Targets[ep.target].Name, "measuring", "ended", d.loop.Clock.Now()))
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
