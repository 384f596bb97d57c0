package coordinator

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"lapse/internal/run/direct"
	"lapse/internal/run/measure"
	"lapse/internal/run/resolve"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
)

// directs holds the targets at the Pods' own addresses. They come and go with the endpoints.
type directs struct {
	loop  *measure.Loop
	found *resolve.Found
	opts  *spec.Options
	plans []servicePlan // of the measured Services
}

// A servicePlan decides which endpoints of one Service are direct targets.
type servicePlan struct {
	service string // NAMESPACE/NAME
	*direct.Plan
}

// planDirects plans the direct targets of each measured Service.
func (d *directs) planDirects() {
	rate := d.budget(d.opts.Armed)
	for _, s := range d.found.Distinct() {
		if len(s.Measured) > 0 && rate > 0 {
			most := max(1, direct.Most/len(d.found.Services))
			plan := direct.NewPlan(rate, most, d.found.PortsOf(s, true)...)
			plan.Calm = d.opts.Armed
			d.plans = append(d.plans, servicePlan{spec.ServiceKey(s), plan})
		}
	}
}

// calmBudget is the rate of all direct targets of a Service together while there is no sign: so that it is known which
// Pods answered before.
const calmBudget = 1.0

// budget returns the rate of all direct targets of a Service together: no more than what any other target may get now.
func (d *directs) budget(calm bool) float64 {
	rate := min(d.opts.DirectRate, d.loop.MostRate())
	if calm {
		rate = min(rate, calmBudget)
	}
	return rate
}

// setBudgets changes the rates of all direct targets.
func (d *directs) setBudgets(full bool) {
	for _, plan := range d.plans {
		plan.Calm = !full
		plan.SetBudget(d.budget(!full))
	}
	d.followPlans(d.loop.Clock.Now())
}

// followEndpoints starts, speeds up and ends direct targets after a change of endpoints.
func (d *directs) followEndpoints(e timeline.Event) {
	for _, plan := range d.plans {
		if (e.Kind != timeline.EndpointChanged || e.Service == plan.service) && plan.Learn(e) {
			d.follow(plan, d.loop.Clock.Now())
		}
	}
}

// forgetEnded is how long a target is kept at least that has ended. It is longer than what a run has of the time before
// it, and than last requests take.
const forgetEnded = 10 * time.Minute

// followPlans makes the changes of direct targets that are due by now. While no run goes on, it forgets those that
// ended before any run to come: this may have targets of the same names.
func (d *directs) followPlans(now time.Duration) {
	for _, plan := range d.plans {
		d.follow(plan, now)
		if d.loop.Phase != timeline.PhaseArmed {
			continue
		}
		for _, id := range plan.Forget(now - forgetEnded) {
			d.loop.Forget(id)
		}
	}
}

func (d *directs) follow(plan servicePlan, now time.Duration) {
	for _, c := range plan.Changes(now) {
		switch {
		case !c.Probe:
			d.endDirect(c.Endpoint)
			c.Turned = now
		case !c.Probed:
			d.startDirect(plan.service, c.Endpoint, c.Rate)
			c.Turned = now
		default:
			d.loop.Prober.SetRate(c.Target, c.Rate)
		}
		c.Endpoint.Rate = c.Rate
	}
}

// startDirect starts an endpoint's target, or starts it again.
func (d *directs) startDirect(service string, ep *direct.Endpoint, rate float64) {
	p, ok := d.directProbe(service, ep, rate)
	if !ok {
		ep.Refused = true
		return
	}
	var err error
	if ep.Target == 0 {
		if err = d.loop.StartTarget(p); err == nil {
			ep.Target = d.loop.NextTarget
		}
	} else {
		p.Target = d.loop.Targets[ep.Target]
		p.Rate = rate
		err = d.startAgain(p)
	}
	if ep.Probed, ep.Refused = err == nil, err != nil; err != nil {
		d.loop.Log.Warn("a Pod's own address is not measured", "pod", p.Pod, "error", err)
	}
}

// startAgain starts a target that has ended.
func (d *directs) startAgain(p loadgen.Probe) error {
	began, err := d.loop.Prober.Start(p)
	if err != nil {
		return err
	}
	began.From = "ended"
	if d.opts.Armed { // a run that waited for a sign may have left it out
		d.loop.Register(p.Target)
	}
	d.loop.Add(began)
	return nil
}

// directProbe returns the Service's probe on an endpoint's port, at the endpoint's own address.
func (d *directs) directProbe(service string, ep *direct.Endpoint, rate float64) (loadgen.Probe, bool) {
	for _, s := range d.found.Services {
		if spec.ServiceKey(s.Info.Service) != service || s.Info.PortName != ep.Port || !s.Measured {
			continue
		}
		p := d.opts.ProbeOf(s)
		p.Kind, p.Rate, p.Addr = timeline.Direct, rate, ep.Addr
		p.Route, p.RouteNode, p.Family, p.Turns = "", "", 0, false
		p.URL = directURL(p.URL, ep.Addr)
		if p.PodNode = ep.Pod.Node; ep.Pod.Kind == "Pod" { // and not an EndpointSlice made by hand
			p.Pod, p.PodUID = ep.Pod.Namespace+"/"+ep.Pod.Name, ep.Pod.UID
		}
		p.Name = d.directName(s, ep)
		return p, true
	}
	return loadgen.Probe{}, false
}

// directName returns the unique name of an endpoint's target. It contains the port if several ports of the Service are
// measured, and the address if the Pod has two addresses or is unknown.
func (d *directs) directName(s spec.Service, ep *direct.Endpoint) string {
	name := cmp.Or(s.Target.Label, s.Info.Service.Name)
	if len(d.found.PortsOf(s.Info.Service, true)) > 1 {
		name = d.opts.Label(s.Target)
	}
	if ep.Pod.Kind != "Pod" {
		return d.unused(name + " direct " + ep.Addr.String())
	}
	name += " direct " + ep.Pod.Name
	if d.unused(name) == name {
		return name
	}
	return d.unused(name + " " + ep.Addr.String())
}

// unused returns the name, or the name with a number if a target has it already. A Pod that comes back with the same
// name and address, as a StatefulSet's may, is another target.
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

func (d *directs) endDirect(ep *direct.Endpoint) {
	d.loop.Prober.Stop(ep.Target)
	ep.Probed = false
	d.loop.Add(source.TargetIs(d.loop.Targets[ep.Target].Name, "measuring", "ended", d.loop.Clock.Now()))
}

// directURL returns the URL base with addr in place of its host.
func directURL(base string, addr netip.AddrPort) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Host = addr.String()
	return u.String()
}
