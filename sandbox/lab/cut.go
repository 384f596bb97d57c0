package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cutCases writes the facts of each scenario's best run as a case for Lapse's rules, lab_SCENARIO.txtar, in the words
// of correlate's TestCases. What Lapse makes of it is written by `go test ./correlate -run TestCases -update`.
func cutCases(ctx context.Context, lapse, folder string, results []result) error {
	done := map[string]bool{}
	for _, one := range results {
		name := one.scenario.Name
		if done[name] || one.err != nil || one.scenario.Expect.NoFailure {
			continue
		}
		done[name] = true
		r := best(results, name)
		c, err := readCut(ctx, lapse, r.run.Dir)
		if err != nil {
			return fmt.Errorf("cut a case from %s: %w", r.run.Dir, err)
		}
		rel := strings.Split(filepath.ToSlash(r.run.Dir), "/")
		text := fmt.Sprintf("%s\nThe facts of a run of the lab: %s.\n%s", r.scenario.Title(), path.Join(rel[max(0, len(rel)-5):len(rel)-1]...), c)
		file := filepath.Join(folder, "lab_"+strings.ReplaceAll(name, "-", "_")+".txtar")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A cut is what was recorded, with its times since the whole second before the run's zero: so stamps, which are whole
// seconds, stay what they are.
type cut struct {
	zero     time.Time
	prober   string // its node, which is node3 in a case
	targets  map[string]cutTarget
	names    map[string]string // of Pods in the case, by UID
	taken    map[string]bool   // those names
	nodes    map[string]string // of Pods, by their name in the case
	events   []cutEvent
	requests map[string][]cutRequest // by target
	shift    time.Duration
}

type cutTarget struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind"`
	URL         string  `json:"url"`
	Pod         string  `json:"pod"`
	PodUID      string  `json:"podUID"`
	Rate        float64 `json:"rate"`
	Connections int     `json:"connections"`
}

type cutEvent struct {
	Seen     time.Duration `json:"seen"`
	At       struct{ Earliest time.Duration }
	Stamp    time.Time `json:"stamp"`
	Kind     string    `json:"kind"`
	From, To string
	Object   struct{ Kind, Name, UID, Node string } `json:"object"`
	Detail   string                                 `json:"detail"`
	ExitCode *int                                   `json:"exitCode"`
	Grace    *time.Duration                         `json:"grace"`
	Count    int                                    `json:"count"`
	Owner    string                                 `json:"owner"`
	Template string                                 `json:"template"`
	Service  string                                 `json:"service"`
	Port     int                                    `json:"port"`
	Snapshot struct {
		Template *struct {
			ID         string        `json:"id"`
			Grace      time.Duration `json:"grace"`
			Containers []struct {
				Name                string
				PreStop             *struct{ Sleep time.Duration }
				Readiness, Liveness *struct {
					Period    time.Duration
					Threshold int
				}
			} `json:"containers"`
		} `json:"template"`
		Workload *struct {
			Replicas        int
			Strategy, Owner string
			Status          struct{ Ready int }
		} `json:"workload"`
		Budget  *struct{ Allowed, Desired int } `json:"budget"`
		Service *struct {
			Internal, Affinity string
			PublishNotReady    bool
		} `json:"service"`
	} `json:"snapshot"`
}

type cutRequest struct {
	due, done, took time.Duration
	class           string
}

func readCut(ctx context.Context, lapse, dir string) (*cut, error) {
	report, err := exec.CommandContext(ctx, lapse, "report", dir, "-o", "json").Output()
	var run struct {
		T0      time.Time
		Sources []struct{ Node string }
		Targets []cutTarget
		Events  []cutEvent
	}
	if jsonErr := json.Unmarshal(report, &run); jsonErr != nil {
		return nil, errors.Join(err, jsonErr)
	}
	c := &cut{
		zero: run.T0.Truncate(time.Second), shift: run.T0.Sub(run.T0.Truncate(time.Second)), events: run.Events, targets: map[string]cutTarget{},
		names: map[string]string{}, taken: map[string]bool{}, nodes: map[string]string{}, requests: map[string][]cutRequest{},
	}
	if len(run.Sources) != 1 {
		return nil, fmt.Errorf("%d sources: want one", len(run.Sources))
	}
	c.prober = run.Sources[0].Node
	for _, t := range run.Targets {
		c.targets[t.Name] = t
	}
	for _, e := range c.events {
		if e.Object.Kind == "Pod" && e.Object.Node != "" {
			c.nodes[c.pod(e.Object.Name, e.Object.UID)] = c.node(e.Object.Node)
		}
	}
	requests, err := exec.CommandContext(ctx, lapse, "export", dir, "-o", "csv").Output()
	if err != nil {
		return nil, err
	}
	return c, c.readRequests(string(requests))
}

func (c *cut) readRequests(text string) error {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return errors.Join(err, errors.New("no requests"))
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, row := range rows[1:] {
		at := func(name string) time.Duration {
			n, _ := strconv.ParseInt(row[column[name]], 10, 64) // empty where nothing was sent
			return time.Duration(n)
		}
		r := cutRequest{due: at("due"), class: row[column["class"]]}
		if r.done = at("done"); r.done > 0 {
			r.took = r.done - cmp.Or(at("sent"), r.due)
		}
		target := row[column["target"]]
		c.requests[target] = append(c.requests[target], r)
	}
	for _, rs := range c.requests {
		slices.SortFunc(rs, func(a, b cutRequest) int { return cmp.Compare(a.due, b.due) })
	}
	return nil
}

// node names a node in the case: the prober is on node3.
func (c *cut) node(name string) string {
	switch name {
	case c.prober:
		return "node3"
	case "node3":
		return c.prober
	}
	return name
}

var podHash = regexp.MustCompile(`-[0-9a-f]+(-[a-z0-9]{5})$`)

// pod names a Pod in the case, without the hash of its template. A second Pod of a name gets another one.
func (c *cut) pod(name, uid string) string {
	if c.names[uid] == "" {
		short := podHash.ReplaceAllString(name, "$1")
		for c.taken[short] {
			short += "b"
		}
		c.names[uid], c.taken[short] = short, true
	}
	return c.names[uid]
}

func (c *cut) String() string {
	var b strings.Builder
	for _, t := range c.targets {
		if t.Kind == "new" && strings.HasPrefix(t.URL, "udp://") {
			b.WriteString("-- scheme --\nudp\n")
			break
		}
	}
	b.WriteString("-- nodes --\n")
	for _, pod := range slices.Sorted(maps.Keys(c.nodes)) {
		fmt.Fprintf(&b, "%s %s\n", pod, c.nodes[pod])
	}
	b.WriteString("-- requests --\n")
	kinds := []string{"new", "reused", "direct", "control"}
	targets := slices.SortedFunc(maps.Keys(c.requests), func(x, y string) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, c.targets[x].Kind), slices.Index(kinds, c.targets[y].Kind)), cmp.Compare(x, y))
	})
	for _, name := range targets {
		c.stream(&b, c.targets[name], c.requests[name])
	}
	b.WriteString("-- events --\n")
	for _, e := range c.events {
		if line := c.event(e); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// atOnce is how long a request may take and count as answered, or refused, at once.
const atOnce = 30 * time.Millisecond

// exact is how exactly a case gives instants.
const exact = 100 * time.Microsecond

// A stretch is a row of requests that went alike; to is when the next one was due.
type stretch struct {
	from, to time.Duration
	class    string
	requests []cutRequest
}

// took is how long its requests took, as a rule.
func (s stretch) took() time.Duration {
	var all []time.Duration
	for _, r := range s.requests {
		all = append(all, r.took)
	}
	return median(all)
}

// stream writes a target's steady requests, and where they did not go so.
func (c *cut) stream(b *strings.Builder, t cutTarget, requests []cutRequest) {
	label, interval := t.Kind, time.Duration(float64(time.Second)/t.Rate)
	if t.Kind == "direct" {
		label, interval = "direct "+c.pod(filepath.Base(t.Pod), t.PodUID), 10*time.Millisecond // its rate changes
		switch u, err := url.Parse(t.URL); {
		case err != nil:
		case u.Scheme == "dns":
			label = "direct dns " + u.Hostname()
		case c.moved() && u.Port() != "8080":
			label += " on " + u.Port()
		}
	}
	first := (requests[0].due + c.shift).Round(exact)
	grid := func(due time.Duration) time.Duration { return first + (due + c.shift - first).Round(interval) }
	usual := usually(requests)
	end := grid(requests[len(requests)-1].due) + interval
	fmt.Fprintf(b, "%s: every %v %v..%v ok in %v", label, interval, first, end, usual)
	if t.Connections > 10 {
		fmt.Fprintf(b, " over %d", t.Connections)
	}
	b.WriteString("\n")
	var alone []stretch
	for _, s := range stretches(requests, interval, usual) {
		if slices.Contains([]string{"eof", "reset", "body"}, s.class) && t.Kind != "direct" { // they may have been cut in one instant
			for _, r := range s.requests {
				at := grid(r.due)
				fmt.Fprintf(b, "%s: at %v %s in %v\n", label, at, s.class, (r.done + c.shift - at).Round(exact))
			}
			continue
		}
		if len(s.requests) > 2 || t.Kind == "direct" { // until the next request, however long that was
			fmt.Fprintf(b, "%s: %v..%v %s in %v\n", label, grid(s.from), max(grid(s.to), grid(s.from)+interval), s.class, s.took())
			continue
		}
		for _, r := range s.requests {
			alone = append(alone, stretch{from: grid(r.due), class: s.class, requests: []cutRequest{r}})
		}
	}
	writeAlone(b, label, alone)
}

// moved reports whether the Service's targetPort was changed, so that endpoints have several ports.
func (c *cut) moved() bool {
	return slices.ContainsFunc(c.events, func(e cutEvent) bool { return e.Kind == "service" && strings.HasPrefix(e.Detail, "ports: ") })
}

// writeAlone writes single requests, those that went alike together.
func writeAlone(b *strings.Builder, label string, alone []stretch) {
	const perLine = 12
	for len(alone) > 0 {
		head := alone[0]
		var times []string
		var tooks []time.Duration
		var rest []stretch
		for _, s := range alone {
			if s.class == head.class && alike(s.took(), head.took()) && len(times) < perLine {
				times, tooks = append(times, s.from.String()), append(tooks, s.took())
			} else {
				rest = append(rest, s)
			}
		}
		fmt.Fprintf(b, "%s: at %s %s in %v\n", label, strings.Join(times, " "), head.class, median(tooks))
		alone = rest
	}
}

// usually is how long good answers take, as a rule.
func usually(requests []cutRequest) time.Duration {
	var all []time.Duration
	for _, r := range requests {
		if r.class == "ok" {
			all = append(all, r.took)
		}
	}
	if len(all) == 0 {
		return time.Millisecond
	}
	return median(all)
}

// median keeps two digits, and is at least a microsecond.
func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	d := max(all[len(all)/2], time.Microsecond)
	return d.Round(time.Duration(math.Pow10(int(math.Log10(float64(d))) - 1)))
}

