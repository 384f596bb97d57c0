package coordinator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
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
	"lapse/internal/run/flight"
	"lapse/internal/run/source"
	"lapse/timeline"
)

const (
	// findProbers is the time between two searches for the probers' Pods of a run, and between two attempts to follow
	// one.
	findProbers = time.Second
	// lastFacts is how long the end of the run waits for the probers' last facts, beyond the timeout of a request.
	lastFacts = 10 * time.Second
	// longSilent is how long a process may not answer until there are said to be no requests from its node, and
	// mostSilent until it is lost: as long as a prober keeps what it has measured.
	longSilent, mostSilent = 10 * time.Second, flight.Span
	// mostAsked is how long a process that measures for several is asked for its status.
	mostAsked = 30 * time.Second
	// assignAgain is the time until a process is asked again that has refused to measure. It doubles up to
	// mostAssignAgain: each time, all others get other rates for a moment.
	assignAgain, mostAssignAgain = 30 * time.Second, 10 * time.Minute
	// rateAgain is the time until a prober is told its rates again that has refused them.
	rateAgain = 100 * time.Millisecond
	// seldomCompared is how old a comparison of clocks gets until there is another one for who is idle. The clocks may
	// drift 15 ms apart until then, a tenth of the time between two requests.
	seldomCompared = 15*time.Second - source.CompareEvery/2
	// shortSilent is how long nothing may be heard from a process until its clock is compared again, idle or not.
	shortSilent = 5*time.Second - source.CompareEvery/2
	// mostUncalled is how old a comparison gets until the process is said to be silent, whatever it tells by itself: it
	// takes calls to change its rates.
	mostUncalled = 30 * time.Second
)

// A crew are the probers of a DaemonSet. They measure for one run, or for all Services of a guard: each of these is a
// party. The crew finds their Pods, follows the one recording of each process, hands each party its facts, and compares
// the clocks.
type crew struct {
	client    kube.Client
	namespace string
	pods      metav1.ListOptions // select their Pods
	every     time.Duration      // between two searches for them
	wants     func(node string) bool
	looked    func(ctx context.Context, pods []corev1.Pod) // gets the Pods of each search; nil: nothing does
	keys      func(context.Context) (*tls.Config, error)
	name      string // of this process, one of several that they measure for; empty: they measure for it alone
	clock     timeline.Clock
	timeout   time.Duration // of a request
	log       *slog.Logger

	abandoned chan struct{}
	abandonIt sync.Once

	followed map[types.UID]followedPod // owned by run

	mu        sync.Mutex
	state     map[string]string // by node: why there are no requests from it; "": there are
	zones     map[string]string // by node
	parties   map[*party]struct{}
	processes map[*process]struct{} // that are ready to measure
}

// newCrew returns a crew of which nobody is known yet.
func newCrew(client kube.Client, namespace, selector string, log *slog.Logger) *crew {
	return &crew{
		client: client, namespace: namespace, pods: metav1.ListOptions{LabelSelector: selector}, every: findProbers,
		wants: func(string) bool { return true }, log: log, abandoned: make(chan struct{}),
		followed: map[types.UID]followedPod{}, state: map[string]string{}, zones: map[string]string{},
		parties: map[*party]struct{}{}, processes: map[*process]struct{}{},
	}
}

// A followedPod is a prober's Pod whose processes are followed.
type followedPod struct {
	node  string
	at    netip.AddrPort
	leave context.CancelCauseFunc // ends it
}

// A party is a measurement that a crew measures for.
type party struct {
	clock   timeline.Clock
	put     func(timeline.Fact)
	calls   chan<- func()  // to the loop
	join    func(*joining) // called by the loop for a process that is ready to measure, or was lost
	over    chan struct{}  // closed when nothing more is measured for it
	done    chan struct{}  // closed when no more facts are awaited
	answers time.Duration  // within which a request is answered, or not
	full    func() bool    // it asks at the full rate; nil: always. Any goroutine may call it

	mu     sync.Mutex
	wanted map[timeline.SourceID][]agent.Rate // in force now; of no source: as assigned
}

