package coordinator

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/run/measure"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
)

// A fleet are the probers of one measurement.
type fleet struct {
	party
	*crew
	begin     func()             // of a guard: the baseline is over
	also      bool               // this process asks the Services as well, and shares the rates with them
	nodes     []string           // to measure from, of a run
	created   map[string]bool    // nodes with a Pod at any time; owned by the crew
	processes map[string]*joined // by node; owned by the loop

	full  map[timeline.SourceID][]asked // what a process asks; owned by the loop
	ready []*joining                    // that wait for the next refresh; owned by the loop

	// Both are owned by the loop.
	absent map[string]time.Duration // nodes that are up and not measured from: since when, or [isLost]
	told   map[string]bool          // those of them that are told to be missing in the run that goes on
}

// asked is a target of a process, with its full rate.
type asked struct {
	id   timeline.TargetID
	kind timeline.TargetKind
	rate float64
}

// joined are the processes of a node that have joined.
type joined struct {
	all, measuring int
	lost           time.Duration // when the last one was
}

// forgetNode is the time after which a node that no process measures from is forgotten. It is longer than a run: its
// targets have names of their own.
const forgetNode = 24 * time.Hour

// leave notes that a process of a node was lost, and forgets nodes from which nothing was measured for long.
func (f *fleet) leave(node string, now time.Duration) {
	if of := f.processes[node]; of != nil {
		of.measuring--
		of.lost = now
	}
	maps.DeleteFunc(f.processes, func(_ string, of *joined) bool {
		return of.measuring == 0 && now-of.lost > forgetNode
	})
}

// newFleet returns the probers of a measurement, who are of a crew.
func (m *measurement) newFleet(c *crew) *fleet {
	return &fleet{
		crew: c, processes: map[string]*joined{}, full: map[timeline.SourceID][]asked{},
		absent: map[string]time.Duration{}, told: map[string]bool{},
		party: party{
			clock: m.Clock, put: m.Queue.Put, calls: m.Calls, join: m.join,
			over: make(chan struct{}), done: make(chan struct{}), answers: m.opts.Timeout, full: m.raised,
		},
	}
}

// startFleet prepares the probers of a run, which have nothing else to measure.
func (m *measurement) startFleet(ctx context.Context) error {
	namespace := m.opts.Env[deploy.EnvNamespace]
	pair, err := m.coordinatorKeys(ctx, namespace)
	if err != nil {
		return err
	}
	keys, err := pair.Client()
	if err != nil {
		return err
	}
	c := newCrew(m.Client, namespace, deploy.ProberSelector(m.opts.ID), m.log)
	c.clock, c.timeout = m.Clock, m.opts.Timeout
	c.keys = func(context.Context) (*tls.Config, error) { return keys, nil }
	f := m.newFleet(c)
	f.nodes, f.created = m.opts.Probers, map[string]bool{}
	c.wants = func(node string) bool { return slices.Contains(f.nodes, node) }
	for _, node := range f.nodes {
		f.note(node, notCreated)
	}
	c.looked = func(ctx context.Context, pods []corev1.Pod) { m.noteUncreated(ctx, pods) }
	m.fleet = f
	m.Waits = &measure.Awaited{
		Longest: m.opts.ProberWait, Missing: m.missingProbers,
		Complete: func() bool { return len(f.missing()) == 0 },
	}
	m.Parts = append(m.Parts, measure.Part{Abandon: f.abandon, Probe: func(ctx context.Context) {
		go c.serve(ctx, &f.party)
		c.run(ctx)
	}})
	return nil
}

// notCreated is the state of a node on which the DaemonSet's controller has created no Pod yet.
const notCreated = "its Pod was not created yet"

// noteUncreated records why nodes have no Pod, while the run waits for them.
func (m *measurement) noteUncreated(ctx context.Context, pods []corev1.Pod) {
	f := m.fleet
	for i := range pods {
		f.created[deploy.ProberNode(&pods[i])] = true
	}
	without := slices.DeleteFunc(slices.Clone(f.nodes), func(node string) bool { return f.created[node] })
	if len(without) == 0 || f.crew.clock.Now() > m.opts.ProberWait {
		return
	}
	unattended := m.opts.Env[deploy.EnvKeys] != "" // the run was applied by hand
	why := deploy.Uncreated(ctx, f.client, f.namespace, m.opts.ID, unattended)
	for _, node := range without {
		f.note(node, cmp.Or(why, notCreated))
	}
}

// join gives a prober its assignment, or records the loss of one. Probers who share a rate get theirs at the next
// refresh, which also changes the rates of all others: so many who join or are lost at once change them once.
func (m *measurement) join(j *joining) {
	switch {
	case j.lost != nil:
		m.Absorb() // its last requests, before its targets are forgotten
		m.proberIs("lost", j.node, "Pod "+j.pod+": "+j.lost.Error())
		for _, t := range m.fleet.full[j.source] {
			delete(m.Targets, t.id)
		}
		delete(m.fleet.full, j.source)
		m.fleet.leave(j.node, m.Clock.Now())
		m.fleet.absent[j.node] = isLost
	case m.fleet.also:
		m.fleet.ready = append(m.fleet.ready, j)
	default:
		m.assign(j, 0)
	}
}

// mostStarting is how long a guard's prober may take to measure from a node that is up: its Pod pulls the image, and
// waits for its keys.
const mostStarting = 2 * time.Minute

// isLost stands for since when nothing is measured from a node, if that its prober is lost tells so.
const isLost = time.Duration(math.MaxInt64)