// stretches are the requests that did not succeed in about the usual time.
func stretches(requests []cutRequest, interval, usual time.Duration) (all []stretch) {
	for i, r := range requests {
		if r.class == "ok" && r.took < max(5*usual, 2*atOnce) {
			continue
		}
		next := r.due + interval
		if i+1 < len(requests) {
			next = requests[i+1].due
		}
		if n := len(all); n > 0 && all[n-1].to == r.due && all[n-1].class == r.class && alike(all[n-1].requests[0].took, r.took) {
			all[n-1].to, all[n-1].requests = next, append(all[n-1].requests, r)
			continue
		}
		all = append(all, stretch{r.due, next, r.class, []cutRequest{r}})
	}
	return all
}

// alike reports whether requests took about as long.
func alike(a, b time.Duration) bool {
	return max(a, b) < atOnce || float64(max(a, b)) < 1.15*float64(min(a, b))
}

// What no rule reads, or a case has by itself.
var leftOut = []string{"target", "run", "command", "node-schedulable", "pod-scheduled", "prober-stall", "request-error", "command-output"}

// event is a line of the case; empty: it is left out.
func (c *cut) event(e cutEvent) string {
	routine := []string{"Pulled", "Created", "Started", "Scheduled", "SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet"}
	switch {
	case slices.Contains(leftOut, e.Kind), e.Kind == "watch-lane" && e.To == "on", e.Kind == "kube-event" && slices.Contains(routine, e.To),
		e.Kind == "snapshot" && e.To == "status":
		return ""
	}
	words := []string{(e.Seen + c.shift).Round(exact).String(), e.Kind, c.object(e)}
	if e.From != "" {
		words = append(words, e.From, "->")
	}
	if e.To != "" {
		words = append(words, e.To)
	}
	words = append(words, c.details(e)...)
	line := strings.Join(words, " ")
	if detail := cmp.Or(strings.ReplaceAll(e.Detail, "\n", " "), map[bool]string{true: "spec"}[e.Kind == "snapshot"]); detail != "" {
		line += " : " + detail
	}
	return line
}

