//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

var (
	leadRepeat = flag.Int("lead.repeat", 1, "how often TestEachSignRaisesTheRate makes each sign")
	leadOut    = flag.String("lead.out", "", "the file of leads that it adds its own to; lead-times.md beside it has the table of all")
)

const (
	leadRate   = 25 // requests per second, to each target: if all Services fail once, the machine can still serve them
	leadIdle   = 5
	leadPause  = 1500 * time.Millisecond // from a sign that is made by hand to the eviction
	raisedIn   = 100 * time.Millisecond
	toldIn     = time.Second / leadIdle // a failed request, to the guard, while few are sent
	leadToken  = "0123456789abcdef0123456789abcdef"
	leadSpace  = "e2e-leads"
	guardSpace = "lapse"
)

// A sign is one that the guard knows, and how it comes about here.
type sign struct {
	Name  string                 // who makes it, or what: the row of the table
	Label string                 // of lapse_guard_lead_seconds; of the first sign of all
	Says  string                 // the run, of its first sign
	is    func(drill.Event) bool // nil: the first failed request
	play  func(l *lane)
	once  bool // however often the others are made: how early it comes is up to this test
}

func kind(kind, to, detail string) func(drill.Event) bool {
	return func(e drill.Event) bool {
		return e.Kind == kind && e.To == to && e.From != "" && strings.HasPrefix(e.Detail, detail)
	}
}

func ofKind(kind string) func(drill.Event) bool {
	return func(e drill.Event) bool { return e.Kind == kind }
}

// changed reports whether somebody changed the Deployment.
func changed(e drill.Event) bool {
	return e.Kind == "snapshot" && e.To == "changed" && e.Object.Kind == "Deployment"
}

// byHand returns a sign that the test writes on a node. After it, the test evicts a Pod.
func byHand(name, says string, is func(drill.Event) bool, on, off func(l *lane)) sign {
	label, _, _ := strings.Cut(name, " ")
	if label != "taint" {
		label = "mark"
	}
	return sign{name, label, says, is, func(l *lane) {
		on(l)
		time.Sleep(leadPause) // what the actor does meanwhile is not played
		l.evict()
		off(l)
	}, true}
}

func taintSign(key string) sign {
	return byHand("taint "+key, "got the taint "+key, kind("node-taint", "present", key),
		func(l *lane) { l.kubectl("taint", "node", l.node, key+":NoSchedule") },
		func(l *lane) { l.kubectl("taint", "node", l.node, key+"-") })
}

func labelSign(key string) sign {
	return byHand("label "+key, "got the label "+key, kind("node-mark", "present", "label "+key),
		func(l *lane) { l.kubectl("label", "node", l.node, key+"=true") },
		func(l *lane) { l.kubectl("label", "node", l.node, key+"-") })
}

func conditionSign(of string) sign {
	set := func(status string) func(l *lane) {
		return func(l *lane) {
			l.kubectl("patch", "node", l.node, "--subresource=status", "--type=strategic", "-p",
				`{"status":{"conditions":[{"type":"`+of+`","status":"`+status+`","reason":"Test"}]}}`)
		}
	}
	return byHand("condition "+of, "got the condition "+of, kind("node-mark", "present", "condition "+of), set("True"), set("False"))
}

var deletion = sign{"kubectl delete pod", "deletion", "is being deleted", ofKind("pod-deleted"), func(l *lane) {
	l.kubectl("-n", leadSpace, "delete", l.pod(), "--wait=false")
}, false}

