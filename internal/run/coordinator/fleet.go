package coordinator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube"
	"lapse/internal/record"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
)

const (
	// findProbers is the time between two searches for the probers' Pods.
	findProbers = time.Second
	// lastFacts is how long the end of the run waits for the probers' last facts, beyond the timeout of a request.
	lastFacts = 10 * time.Second
	// rateAgain is the time until a prober is told its rates again that has refused them.
	rateAgain = 100 * time.Millisecond
)

// A fleet is the coordinator's view of the probers of a run. It finds their Pods, follows their recordings, and
// compares the clocks.
type fleet struct {
	client     kube.Client
	namespace  string
	name       string   // of the run
	nodes      []string // to measure from
	unattended bool     // the run was applied by hand
	zones      map[string]string
	keys       *tls.Config
	wait       time.Duration // for all probers, before the run begins
	timeout    time.Duration
	clock      timeline.Clock
	put        func(timeline.Fact)
	log        *slog.Logger
	calls      chan<- func()  // to the loop
	join       func(*joining) // called by the loop for a process that is ready to measure, or was lost

	abandoned chan struct{}
	abandonIt sync.Once

	processes map[string]int  // that have joined, by node; owned by the loop
	created   map[string]bool // nodes with a Pod at any time; owned by run

	followed map[types.UID]context.CancelCauseFunc // by Pod, what ends following it; owned by run

	full  map[timeline.SourceID][]timeline.Target // what a process asks, with the full rates; owned by the loop
	rates rates

	mu    sync.Mutex
	state map[string]string // by node: why there are no requests from it; "": there are
}

// A joining is a prober's process that is ready to measure, or was lost.
type joining struct {
	node, pod string
	status    agent.Status
	sync      timeline.Sync // the comparison of its clock, without a source
	lost      error         // why the process has ended; nil: it wants an assignment

	assigned chan agent.Assignment // the loop's answer
}

// newFleet returns the fleet of a run. run starts its search for probers.
func (m *measurement) newFleet(ctx context.Context, namespace string) (*fleet, error) {
	pair, err := m.coordinatorKeys(ctx, namespace)
	if err != nil {
		return nil, err
	}
	keys, err := pair.Client()
	if err != nil {
		return nil, err
	}
	f := &fleet{
		client:     m.Client,
		namespace:  namespace,
		name:       m.opts.ID,
		nodes:      m.opts.Probers,
		unattended: m.opts.Env[deploy.EnvKeys] != "",
		zones:      zonesOf(ctx, m.Client),
		keys:       keys,
		wait:       m.opts.ProberWait,
		timeout:    m.opts.Timeout,
		clock:      m.Clock,
		put:        m.Queue.Put,
		log:        m.log,
		calls:      m.Calls,
		join:       m.join,
		abandoned:  make(chan struct{}),
		processes:  map[string]int{},
		created:    map[string]bool{},
		followed:   map[types.UID]context.CancelCauseFunc{},
		full:       map[timeline.SourceID][]timeline.Target{},
		rates:      rates{wanted: map[timeline.SourceID][]agent.Rate{}, changed: make(chan struct{})},
		state:      map[string]string{},
	}
	for _, node := range f.nodes {
		f.state[node] = notCreated
	}
	return f, nil
}

// notCreated is the state of a node on which the DaemonSet's controller has created no Pod yet.
const notCreated = "its Pod was not created yet"

// zonesOf returns the zones by node, or none if the nodes cannot be listed.
func zonesOf(ctx context.Context, client kube.Client) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	zones := map[string]string{}
	if nodes, err := client.Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		for _, node := range nodes.Items {
			zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
		}
	}
	return zones
}