// A joining is a prober's process that is ready to measure, or was lost.
type joining struct {
	node, zone, pod string
	status          agent.Status
	sync            timeline.Sync // the comparison of its clock, without a source

	lost   error             // why the process measures nothing more; nil: it wants an assignment
	source timeline.SourceID // of the process that is lost

	assigned chan agent.Assignment // the loop's answer
}

// A process is one in a Pod of the crew. What it measures for each party is a source of its own, which has one number
// in the recording and another one in the party's run.
type process struct {
	of        *crew
	node, pod string
	client    *agent.Client
	status    agent.Status
	ctx       context.Context // of the helpers
	stop      context.CancelCauseFunc
	helpers   sync.WaitGroup

	mu     sync.Mutex
	sync   timeline.Sync // the last comparison with the crew's clock
	synced time.Duration // when that was
	heard  time.Duration // when the process said something last
	last   timeline.SourceID
	tasks  map[timeline.SourceID]task // by their sources in the recording

	measures chan struct{} // closed at the first task: before, nothing comes
	rated    chan struct{} // has one when rates have changed
}

// A task is what a process measures for a party.
type task struct {
	*party
	source timeline.SourceID             // as the party numbers it
	synced time.Duration                 // the instant of the last comparison of clocks that the party has
	rates  map[timeline.TargetID]float64 // that the process has; nil: it does not measure yet, or any more
}

// run finds and follows probers until ctx ends. Then it stops them and waits for their last facts.
func (c *crew) run(ctx context.Context) {
	following, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var probers sync.WaitGroup
	c.find(ctx, following, &probers)
	source.Every(ctx, c.every, func() { c.find(ctx, following, &probers) })
	late := func() { stop(errors.New("it did not hand over its last facts in time")) }
	defer time.AfterFunc(c.timeout+lastFacts, late).Stop()
	over := make(chan struct{})
	go func() { probers.Wait(); close(over) }()
	select {
	case <-over:
	case <-c.abandoned:
		stop(errors.New("the run was ended"))
		<-over
	}
}

// ofGuards reports whether they measure for all Services of several guards, and stay. Others measure for one run, and
// end with it.
func (c *crew) ofGuards() bool { return c.name != "" }

func (c *crew) abandon() { c.abandonIt.Do(func() { close(c.abandoned) }) }

// serve lets the probers measure for a party until ctx ends.
func (c *crew) serve(ctx context.Context, to *party) {
	c.mu.Lock()
	c.parties[to] = struct{}{}
	for p := range c.processes {
		p.serve(to)
	}
	c.mu.Unlock()
	<-ctx.Done()
	close(to.over)
	c.mu.Lock()
	delete(c.parties, to)
	for p := range c.processes {
		p.helpers.Go(func() { p.end(to) })
	}
	awaited := c.ofGuards() && len(c.processes) > 0
	c.mu.Unlock()
	if awaited {
		<-time.After(to.answers + tellsLate)
	}
	close(to.done)
}

// find lists the probers' Pods. It stops following each Pod that is gone or has another address, and begins to follow
// each new Pod that runs, on a node where none was followed until now: what was lost is told before what measures.
func (c *crew) find(ctx, following context.Context, probers *sync.WaitGroup) {
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pods, err := c.client.Pods(c.namespace).List(asking, c.pods)
	if err != nil {
		c.log.Debug("cannot look for probers", "error", err)
		return
	}
	if c.looked != nil {
		c.looked(asking, pods.Items)
	}
	c.findZones(asking, pods.Items)
	followed := c.leaveGone(pods.Items)
	for i := range pods.Items {
		pod := &pods.Items[i]
		node := deploy.ProberNode(pod)
		if followed[node] || !c.wants(node) {
			continue // the DaemonSet of all nodes has a Pod on nodes that have joined the cluster since, too
		}
		at, ok := proberAddress(pod)
		if !ok {
			c.note(node, deploy.Waiting(pod))
			continue
		}
		each, leave := context.WithCancelCause(following)
		c.followed[pod.UID] = followedPod{node, at, leave}
		followed[node] = true
		name := pod.Name
		probers.Go(func() {
			defer leave(nil)
			c.follow(ctx, each, node, name, at)
		})
	}
}

