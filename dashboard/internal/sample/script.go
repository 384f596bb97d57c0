package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// A script is what happens in a made-up run: the facts follow from it.
type script struct {
	meta   timeline.Meta
	length time.Duration
	pods   []*pod
	stall  span // while the prober does not run
	probes []*probe
	events []timeline.Event // those that follow from nothing else
}

// A span is a stretch of time; the zero value is none.
type span struct{ from, to time.Duration }

func (s span) holds(at time.Duration) bool { return s.from <= at && at < s.to }

// A probe is a target while it is measured.
type probe struct {
	timeline.Target
	measured span
	of       *pod // direct: whose address it is
}

func newScript(meta timeline.Meta, length time.Duration) *script {
	meta.Tool, meta.T0, meta.Options.Timeout, meta.Options.Join = "0.1.0-dev", T0, 800*ms, s
	baseline := timeline.PhaseChange(0, "", timeline.PhaseBaseline, "")
	return &script{meta: meta, length: length, events: []timeline.Event{baseline}}
}

func (c *script) add(e timeline.Event) { c.events = append(c.events, e) }

// node adds a change of a node.
func (c *script) node(seen time.Duration, name string, kind timeline.EventKind, from, to string) {
	c.add(timeline.Event{Seen: seen, Kind: kind, Writer: "apiserver", From: from, To: to,
		Object: timeline.Object{Kind: "Node", Name: name}})
}

// says adds a line of the command's output.
func (c *script) says(seen time.Duration, line string) {
	c.add(timeline.Event{Since: seen, Seen: seen, Kind: timeline.CommandOutput, Writer: "lapse", Detail: line})
}

// runs adds the command, which ends well, and the phases of the run about it.
func (c *script) runs(command []string, from, to time.Duration) {
	c.add(timeline.PhaseChange(from, timeline.PhaseBaseline, timeline.PhaseMeasuring, ""))
	c.add(timeline.Event{Since: from, Seen: from, Kind: timeline.Command, Writer: "lapse", To: "running",
		Detail: timeline.JoinCommand(command)})
	c.add(timeline.Event{Since: to, Seen: to, Kind: timeline.Command, Writer: "lapse", From: "running",
		To: "exited", ExitCode: new(0)})
	c.add(timeline.PhaseChange(to, timeline.PhaseMeasuring, timeline.PhaseSettling, ""))
	c.add(timeline.PhaseChange(c.length, timeline.PhaseSettling, timeline.PhaseEnded, ""))
}

// measure adds a target of a Service, or the control target, that is measured all the time.
func (c *script) measure(kind timeline.TargetKind, service string, rate float64) {
	_, name, _ := strings.Cut(service, "/")
	c.probe(&probe{
		Target: timeline.Target{Name: strings.TrimSpace(name + " " + string(kind)), Kind: kind,
			URL: "http://10.96.14.3/", Service: service, Rate: rate},
		measured: span{0, c.length},
	})
}

// direct adds a Pod's own address as a target, measured while the Pod is an endpoint.
func (c *script) direct(p *pod, rate float64) {
	_, service, _ := strings.Cut(p.service, "/")
	measured := span{0, cmp.Or(p.gone, c.length)}
	if p.created > 0 {
		measured.from = p.started() + 50*ms
	}
	addr := netip.AddrPortFrom(netip.MustParseAddr(p.addr), 8080)
	c.probe(&probe{Target: timeline.Target{
		Name: service + " direct " + p.name, Kind: timeline.Direct, URL: "http://" + addr.String() + "/",
		Service: p.service, Rate: rate,
		Addr: addr, Pod: p.String(), PodUID: p.object().UID, PodNode: p.node,
	}, measured: measured, of: p})
}

func (c *script) probe(p *probe) {
	p.ID, p.Source, p.Timeout = timeline.TargetID(len(c.probes)+1), 1, c.meta.Options.Timeout
	c.probes = append(c.probes, p)
}

// facts are all events, in order.
func (c *script) facts() []timeline.Event {
	all := slices.Clone(c.events)
	for _, p := range c.pods {
		all = append(all, p.life()...)
	}
	for _, p := range c.probes {
		object := timeline.Object{Kind: "Target", Name: p.Name}
		all = append(all, timeline.Event{Seen: p.measured.from, Kind: timeline.TargetChanged, To: "measuring",
			Object: object})
		if p.measured.to < c.length {
			all = append(all, timeline.Event{Seen: p.measured.to, Kind: timeline.TargetChanged, To: "ended",
				Object: object})
		}
	}
	slices.SortStableFunc(all, func(a, b timeline.Event) int { return cmp.Compare(a.Seen, b.Seen) })
	for i := range all {
		all[i].ID, all[i].Source = uint32(i+1), 1
	}
	return all
}