func (c *cut) object(e cutEvent) string {
	switch o := e.Object; {
	case e.Snapshot.Template != nil:
		return "Template/" + o.Name
	case o.Name == "":
		return cmp.Or(o.Kind, "-")
	case o.Kind == "Pod":
		return c.pod(o.Name, o.UID)
	case o.Kind == "Node":
		return c.node(o.Name)
	default:
		return o.Kind + "/" + o.Name
	}
}

func (c *cut) details(e cutEvent) (words []string) {
	add := func(key string, value any, is bool) {
		if is {
			words = append(words, fmt.Sprintf("%s=%v", key, value))
		}
	}
	if s := e.Snapshot.Template; s != nil {
		add("id", s.ID, true)
		add("grace", s.Grace, true)
		var servers, others []string
		for _, container := range s.Containers {
			if container.Readiness != nil {
				servers = append(servers, container.Name)
			} else {
				others = append(others, container.Name)
			}
		}
		add("servers", strings.Join(servers, ","), len(servers) > 0)
		add("others", strings.Join(others, ","), len(others) > 0)
		for _, container := range s.Containers[:min(1, len(s.Containers))] {
			if container.PreStop != nil {
				add("prestop", container.PreStop.Sleep, container.PreStop.Sleep > 0)
			}
			if p := container.Readiness; p != nil {
				add("readiness", fmt.Sprintf("%vx%d", p.Period, p.Threshold), true)
			}
		}
	}
	if s := e.Snapshot.Workload; s != nil {
		add("replicas", s.Replicas, true)
		add("strategy", s.Strategy, s.Strategy != "")
		add("owner", s.Owner, s.Owner != "")
		add("ready", s.Status.Ready, true)
	}
	if s := e.Snapshot.Budget; s != nil {
		add("allowed", s.Allowed, true)
		add("desired", s.Desired, true)
	}
	if s := e.Snapshot.Service; s != nil {
		add("internal", s.Internal, s.Internal != "")
		add("affinity", s.Affinity, s.Affinity != "" && s.Affinity != "None")
		add("published", true, s.PublishNotReady)
	}
	add("since", (e.At.Earliest + c.shift).Round(time.Millisecond), e.Kind == "watch-gap" || e.Kind == "node-check" && e.From != "")
	add("service", strings.Replace(e.Service, "lab/", "shop/", 1), e.Kind == "node-check" && e.Service != "")
	add("port", e.Port, e.Kind == "endpoint" && c.moved())
	add("stamp", e.Stamp.Sub(c.zero), e.Kind == "pod-container" && e.To == "terminated")
	if e.ExitCode != nil {
		add("exit", *e.ExitCode, true)
	}
	add("restarts", e.Count, e.Count > 0 && e.Kind == "pod-container")
	if e.Grace != nil {
		add("grace", *e.Grace, true)
	}
	add("owner", e.Owner, e.Owner != "")
	add("template", e.Template, e.Template != "")
	return words
}