// leaveGone stops following the Pods that are gone or have another address, as after a reboot of their node. It returns
// the nodes with a Pod that was followed until now.
func (c *crew) leaveGone(pods []corev1.Pod) (followed map[string]bool) {
	there := map[types.UID]*corev1.Pod{}
	for i := range pods {
		there[pods[i].UID] = &pods[i]
	}
	followed = map[string]bool{}
	for uid, is := range c.followed {
		followed[is.node] = true
		if there[uid] == nil {
			is.leave(errors.New("its Pod was deleted"))
			delete(c.followed, uid)
		} else if at, ok := proberAddress(there[uid]); ok && at != is.at {
			is.leave(errors.New("its Pod has another address"))
			delete(c.followed, uid)
		}
	}
	return followed
}

func proberAddress(pod *corev1.Pod) (at netip.AddrPort, ok bool) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	return netip.AddrPortFrom(addr, agent.ProberPort), err == nil && pod.Status.Phase == corev1.PodRunning
}

// errEnded says why a process measures nothing more whose recording is complete.
var errEnded = errors.New("it was ended, and has handed over all that it had measured")

// follow follows the processes of one Pod, one after the other, until ctx ends. The crew ends with running.
func (c *crew) follow(running, ctx context.Context, node, pod string, at netip.AddrPort) {
	again := wait.Backoff{Duration: findProbers}.DelayFunc()
	_ = again.Until(ctx, true, true, func(ctx context.Context) (over bool, _ error) {
		if ctx.Err() != nil || running.Err() != nil {
			return true, nil
		}
		err := c.followProcess(running, ctx, node, pod, at)
		if running.Err() != nil || ctx.Err() != nil && c.ofGuards() { // another Pod may measure there by now
			return true, nil
		}
		c.note(node, err.Error())
		return false, nil
	})
}

// noAnswer is the state of a prober whose Pod runs. It has the Pod and its address.
const noAnswer = "Pod %s runs, and does not answer at %s: does a NetworkPolicy keep this Pod from it?"

// followProcess lets one process measure, and takes in its facts until it has ended. The error is the reason for
// missing facts, or [errEnded].
func (c *crew) followProcess(running, ctx context.Context, node, pod string, at netip.AddrPort) error {
	beginning, begun := context.WithCancelCause(running)
	defer begun(nil)
	defer context.AfterFunc(ctx, func() { begun(context.Cause(ctx)) })()
	keys, err := c.keys(beginning)
	if err != nil {
		return err
	}
	client := agent.NewProberClient(at, keys)
	defer client.Close()
	client.Coordinator = c.name
	c.note(node, fmt.Sprintf(noAnswer, pod, at))
	asking := beginning
	if c.ofGuards() { // keys change: they are asked for again
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(beginning, mostAsked)
		defer cancel()
	}
	status, err := client.Status(asking)
	if err != nil && beginning.Err() == nil && asking.Err() != nil {
		return fmt.Errorf("no answer within %s: "+noAnswer, quantity.Span(mostAsked), pod, at)
	}
	if err != nil {
		return err
	}
	client.Only(status.Process)
	if !c.ofGuards() {
		client.Logger = c.log
	}
	first, err := source.SyncOther(c.clock, func() (timeline.ClockOffset, error) {
		return client.SyncClock(asking, c.clock)
	})
	if err != nil {
		return err
	}
	if c.ofGuards() { // whether there is something to measure or not
		c.note(node, "")
	}
	following, stop := context.WithCancelCause(ctx)
	now := c.clock.Now()
	p := &process{
		of: c, node: node, pod: pod, client: client, status: status, ctx: following,
		sync: first, synced: now, heard: now, stop: stop,
		tasks: map[timeline.SourceID]task{}, measures: make(chan struct{}), rated: make(chan struct{}, 1),
	}
	p.helpers.Go(func() {
		p.keepComparing(following, func() (timeline.ClockOffset, error) { return client.Exchange(following, c.clock) })
	})
	p.helpers.Go(func() {
		select {
		case <-p.silent(following):
			stop(errors.New("it has not answered for " + quantity.Span(mostSilent)))
		case <-running.Done():
			if err := client.End(following, "the run has ended", 0); err != nil {
				stop(fmt.Errorf("it could not be asked to end: %w", err))
			}
		case <-following.Done():
		}
	})
	p.helpers.Go(p.keepRates)
	p.begin()
	select {
	case <-p.measures:
	case <-following.Done():
	}
	err = client.FollowFacts(following, record.Decode, p.take)
	if err == nil {
		if status, err = client.Status(following); err == nil { // [agent.Client.Follow] has checked size and sum
			err = client.Ack(following, record.Receipt{Length: status.Size, SHA256: status.SHA256})
		}
	}
	if err == nil {
		err = errEnded
	}
	stop(nil)
	p.leave(err)
	return err
}