// serviceSigns are those of a Service's own Pods and workload. Each has a Service of its own.
var serviceSigns = []sign{
	{"eviction", "eviction", "EvictionByEvictionAPI", ofKind("pod-disrupted"), (*lane).evict, false},
	deletion,
	{"kubectl rollout restart", "rollout", "Deployment kubectl-rollout-restart", changed, func(l *lane) {
		l.kubectl("-n", leadSpace, "rollout", "restart", "deployment/"+l.w.Name)
	}, false},
	{"kubectl scale down", "rollout", "Deployment kubectl-scale-down", changed, func(l *lane) {
		l.kubectl("-n", leadSpace, "scale", "deployment/"+l.w.Name, "--replicas=1")
		l.kubectl("-n", leadSpace, "wait", "--for=jsonpath={.status.replicas}=1", "deployment/"+l.w.Name, "--timeout=3m")
		l.kubectl("-n", leadSpace, "scale", "deployment/"+l.w.Name, "--replicas=2")
	}, false},
	{"lapse guard arm", "announced", "armed by hand", kind("rate", strconv.Itoa(leadRate), ""), func(l *lane) {
		arm := exec.CommandContext(l.t.Context(), l.g.c.Lapse, "guard", "arm", "svc/"+l.w.Name, "-n", leadSpace, "--for=1m")
		arm.Env, arm.Stderr = append(l.g.c.Env(), "LAPSE_GUARD_TOKEN="+leadToken), l.t.Output()
		l.err = cmp.Or(l.err, arm.Run())
		l.in("armed") // the other guard learns of it by the Lease, and may be the one that leads in the end
		time.Sleep(leadPause)
		l.kubectl("-n", leadSpace, "delete", l.pod(), "--wait=false")
	}, false},
	{"container exits", "request", "", nil, func(l *lane) {
		pod := l.pod()
		ip := l.kubectl("-n", leadSpace, "get", pod, "-o", "jsonpath={.status.podIP}")
		get := "exec 3<>/dev/tcp/" + ip + "/8080; printf 'GET /crash/3 HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
		_ = l.g.c.On(l.t.Context(), l.node, "bash", "-c", get).Run() // the server ends before it answers
		l.kubectl("-n", leadSpace, "wait", pod, "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "--timeout=3m")
	}, false},
}

// nodeSigns are those of a node on which a guard runs.
var nodeSigns = []sign{
	{"kubectl drain", "cordon", "was cordoned", kind("node-schedulable", "false", ""), func(l *lane) {
		l.kubectl("-n", leadSpace, "label", l.pod(), "drained=yes")
		l.kubectl("drain", l.node, "--ignore-daemonsets", "--pod-selector=drained=yes")
		l.kubectl("uncordon", l.node)
	}, false},
	taintSign("ToBeDeletedByClusterAutoscaler"),
	taintSign("karpenter.sh/disrupted"),
	conditionSign("DrainInProgress"),
}

// lateSigns are those of the node on which the Services of serviceSigns are: they would see them, too.
var lateSigns = []sign{
	conditionSign("GracefulNodeShutdownInProgress"),
	labelSign("node.kubernetes.io/exclude-from-external-load-balancers"),
	labelSign("cloud.google.com/active-node-maintenance"),
}

// lostSigns are those of a node without a guard: both take all Pods of it.
var lostSigns = []sign{
	{"taint with NoExecute", "taint", "got the taint test.lapse/maintenance", kind("node-taint", "present", "test.lapse/maintenance"), func(l *lane) {
		l.kubectl("taint", "node", l.node, "test.lapse/maintenance:NoExecute")
		for l.pods() > 0 && l.t.Context().Err() == nil { // those that are not told to end
			time.Sleep(200 * time.Millisecond) // others measure meanwhile
		}
		l.kubectl("taint", "node", l.node, "test.lapse/maintenance-")
	}, false},
	{"node not ready", "node-lost", "is no longer ready", kind("node-ready", "unknown", ""), func(l *lane) {
		pids, err := l.g.c.PIDs("kubelet", l.node)
		l.err = cmp.Or(l.err, err)
		signal := func(s syscall.Signal) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, s)
			}
		}
		defer signal(syscall.SIGCONT)
		signal(syscall.SIGSTOP)
		l.kubectl("wait", "node/"+l.node, "--for=condition=Ready=unknown", "--timeout=3m")
		l.kubectl("-n", leadSpace, "wait", "pods", "-l", "app="+l.w.Name, "--for=condition=Ready=false", "--timeout=3m")
	}, false},
}

// A lane makes one sign after the other to a Service, whose two Pods are on one node. Lanes run side by side.
type lane struct {
	t      *testing.T
	g      *guarded
	w      drill.Workload
	node   string
	signs  []sign
	guards []string // their Pods
	late   bool     // it waits for the others on its node
	played []sign
	err    error // the first; nothing is done after it
}