// run finds and follows probers until ctx ends. Then it stops them and waits for their last facts.
func (f *fleet) run(ctx context.Context) {
	following, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var probers sync.WaitGroup
	tick := time.NewTicker(findProbers)
	defer tick.Stop()
	for {
		f.find(ctx, following, &probers)
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	late := func() { stop(errors.New("it did not hand over its last facts in time")) }
	defer time.AfterFunc(f.timeout+lastFacts, late).Stop()
	over := make(chan struct{})
	go func() { probers.Wait(); close(over) }()
	select {
	case <-over:
	case <-f.abandoned:
		stop(errors.New("the run was ended"))
		<-over
	}
}

func (f *fleet) abandon() { f.abandonIt.Do(func() { close(f.abandoned) }) }

// find lists the probers' Pods. It begins to follow each new Pod that runs, and stops following each Pod that is gone.
func (f *fleet) find(ctx, following context.Context, probers *sync.WaitGroup) {
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ofRun := metav1.ListOptions{LabelSelector: deploy.ProberSelector(f.name)}
	pods, err := f.client.Pods(f.namespace).List(asking, ofRun)
	if err != nil {
		f.log.Debug("cannot look for probers", "error", err)
		return
	}
	f.noteUncreated(asking, pods.Items)
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = true
		at, ok := proberAddress(pod)
		if f.followed[pod.UID] != nil || !slices.Contains(f.nodes, deploy.ProberNode(pod)) {
			continue // the DaemonSet of all nodes has a Pod on nodes that have joined the cluster since, too
		}
		if !ok {
			f.note(deploy.ProberNode(pod), deploy.Waiting(pod))
			continue
		}
		each, leave := context.WithCancelCause(following)
		f.followed[pod.UID] = leave
		node, name := pod.Spec.NodeName, pod.Name
		probers.Go(func() {
			defer leave(nil)
			f.follow(ctx, each, node, name, at)
		})
	}
	for uid, leave := range f.followed {
		if !there[uid] {
			leave(errors.New("its Pod was deleted"))
		}
	}
}

// noteUncreated records why nodes have no Pod, while the run waits for them.
func (f *fleet) noteUncreated(ctx context.Context, pods []corev1.Pod) {
	for i := range pods {
		f.created[deploy.ProberNode(&pods[i])] = true
	}
	without := slices.DeleteFunc(slices.Clone(f.nodes), func(node string) bool { return f.created[node] })
	if len(without) == 0 || f.clock.Now() > f.wait {
		return
	}
	why := deploy.Uncreated(ctx, f.client, f.namespace, f.name, f.unattended)
	for _, node := range without {
		f.note(node, cmp.Or(why, notCreated))
	}
}

func proberAddress(pod *corev1.Pod) (at netip.AddrPort, ok bool) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	return netip.AddrPortFrom(addr, agent.ProberPort), err == nil && pod.Status.Phase == corev1.PodRunning
}

// follow follows the processes of one Pod, one after the other, until ctx ends. The run ends with running.
func (f *fleet) follow(running, ctx context.Context, node, pod string, at netip.AddrPort) {
	again := wait.Backoff{Duration: findProbers}.DelayFunc()
	_ = again.Until(ctx, true, true, func(ctx context.Context) (over bool, _ error) {
		if ctx.Err() != nil || running.Err() != nil {
			return true, nil
		}
		joined, err := f.followProcess(running, ctx, node, pod, at)
		if running.Err() != nil {
			return true, nil
		}
		if err == nil {
			err = errors.New("it was ended, and has handed over all that it had measured")
		}
		f.note(node, err.Error())
		if joined { // else no facts were lost, or the loss is on record
			f.log.Warn("nothing more comes from a prober", "node", node, "pod", pod, "error", err)
			f.hand(running, &joining{node: node, pod: pod, lost: err})
		}
		return false, nil
	})
}

// hand gives the loop a joining. It reports whether the loop has taken it.
func (f *fleet) hand(running context.Context, j *joining) bool {
	select {
	case f.calls <- func() { f.join(j) }:
		return true
	case <-running.Done():
		return false
	}
}

// noAnswer is the state of a prober whose Pod runs. It has the Pod and its address.
const noAnswer = "Pod %s runs, and does not answer at %s: does a NetworkPolicy keep the Job's Pod from it?"