// silent returns a channel that is closed once nothing was heard for [mostSilent] from a process that measures for
// several: what it has measured since is not kept any more. Until then it may be that only the way to it is broken.
func (p *process) silent(ctx context.Context) <-chan struct{} {
	if !p.of.ofGuards() { // it keeps all that it has measured
		return nil
	}
	gone := make(chan struct{})
	said, over := false, false
	p.helpers.Go(func() {
		source.Every(ctx, findProbers, func() {
			now := p.of.clock.Now()
			silence := now - p.heardAt()
			if uncalled := now - p.syncedAt(); uncalled >= mostUncalled {
				silence = uncalled
			}
			switch {
			case silence >= mostSilent && !over:
				over = true
				close(gone)
			case silence >= longSilent:
				said = true
				p.of.note(p.node, "Pod "+p.pod+" has not answered for "+quantity.Span(silence.Truncate(time.Second)))
			case said:
				said = false
				p.of.note(p.node, "")
			}
		})
	})
	return gone
}

// begin lets a process measure for each party.
func (p *process) begin() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.processes[p] = struct{}{}
	for to := range p.of.parties {
		p.serve(to)
	}
}

// leave tells each party that a process measures nothing more for it, and why.
func (p *process) leave(why error) {
	p.of.mu.Lock()
	delete(p.of.processes, p)
	p.of.mu.Unlock()
	p.helpers.Wait()
	if len(p.tasks) == 0 { // no facts were lost, or the loss is on record
		return
	}
	p.of.log.Warn("nothing more comes from a prober", "node", p.node, "pod", p.pod, "error", why)
	for _, t := range p.tasks {
		t.tell(context.Background(), &joining{node: p.node, pod: p.pod, lost: why, source: t.source})
	}
}

// tell gives the party's loop a joining. It reports whether the loop has taken it.
func (to *party) tell(ctx context.Context, j *joining) bool {
	select {
	case to.calls <- func() { to.join(j) }:
		return true
	case <-to.over:
	case <-ctx.Done():
	}
	return false
}

// serve begins to measure for a party. The caller holds the crew's mutex.
func (p *process) serve(to *party) {
	p.helpers.Go(func() {
		for pause := assignAgain; p.assign(to); pause = min(2*pause, mostAssignAgain) {
			select {
			case <-time.After(pause):
			case <-to.over:
				return
			case <-p.ctx.Done():
				return
			}
		}
	})
}