// kubectl runs kubectl, unless something has failed.
func (l *lane) kubectl(args ...string) string {
	if l.err != nil {
		return ""
	}
	out, err := l.g.c.Kubectl(l.t.Context(), args...)
	l.err = err
	return strings.TrimSpace(out)
}

// pod returns one of the Service's Pods, as "pod/NAME".
func (l *lane) pod() string {
	pods := strings.Fields(l.kubectl("-n", leadSpace, "get", "pods", "-l", "app="+l.w.Name, "-o", "name"))
	if len(pods) == 0 {
		l.err = cmp.Or(l.err, fmt.Errorf("%s has no Pods", l.w.Name))
		return ""
	}
	return pods[0]
}

// pods returns how many of the Service's Pods run that nobody has told to end.
func (l *lane) pods() int {
	return strings.Count(l.kubectl("-n", leadSpace, "get", "pods", "-l", "app="+l.w.Name, "-o",
		`jsonpath={range .items[?(@.status.phase=="Running")]}[{.metadata.deletionTimestamp}]{end}`), "[]")
}

// evict asks the eviction API to end a Pod.
func (l *lane) evict() {
	name := strings.TrimPrefix(l.pod(), "pod/")
	l.kubectl(eviction(l.t, leadSpace, name)...)
}

// run makes the signs, each when the guards have judged what the one before led to.
func (l *lane) run() {
	for i := range *leadRepeat {
		for _, s := range l.signs {
			if i > 0 && s.once {
				continue
			}
			l.played = append(l.played, s)
			l.idles()
			time.Sleep(leadPause) // so that the second before is one of the idle rate
			since := time.Now().UTC().Format(time.RFC3339Nano)
			s.play(l)
			if l.err != nil {
				l.err = fmt.Errorf("%s: %w", s.Name, l.err)
				return
			}
			gate := exec.CommandContext(l.t.Context(), l.g.c.Lapse, "gate", "svc/"+l.w.Name, "-n", leadSpace, "--since="+since, "--wait=3m")
			gate.Env = l.g.c.Env()
			out, err := gate.CombinedOutput()
			l.t.Logf("%s: %s", s.Name, out)
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 3 || exit.ExitCode() > 4) {
				l.err = fmt.Errorf("%s: the gate: %w", s.Name, err)
			}
		}
	}
	l.idles()
}

// idles waits until the Service waits for a disruption in both guards.
func (l *lane) idles() { l.in("idle") }

// in waits until both guards have the Service in a state.
func (l *lane) in(state string) {
	if l.err == nil {
		l.err = l.g.inState(l.guards, leadSpace+"/"+l.w.Name, state)
	}
}

// alone lets the guards forget the other Services of the node: each of its signs would raise the rates of all.
func (l *lane) alone(all []*lane) {
	for _, o := range all {
		if o != l && o.node == l.node {
			l.kubectl("-n", leadSpace, "annotate", "service", o.w.Name, "lapse/guard-")
		}
	}
}

// A lead is what the guard's run says of a disruption. All is on the clock of the guard's process: a sign and the loss
// of an endpoint are at when it read that from its watches of the API.
type lead struct {
	Sign   string
	Lead   time.Duration // from the sign to the loss of the first endpoint; below 0: that came first
	Raised time.Duration // from the sign until the last target was asked at the full rate
	Full   time.Duration // of the second before the loss, how much was at the full rate
	Mode   string
	Stall  bool // the machine stood still in between
}