// noteMissing records in each run, once, the nodes that are up and that nothing has been measured from for
// [mostStarting].
func (m *measurement) noteMissing(now time.Duration) {
	f, missing := m.fleet, m.fleet.missing()
	maps.DeleteFunc(missing, func(node, _ string) bool {
		of := f.processes[node]
		return m.IsDown(node) || of != nil && of.measuring > 0
	})
	maps.DeleteFunc(f.absent, func(node string, _ time.Duration) bool { return missing[node] == "" })
	runs := m.Phase == timeline.PhaseMeasuring || m.Phase == timeline.PhaseSettling
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		if since, known := f.absent[node]; !known {
			f.absent[node] = now
		} else if runs && !f.told[node] && now-since >= mostStarting {
			m.proberIs("missing", node, missing[node])
			f.told[node] = true
		}
	}
}

// tellMissingAnew begins a run. The next one may begin as soon as one has ended.
func (m *measurement) tellMissingAnew() {
	if m.fleet != nil {
		clear(m.fleet.told)
	}
}

// assignReady gives the probers that have joined since the last refresh their assignments.
func (m *measurement) assignReady(time.Duration) {
	ready := m.fleet.ready
	m.fleet.ready = nil
	for i, j := range ready {
		m.assign(j, len(ready)-i)
	}
}

// assign gives a prober its assignment. joining is how many get theirs now who share the rate, itself included.
func (m *measurement) assign(j *joining, joining int) {
	var targets []agent.Assigned
	var full []float64
	for _, p := range m.probesFrom(j.node) {
		full = append(full, p.Rate)
		p.Rate = m.rateFrom(p.Kind, p.Rate, m.places()+joining)
		targets = append(targets, agent.Assigned{Target: p.Target, Host: p.Host})
	}
	a := m.admit(timeline.Source{
		Name: j.pod, Role: timeline.Prober, Node: j.node, Zone: j.zone,
		Pod: m.fleet.namespace + "/" + j.pod, Version: j.status.Version, T0: j.status.T0,
	}, j.sync, targets)
	of := make([]asked, len(full))
	for i, t := range a.Targets {
		of[i] = asked{t.ID, t.Kind, full[i]}
	}
	m.fleet.full[a.Source] = of
	a.Spec = spec.MustMarshal(m.opts.Assigned())
	m.proberIs("measuring", j.node, "Pod "+j.pod)
	m.fleet.note(j.node, "")
	j.assigned <- a
}

// rateFrom returns the rate in force of a target of one node. full is, with [fleet.also], that of all places together.
// Then each place asks its control target no more often than the Service: of 100 places, it would send most of the
// requests.
func (m *measurement) rateFrom(kind timeline.TargetKind, full float64, places int) float64 {
	if !m.fleet.also {
		return m.RateOf(kind, full, m.opts.Sharers(len(m.fleet.nodes)))
	}
	return min(m.RateOf(kind, full/float64(places), places), m.MostRate()/float64(places))
}

// places returns from how many places a Service is measured, this process included.
func (m *measurement) places() int {
	if m.fleet == nil {
		return 1
	}
	return 1 + len(m.fleet.full)
}

// setProbersRates lets the probers ask at the rates in force.
func (m *measurement) setProbersRates() {
	if m.fleet == nil || m.Armed == nil {
		return
	}
	wanted, places := map[timeline.SourceID][]agent.Rate{}, m.places()
	for of, targets := range m.fleet.full {
		for _, t := range targets {
			wanted[of] = append(wanted[of], agent.Rate{Target: t.id, Rate: m.rateFrom(t.kind, t.rate, places)})
		}
	}
	m.fleet.want(&m.fleet.party, wanted)
}

// proberIs records a change of a node's prober.
func (m *measurement) proberIs(to, node, detail string) {
	m.Add(timeline.Event{
		Seen: m.Clock.Now(), Kind: timeline.ProberChanged, To: to, Detail: detail,
		Object: timeline.Object{Kind: "Node", Name: node, Node: node},
	})
}

// probesFrom returns the probes of one process on a node.
func (m *measurement) probesFrom(node string) (probes []loadgen.Probe) {
	place := " from " + node
	of := m.fleet.processes[node]
	if of == nil {
		of = &joined{}
		m.fleet.processes[node] = of
	}
	of.measuring++
	if of.all++; of.all > 1 {
		place = fmt.Sprintf("%s (prober %d)", place, of.all)
	}
	for _, s := range m.Resolved() {
		of := m.opts.ProbesOf(s)
		if !m.fleet.also {
			of = m.opts.ProbesFrom(s, slices.Index(m.fleet.nodes, node), len(m.fleet.nodes))
		}
		for _, p := range of {
			p.Name += place
			probes = append(probes, p)
		}
	}
	return append(probes, loadgen.Probe{Target: timeline.Target{
		Name: "control" + place, Kind: timeline.Control, Rate: m.opts.ControlRate(), Timeout: m.opts.Timeout,
	}})
}

// missingProbers records the nodes without a prober. If all nodes are, it returns the reason why the run cannot begin.
func (m *measurement) missingProbers() string {
	missing := m.fleet.missing()
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		lines = append(lines, node+": "+missing[node])
		m.proberIs("missing", node, missing[node])
	}
	if len(missing) == len(m.fleet.nodes) {
		wait := quantity.Span(m.opts.ProberWait)
		return fmt.Sprintf("no prober measured within %s (--wait): %s", wait, strings.Join(lines, "; "))
	}
	m.log.Warn("the run begins without some of its probers", "missing", strings.Join(lines, "; "))
	return ""
}