// assign begins to measure for a party, and reports whether the process has refused to.
func (p *process) assign(to *party) (refused bool) {
	j := &joining{
		node: p.node, zone: p.of.zone(p.node), pod: p.pod, status: p.status, sync: p.compares(to),
		assigned: make(chan agent.Assignment, 1),
	}
	if !to.tell(p.ctx, j) {
		return false
	}
	var a agent.Assignment
	select {
	case a = <-j.assigned:
	case <-to.over:
		return false
	}
	t := task{party: to, source: a.Source}
	a.Source = p.admit(t)
	if err := p.client.Assign(p.ctx, a); err != nil {
		if p.ctx.Err() != nil {
			return false // all that it measures is lost
		}
		p.drop(a.Source)
		p.of.log.Warn("a prober does not measure", "node", p.node, "pod", p.pod, "error", err)
		to.tell(context.Background(), &joining{node: p.node, pod: p.pod, lost: err, source: t.source})
		p.of.note(p.node, err.Error())
		return true
	}
	p.begun(a)
	p.changeRates()
	select {
	case <-to.over: // and [crew.serve] may not have found it
		p.end(to)
	default:
	}
	return false
}

// end ends what is measured for a party that is over, if that has not been done, and forgets it once no more facts are
// awaited.
func (p *process) end(of *party) {
	source, measured := p.unrate(of)
	if !measured || !p.of.ofGuards() || p.ctx.Err() != nil { // it ends with the crew, or has ended
		return
	}
	if err := p.client.End(p.ctx, "the Service is not measured any more", source); err != nil {
		p.of.log.Warn("a prober goes on with a Service", "node", p.node, "error", err)
	}
	select {
	case <-of.done: // its last facts have come, or come too late
	case <-p.ctx.Done():
	}
	p.drop(source)
}

// admit numbers what is measured for a party as a source of the recording.
func (p *process) admit(t task) timeline.SourceID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == 0 {
		close(p.measures)
	}
	if p.last++; p.last == math.MaxUint16 { // a number is not used twice in a recording: the next one begins anew
		p.stop(errors.New("its numbers are used up"))
	}
	p.tasks[p.last] = t
	return p.last
}

// begun notes that a process measures as assigned, at these rates.
func (p *process) begun(a agent.Assignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[a.Source]
	t.rates = map[timeline.TargetID]float64{}
	for _, assigned := range a.Targets {
		t.rates[assigned.ID] = assigned.Rate
	}
	p.tasks[a.Source] = t
}

// unrate lets the rates of what is measured for a party be, and returns its source, if it is measured.
func (p *process) unrate(of *party) (source timeline.SourceID, measured bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, t := range p.tasks {
		if t.party == of && t.rates != nil {
			t.rates = nil
			p.tasks[id] = t
			return id, true
		}
	}
	return 0, false
}

func (p *process) drop(of timeline.SourceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, of)
}

// take hands a fact of the recording to the party that it is for.
func (p *process) take(f timeline.Fact) {
	p.mu.Lock()
	t := p.tasks[timeline.SourceOf(f)]
	p.heard = p.of.clock.Now()
	p.mu.Unlock()
	if t.party != nil {
		t.put(timeline.From(f, t.source))
	}
}

// keepComparing compares the process's clock with the crew's until ctx ends: each second, or seldom while all parties
// are idle and it is heard from. It leaves out comparisons that fail.
func (p *process) keepComparing(ctx context.Context, compare func() (timeline.ClockOffset, error)) {
	source.Every(ctx, source.CompareEvery, func() {
		now := p.of.clock.Now()
		if p.of.idle() && now-p.syncedAt() < seldomCompared && now-p.heardAt() < shortSilent {
			return
		}
		if s, err := source.SyncOther(p.of.clock, compare); err == nil {
			p.compared(s)
		}
	})
}

// compared takes in a comparison with the crew's clock.
func (p *process) compared(s timeline.Sync) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sync, p.synced = s, p.of.clock.Now()
	p.heard = p.synced
	for id, t := range p.tasks {
		if t.idle() && p.synced-t.synced < seldomCompared/2 {
			continue
		}
		t.synced = p.synced
		p.tasks[id] = t
		is := p.of.on(t.clock, s)
		is.Source = t.source
		t.put(is)
	}
}