// Each sign that this cluster can make raises the rate of a Service's targets within 100 ms, and each disruption is one
// run, which names its first sign and has the second before the first endpoint is lost: at the full rate, as far as the
// sign came before that.
func TestEachSignRaisesTheRate(t *testing.T) {
	c := cluster(t)
	g := &guarded{t: t, c: c, namespace: guardSpace}
	remove := func(namespace string) {
		if err := c.Remove(context.WithoutCancel(t.Context()), namespace); err != nil {
			t.Error(err)
		}
	}
	g.kubectl("create", "namespace", guardSpace)
	t.Cleanup(func() {
		remove(guardSpace) // first: Services that end are asked at the full rate
		remove(leadSpace)
	})
	g.kubectl("-n", guardSpace, "create", "secret", "generic", "lapse-token", "--from-literal=token="+leadToken)
	if err := c.Apply(t.Context(), lapse(t, c, "gen", "guard", "-A", "--token-secret=lapse-token", "--",
		fmt.Sprint("--rate=", leadRate), fmt.Sprint("--idle-rate=", leadIdle), "--settle=5s")); err != nil {
		t.Fatal(err)
	}
	g.stands()
	g.kubectl("-n", guardSpace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")
	lanes := g.lanes()
	var before, running sync.WaitGroup
	begins := make(chan bool, 2) // so many Services at once: more take the machine's time from each other
	for _, l := range lanes {
		switch {
		case l.late:
			running.Go(func() {
				before.Wait()
				l.alone(lanes)
				l.run()
			})
		case l.node == lanes[0].node:
			before.Go(func() {
				begins <- true
				l.run()
				<-begins
			})
		default:
			running.Go(l.run)
		}
	}
	before.Wait()
	running.Wait()
	var wrong []error // told last
	for _, l := range lanes {
		wrong = append(wrong, l.err)
	}
	guards := g.pods()
	dirs := strings.Fields(lapse(t, c, "retrieve", "guard", "-n", guardSpace, "--out", runDir(t)))
	runs := map[string][]drill.Run{} // by Service
	for _, dir := range dirs {
		timeline, err := drill.ReadTimeline(dir)
		if err != nil {
			t.Fatal(err)
		}
		name := timeline.Run.Services[0].Name
		runs[name] = append(runs[name], drill.Run{Dir: dir, Timeline: timeline})
	}
	var leads []lead
	sums, counts := map[string]float64{}, map[string]int{}
	for _, l := range lanes {
		own := runs[l.w.Name]
		own = slices.DeleteFunc(own, func(r drill.Run) bool { // requests fail on a machine that stands still, too
			_, lost := first(r.Timeline.Events, isLost)
			return !lost && r.Timeline.Verdict.Failed > 0
		})
		slices.SortFunc(own, func(a, b drill.Run) int { return a.Timeline.T0.Compare(b.Timeline.T0) })
		if len(own) != len(l.played) {
			wrong = append(wrong, fmt.Errorf("%s: %d runs of %d disruptions", l.w.Name, len(own), len(l.played)))
			continue
		}
		for i, s := range l.played {
			found, err := s.check(t, g.c, own[i])
			wrong = append(wrong, err)
			found.Mode = c.ProxyMode()
			leads = append(leads, found)
			if found.Lead >= 0 {
				sums[s.Label] += found.Lead.Seconds()
				counts[s.Label]++
			}
		}
	}
	wrong = append(wrong, g.counted(guards, sums, counts))
	t.Log("\n" + leadTable(leads))
	keepLeads(t, leads)
	if err := errors.Join(wrong...); err != nil {
		t.Error(err)
	}
}

// lanes deploys a Service for each sign of a Service on the node of one guard, and one for those of each other node.
func (g *guarded) lanes() (lanes []*lane) {
	g.t.Helper()
	hosts := g.kubectl("-n", guardSpace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "-o", "jsonpath={.items[*].spec.nodeName}")
	nodes := threeNodes(g.t, g.c)
	slices.SortFunc(nodes, func(a, b string) int { return strings.Count(hosts, b) - strings.Count(hosts, a) })
	guards := g.pods()
	add := func(name, node string, signs ...sign) {
		w := drill.Workload{Namespace: leadSpace, Name: name, Replicas: 2, Node: node, Args: []string{"--on-sigterm", "graceful", "--drain-for", "2s", "--ready-delay", "2s"}}
		lanes = append(lanes, &lane{t: g.t, g: g, w: w, node: node, signs: signs, guards: guards})
	}
	for _, s := range serviceSigns {
		add(strings.ReplaceAll(s.Name, " ", "-"), nodes[0], s)
	}
	exits := lanes[len(lanes)-1]
	exits.signs = append(exits.signs, deletion) // of the Pod whose next crash would be followed by a back-off
	add("late", nodes[0], lateSigns...)
	lanes[len(lanes)-1].late = true
	add("node", nodes[1], nodeSigns...)
	add("lost", nodes[2], lostSigns...)
	for _, l := range lanes {
		if err := g.c.Apply(g.t.Context(), l.w.Manifest()); err != nil {
			g.t.Fatal(err)
		}
	}
	var ready sync.WaitGroup
	for _, l := range lanes {
		ready.Go(func() {
			if err := errors.Join(g.c.Ready(g.t.Context(), l.w), g.c.Routed(g.t.Context(), leadSpace, l.w.Name)); err != nil {
				g.t.Error(err)
			}
		})
	}
	ready.Wait()
	g.kubectl("-n", leadSpace, "annotate", "services", "--all", "lapse/guard=on")
	return lanes
}

// metricsOf returns how kubectl reads the metrics of a guard's Pod.
func metricsOf(pod string) []string {
	return []string{"get", "--raw", "/api/v1/namespaces/" + guardSpace + "/pods/" + pod + ":7117/proxy/metrics"}
}

// counted checks what the guard that leads has counted of leads against those of its runs. The other one has seen the
// same by watches of its own: the difference is one of what the API took to tell them.
func (g *guarded) counted(guards []string, sums map[string]float64, counts map[string]int) (wrong error) {
	said := make([]map[string]float64, len(guards))
	for i, pod := range guards {
		said[i] = map[string]float64{}
		for line := range strings.Lines(g.kubectl(metricsOf(pod)...)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			said[i][name], _ = strconv.ParseFloat(value, 64)
		}
	}
	for label, n := range counts {
		count, sum := `lapse_guard_lead_seconds_count{sign="`+label+`"}`, `lapse_guard_lead_seconds_sum{sign="`+label+`"}`
		alone := slices.Contains([]string{"cordon", "rollout", "mark", "announced"}, label) // others come after them, too
		most := 0.001                                                                       // seconds between them
		if label == "announced" {                                                           // the runs have when the rate was raised
			most = raisedIn.Seconds()
		}
		if got := int(said[0][count]); got < n || alone && (got != n || math.Abs(said[0][sum]-sums[label]) > most*float64(n)) {
			wrong = errors.Join(wrong, fmt.Errorf("lapse_guard_lead_seconds of %s: %v leads, %v s together; the runs have %d, %v s",
				label, got, said[0][sum], n, sums[label]))
		}
		for i := range said {
			g.t.Logf("%s: guard %d has seen %v leads, on average %.1f ms", label, i+1, said[i][count], 1000*said[i][sum]/said[i][count])
		}
	}
	return wrong
}

func first(events []drill.Event, is func(drill.Event) bool) (e drill.Event, ok bool) {
	if i := slices.IndexFunc(events, is); i >= 0 {
		return events[i], true
	}
	return e, false
}

func isBegun(e drill.Event) bool { return e.Kind == "run" && e.To == "measuring" }

func isLost(e drill.Event) bool { return e.Kind == "endpoint" && e.From == "ready" && e.To != "ready" }

// check checks the run of a disruption that the sign announced or began.
func (s sign) check(t *testing.T, c *drill.Cluster, run drill.Run) (found lead, wrong error) {
	t.Helper()
	problem := func(format string, args ...any) {
		wrong = errors.Join(wrong, fmt.Errorf(s.Name+": "+format, args...))
	}
	tl := run.Timeline
	must := func(is func(drill.Event) bool) drill.Event {
		e, ok := first(tl.Events, is)
		if !ok {
			t.Fatalf("%s: no such event in %s", s.Name, run.Dir)
		}
		return e
	}
	begun := must(isBegun)
	if tl.Run.Aborted != "" {
		problem("%s", tl.Run.Aborted)
	}
	raised, lost := must(kind("rate", strconv.Itoa(leadRate), "")).Seen, must(isLost).Seen
	var at time.Duration
	if s.is != nil {
		at = must(s.is).Seen
	} else {
		for _, f := range tl.Failures {
			if at == 0 || f.Done < at {
				at = f.Done
			}
		}
	}
	says := s.Says
	if at > lost { // the API told the loss first
		says = "the endpoint of "
	}
	if !strings.Contains(begun.Detail, says) {
		problem("%v before the loss: the run begins with %q", lost-at, begun.Detail)
	}
	found = lead{Sign: s.Name, Lead: lost - at, Full: min(time.Second, max(0, lost-raised))}
	if s.once {
		found.Sign = "taint, label or condition by hand"
	}
	for _, stop := range tl.Standstills() {
		found.Stall = found.Stall || stop.Earliest < max(at, lost)+time.Second && stop.Latest > min(at, lost)-time.Second
	}
	for name, sent := range sentTo(t, c, run.Dir) {
		full := math.MaxInt64 * time.Nanosecond
		for i := 1; i < len(sent); i++ {
			if sent[i-1] >= at && sent[i]-sent[i-1] <= 1500*time.Millisecond/leadRate {
				full = sent[i-1]
				break
			}
		}
		found.Raised = max(found.Raised, full-at)
		if judged := strings.HasSuffix(name, " new") || strings.HasSuffix(name, " reused"); judged && !found.Stall {
			n := 0
			for _, at := range sent {
				if lost-time.Second <= at && at < lost {
					n++
				}
			}
			want := found.Full.Seconds()*leadRate + (1-found.Full.Seconds())*leadIdle
			if math.Abs(float64(n)-want) > 3+0.2*want { // a busy machine sends late
				problem("%d requests of %q in the second before the first endpoint was lost, want %.0f: %v of it at the full rate", n, name, want, found.Full)
			}
		}
	}
	limit := raisedIn // after the API has told it
	if s.is == nil {
		limit += toldIn
	}
	if found.Raised > limit && !found.Stall {
		problem("the full rate only %v after the sign", found.Raised)
	}
	return found, wrong
}

// sentTo returns when requests were sent to each target, but for the Pods' own addresses, which share one rate.
func sentTo(t *testing.T, c *drill.Cluster, dir string) map[string][]time.Duration {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.Lapse, "export", dir, "-o", "csv").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string][]time.Duration{}
	for _, row := range rows[1:] {
		if at, err := strconv.ParseInt(row[slices.Index(rows[0], "sent")], 10, 64); err == nil && row[1] != "direct" {
			sent[row[0]] = append(sent[row[0]], time.Duration(at))
		}
	}
	for _, all := range sent {
		slices.Sort(all)
	}
	return sent
}