// followProcess lets one process measure, and takes in its facts until it has ended. joined reports whether the
// process had an assignment. The error is the reason for missing facts.
func (f *fleet) followProcess(
	running, ctx context.Context, node, pod string, at netip.AddrPort,
) (joined bool, err error) {
	beginning, begun := context.WithCancelCause(running)
	defer begun(nil)
	defer context.AfterFunc(ctx, func() { begun(context.Cause(ctx)) })()
	client := agent.NewProberClient(at, f.keys)
	defer client.Close()
	f.note(node, fmt.Sprintf(noAnswer, pod, at))
	status, err := client.Status(beginning)
	if err != nil {
		return false, err
	}
	client.Only(status.Process)
	client.Logger = f.log
	askFirst := func() (timeline.ClockOffset, error) { return client.SyncClock(beginning, f.clock) }
	first, err := source.SyncOther(f.clock, askFirst)
	if err != nil {
		return false, err
	}
	j := &joining{node: node, pod: pod, status: status, sync: first, assigned: make(chan agent.Assignment, 1)}
	if !f.hand(running, j) {
		return false, nil
	}
	assignment := <-j.assigned
	if err := client.Assign(beginning, assignment); err != nil {
		return true, err
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	helping, stop := context.WithCancel(ctx)
	defer stop()
	exchange := func() (timeline.ClockOffset, error) { return client.Exchange(helping, f.clock) }
	compare := func() (timeline.Sync, error) { return source.SyncOther(f.clock, exchange) }
	helpers.Go(func() { source.KeepComparing(helping, assignment.Source, compare, f.put) })
	helpers.Go(func() { f.rates.keep(helping, assignment.Source, client.SetRates) })
	helpers.Go(func() {
		select {
		case <-running.Done():
			if err := client.End(helping, "the run has ended", 0); err != nil && helping.Err() == nil {
				f.log.Warn("a prober could not be asked to end", "node", node, "error", err)
			}
		case <-helping.Done():
		}
	})
	if err := client.FollowFacts(ctx, record.Decode, f.put); err != nil {
		return true, err
	}
	if status, err = client.Status(ctx); err == nil { // [agent.Client.Follow] has checked size and sum
		err = client.Ack(ctx, record.Receipt{Length: status.Size, SHA256: status.SHA256})
	}
	return true, err
}

// note records why there are no requests from a node; "": there are.
func (f *fleet) note(node, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, asked := f.state[node]; asked {
		f.state[node] = why
	}
}

// complete reports whether requests come from every node.
func (f *fleet) complete() bool { return len(f.missing()) == 0 }

// missing returns the nodes without requests, and why there are none.
func (f *fleet) missing() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	missing := map[string]string{}
	for node, why := range f.state {
		if why != "" {
			missing[node] = why
		}
	}
	return missing
}

// join gives a prober its assignment, or records the loss of one.
func (m *measurement) join(j *joining) {
	if j.lost != nil {
		m.proberIs("lost", j.node, "Pod "+j.pod+": "+j.lost.Error())
		return
	}
	var targets []agent.Assigned
	var full []float64
	for _, p := range m.probesFrom(j.node) {
		full = append(full, p.Rate)
		p.Rate = m.rateFrom(p.Target)
		targets = append(targets, agent.Assigned{Target: p.Target, Host: p.Host})
	}
	a := m.admit(timeline.Source{
		Name: j.pod, Role: timeline.Prober, Node: j.node, Zone: m.fleet.zones[j.node],
		Pod: m.fleet.namespace + "/" + j.pod, Version: j.status.Version, T0: j.status.T0,
	}, j.sync, targets)
	for i, t := range a.Targets {
		t.Rate = full[i]
		m.fleet.full[a.Source] = append(m.fleet.full[a.Source], t.Target)
	}
	a.Spec = spec.MustMarshal(m.opts.Assigned())
	m.proberIs("measuring", j.node, "Pod "+j.pod)
	m.fleet.note(j.node, "")
	j.assigned <- a
}

// rateFrom returns the rate in force of a target of one node, which has its full rate.
func (m *measurement) rateFrom(t timeline.Target) float64 {
	return m.RateOf(t.Kind, t.Rate, m.opts.Sharers(len(m.fleet.nodes)))
}

// setProbersRates lets the probers ask at the rates in force.
func (m *measurement) setProbersRates() {
	if m.fleet == nil {
		return
	}
	wanted := map[timeline.SourceID][]agent.Rate{}
	for of, targets := range m.fleet.full {
		for _, t := range targets {
			wanted[of] = append(wanted[of], agent.Rate{Target: t.ID, Rate: m.rateFrom(t)})
		}
	}
	m.fleet.rates.want(wanted)
}

// rates are how often probers are to ask. Any goroutine may use them.
type rates struct {
	mu      sync.Mutex
	wanted  map[timeline.SourceID][]agent.Rate // none: as assigned
	changed chan struct{}                      // closed when they change
}

func (r *rates) want(wanted map[timeline.SourceID][]agent.Rate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.wanted, r.changed = wanted, make(chan struct{})
}

// keep sets the rates of a prober until ctx ends. It tries again until the prober has them.
func (r *rates) keep(ctx context.Context, of timeline.SourceID, set func(context.Context, []agent.Rate) error) {
	for ctx.Err() == nil {
		r.mu.Lock()
		wanted, changed := r.wanted[of], r.changed
		r.mu.Unlock()
		if len(wanted) > 0 && set(ctx, wanted) != nil {
			again := time.NewTimer(rateAgain)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
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
	if m.fleet.processes[node]++; m.fleet.processes[node] > 1 {
		place = fmt.Sprintf("%s (prober %d)", place, m.fleet.processes[node])
	}
	for _, s := range m.Resolved() {
		for _, p := range m.opts.ProbesFrom(s, slices.Index(m.fleet.nodes, node), len(m.fleet.nodes)) {
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