// syncedAt returns when its clock was compared last.
func (p *process) syncedAt() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

// heardAt returns when the process said something last.
func (p *process) heardAt() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// idle reports whether the party asks at its idle rate.
func (to *party) idle() bool { return to.full != nil && !to.full() }

// idle reports whether all parties do.
func (c *crew) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to := range c.parties {
		if !to.idle() {
			return false
		}
	}
	return true
}

// compares returns the last comparison of a process's clock, as one with a party's.
func (p *process) compares(to *party) timeline.Sync {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of.on(to.clock, p.sync)
}

// on returns a comparison with the crew's clock as one with another clock of this process.
func (c *crew) on(clock timeline.Clock, s timeline.Sync) timeline.Sync {
	later := clock.T0().Sub(c.clock.T0())
	s.Min, s.Max = s.Min-later, s.Max-later
	return s
}

// zone returns a node's zone, or "" if it is not known.
func (c *crew) zone(node string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.zones[node]
}

// findZones finds out the zones of the nodes of Pods, once. A node that cannot be read has none.
func (c *crew) findZones(ctx context.Context, pods []corev1.Pod) {
	unknown := func(pod corev1.Pod) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, known := c.zones[deploy.ProberNode(&pod)]
		return !known
	}
	if !slices.ContainsFunc(pods, unknown) {
		return
	}
	zones := map[string]string{}
	for _, pod := range pods {
		zones[deploy.ProberNode(&pod)] = ""
	}
	if nodes, err := c.client.Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		for _, node := range nodes.Items {
			zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.zones = zones
}

// note records why there are no requests from a node; "": there are.
func (c *crew) note(node, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wants(node) {
		c.state[node] = why
	}
}

// missing returns the nodes without requests, and why there are none.
func (c *crew) missing() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := map[string]string{}
	for node, why := range c.state {
		if why != "" {
			missing[node] = why
		}
	}
	return missing
}

// want lets the probers ask at other rates from now on.
func (c *crew) want(of *party, rates map[timeline.SourceID][]agent.Rate) {
	of.mu.Lock()
	of.wanted = rates
	of.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.processes {
		p.changeRates()
	}
}

// changeRates lets [process.keepRates] look for rates that have changed.
func (p *process) changeRates() {
	select {
	case p.rated <- struct{}{}:
	default: // it is going to
	}
}

// keepRates tells a process its rates when they change, until it ends: in one call those of all parties that have
// changed since the last one. It tries again until the process has them.
func (p *process) keepRates() {
	refused := "" // why, as it was logged
	for {
		select {
		case <-p.rated:
		case <-p.ctx.Done():
			return
		}
		rates := p.newRates()
		if len(rates) == 0 {
			continue
		}
		err := p.client.SetRates(p.ctx, rates)
		if err == nil {
			p.hasRates(rates)
			continue
		}
		if p.ctx.Err() == nil && err.Error() != refused {
			refused = err.Error()
			p.of.log.Warn("a prober goes on at its rates", "node", p.node, "error", err)
		}
		time.AfterFunc(rateAgain, p.changeRates)
	}
}

// newRates returns the rates that a process does not have yet.
func (p *process) newRates() (rates []agent.Rate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, t := range p.tasks {
		if t.rates == nil {
			continue
		}
		t.party.mu.Lock()
		for _, r := range t.wanted[t.source] {
			if r.Source = id; t.rates[r.Target] != r.Rate {
				rates = append(rates, r)
			}
		}
		t.party.mu.Unlock()
	}
	return rates
}

// hasRates notes that a process has rates.
func (p *process) hasRates(rates []agent.Rate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rates {
		if has := p.tasks[r.Source].rates; has != nil {
			has[r.Target] = r.Rate
		}
	}
}