// leadTable returns the leads of each sign, in milliseconds: the median, and from the least to the most.
func leadTable(leads []lead) string {
	column := func(head string, cell func(of []lead) string) drill.Column[[]lead] {
		return drill.Column[[]lead]{Head: head, Cell: cell}
	}
	spread := func(of []lead, value func(lead) time.Duration) string {
		var all []float64
		for _, l := range of {
			all = append(all, drill.Millis(value(l)))
		}
		least, most := math.Round(slices.Min(all)), math.Round(slices.Max(all))
		if least == most {
			return fmt.Sprint(least)
		}
		return fmt.Sprintf("%.0f (%.0f–%.0f)", drill.Median(all), least, most)
	}
	return drill.Table([]drill.Column[[]lead]{
		column("sign", func(of []lead) string { return of[0].Sign }),
		column("n", func(of []lead) string { return strconv.Itoa(len(of)) }),
		column("lead", func(of []lead) string { return spread(of, func(l lead) time.Duration { return l.Lead }) }),
		column("at the full rate", func(of []lead) string { return spread(of, func(l lead) time.Duration { return l.Full }) }),
		column("sign → full rate", func(of []lead) string { return spread(of, func(l lead) time.Duration { return l.Raised }) }),
	}, drill.Group(leads, func(l lead) string { return l.Sign }))
}

// keepLeads adds leads to those of the file, and writes the table of all.
func keepLeads(t *testing.T, leads []lead) {
	t.Helper()
	if *leadOut == "" {
		return
	}
	var all []lead
	data, err := os.ReadFile(*leadOut)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	all = append(all, leads...)
	data, err = json.MarshalIndent(all, "", " ")
	err = cmp.Or(err, os.WriteFile(*leadOut, data, 0o644),
		os.WriteFile(filepath.Join(filepath.Dir(*leadOut), "lead-times.md"), []byte(leadTable(all)), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}