// judge hands the facts that were known at instant now to a live judge, and returns what it says.
func (c *script) judge(now time.Duration) *model.Timeline {
	tracker := correlate.NewTracker(correlate.Options{})
	tracker.Add(c.meta)
	tracker.Add(timeline.Source{ID: 1, Name: "lapse-0", Role: timeline.Coordinator, Node: "node-a", T0: c.meta.T0})
	for i, p := range c.pods {
		tracker.Add(timeline.Backend{Source: 1, ID: uint16(i + 1), Name: p.name})
	}
	now = min(now, c.length)
	for _, p := range c.probes {
		if p.measured.from <= now {
			tracker.Add(p.Target)
		}
	}
	for _, e := range c.facts() {
		if e.Seen <= now {
			tracker.Add(e)
		}
	}
	first := uint64(0)
	for _, p := range c.probes {
		for b := range c.batches(p, now) {
			b.FirstSeq = first
			first += uint64(len(b.Requests))
			tracker.Add(b)
		}
	}
	tracker.SetEnd(now)
	tl := tracker.Timeline()
	var gates []verdict.Gate
	for _, expr := range c.meta.Options.Gates {
		gate, err := verdict.ParseGate(expr)
		if err != nil {
			panic(err) // the script is wrong
		}
		gates = append(gates, gate)
	}
	verdict.Judge(tl, gates)
	return tl
}

// batches yields the requests to a target that were over by now.
func (c *script) batches(p *probe, now time.Duration) func(yield func(timeline.Batch) bool) {
	return func(yield func(timeline.Batch) bool) {
		random := rand.New(rand.NewPCG(1, uint64(p.ID)))
		routes := c.routes(p.Service)
		interval, end := p.Interval(), min(now, p.measured.to)
		mark := end // no request due before it is in flight
		var b timeline.Batch
		for i := uint64(0); ; i++ {
			due := p.measured.from + time.Duration(i)*interval
			if due >= end || len(b.Requests) == 10_000 {
				b.Watermarks = []timeline.Watermark{{Target: p.ID, Due: min(mark, due)}}
				if !yield(b) || due >= end {
					return
				}
				b = timeline.Batch{Source: 1}
			}
			for len(routes) > 1 && routes[1].from <= due {
				routes = routes[1:]
			}
			outcome, took := c.outcome(p, routes[0].pods, due, random)
			if due+took > now {
				mark = min(mark, due)
				continue
			}
			b.Source, b.Requests = 1, append(b.Requests, timeline.Request{Target: p.ID, Seq: i, Due: due,
				Sent: due, Done: due + took, Outcome: outcome})
		}
	}
}

// A route is to which Pods a Service's address leads from an instant on, by their index.
type route struct {
	from time.Duration
	pods []int
}

func (c *script) routes(service string) []route {
	changes := []time.Duration{0}
	for _, p := range c.pods {
		if p.service == service {
			changes = append(changes, p.routed().from, p.routed().to)
		}
	}
	slices.Sort(changes)
	var all []route
	for _, at := range slices.Compact(changes) {
		r := route{from: at}
		for i, p := range c.pods {
			if p.service == service && p.routed().holds(at) {
				r.pods = append(r.pods, i)
			}
		}
		all = append(all, r)
	}
	return all
}

// outcome is how the request due at that instant ends, and when. Connections that are kept break with their Pod, and
// are opened anew to one that serves.
func (c *script) outcome(
	p *probe, routed []int, at time.Duration, random *rand.Rand,
) (timeline.Outcome, time.Duration) {
	reused := p.Kind == timeline.Reused
	fails := func(class timeline.Class, took time.Duration) (timeline.Outcome, time.Duration) {
		return timeline.Outcome{Class: class, Reused: reused && class == timeline.EOF}, took
	}
	to := p.of
	backend := slices.Index(c.pods, to)
	switch {
	case c.stall.holds(at):
		return fails(timeline.NotSent, 0)
	case p.Kind == timeline.Control:
		return timeline.Outcome{Code: 200}, takes(0.12, random)
	case to != nil:
	case len(routed) == 0:
		return fails(timeline.TimeoutConnect, p.Timeout)
	default:
		backend = routed[random.IntN(len(routed))]
		to = c.pods[backend]
	}
	if !to.serves(at) && reused && at > to.stops+12*ms {
		if i := slices.IndexFunc(routed, func(i int) bool { return c.pods[i].serves(at) }); i >= 0 {
			backend = routed[i]
			to = c.pods[backend]
		}
	}
	hung := time.Duration(0)
	switch {
	case !to.serves(at) && reused && at <= to.stops+12*ms:
		return fails(timeline.EOF, 300*time.Microsecond)
	case !to.serves(at):
		return fails(timeline.Refused, 200*time.Microsecond)
	case to.hangs.holds(at):
		hung = to.hangs.to - at
	}
	typical := 1.9
	if since := at - to.listens; to.listens > 0 {
		typical *= 1 + 5*math.Exp(-since.Seconds()) // a young Pod is slow
	}
	took := hung + takes(typical, random)
	if took >= p.Timeout {
		return fails(timeline.TimeoutResponse, p.Timeout)
	}
	return timeline.Outcome{Code: 200, Backend: uint16(backend + 1), Reused: reused,
		Phases: timeline.Phases{FirstByte: timeline.MicrosOf(took)}}, took
}

// takes is how long an answer takes that typically takes so many milliseconds: at times much longer.
func takes(typical float64, random *rand.Rand) time.Duration {
	spread := 0.28
	if random.IntN(60) == 0 {
		spread = 1.3
	}
	return time.Duration(typical * math.Exp(spread*random.NormFloat64()) * float64(ms))
}
