package correlate

import (
	stdcmp "cmp"
	"flag"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lapse/correlate/causes"
	"lapse/correlate/causes/rule"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata/*.txtar")

// TestCases judges the runs in testdata/*.txtar. Each file opens with the sentence it proves, then
// says what was measured:
//
//	-- requests --
//	new: every 5ms 0s..20s ok                a target and its steady stream; the first word is its kind
//	new: 10s..10.04s refused 1 of 2          and where it did not go so: every second request
//	new: at 11s 11.05s 11.2s refused         or single requests
//	new: 12s..12.1s http_5xx status 502      with an HTTP status, or a grpc-status
//	new: every 5ms 0s..20s ok by web-1       whom the answers name
//	reused: every 5ms 0s..20s ok over 400    so many persistent connections
//	direct web-1: every 5ms 0s..12s ok       a Pod's own address
//	direct web-1: 10s.. refused
//	direct shop/api api-1: every 5ms …       a Pod of another Service than shop/web
//	new shop/api: every 5ms …                that Service
//	direct web-1 on 8081: every 5ms …        at another port than 8080, to which the Service was changed
//	control: 12s..12.1s ok in 90ms           Done comes 90 ms after Sent
//	-- events --
//	9.95s pod-deleted web-1 grace=30s since=9.9s
//	9.96s endpoint web-1 ready -> terminating+serving
//	10.3s kube-event web-1 Killing : Stopping container main
//	-- gates --
//	failed>0
//
// A word that begins with @ is a port: "new @metrics: …", "direct web-1 @metrics: …", "9.96s endpoint web-1 @metrics
// …". IPv6 addresses are of the Pods of "direct6 web-1: …" and of events with family=6. "new from node1: …" is sent
// by a prober on node1, "new by nodeport node2: …" to the node port of node2, "new6 by ipv6: …" to a cluster IP of
// that family, "new by loadbalancer from outside: …" from a machine on no node, "new by headless: …" to the addresses
// of the Service's name in turn, "refused to web-1" when that of web-1 was dialled. The prober is on node3, and the
// n-th Pod that is named on noden, unless a section "nodes" says otherwise: "web-2 node1". A section "url" has a URL
// that is measured instead of the Service; words behind it are the targets that do so, and all others measure the
// Service. A section "scheme" has that of all targets but the control: udp. "direct dns 10.0.9.1: …" looks the
// Service's name up at a DNS server.
//
// A section "held" is about connections that are kept open: see [heldCase].
//
// The rest is what Lapse makes of it, written by go test -run TestCases -update, to be reviewed.
//
// The cases lab_… were cut from runs of the lab. They leave out how late a request was sent and how the rate of a Pod's
// own address changed, so that a cause may have less confidence than in the run.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runCase(t, file) })
	}
}

// caseSections are what is written into a case, those of which there is something.
var caseSections = []string{"incidents", "connections", "windows", "pods", "verdict"}

func runCase(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tl := judgeCase(t, archive)
	checkCauses(t, tl)
	got := map[string]string{"incidents": printIncidents(tl), "windows": printWindows(tl), "pods": printPods(tl),
		"verdict": printVerdict(tl)}
	if len(tl.Held) > 0 {
		got["connections"] = printConnections(tl)
	}
	if *update {
		setSections(archive, got)
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range caseSections {
		if diff := cmp.Diff(strings.Split(section(archive, name), "\n"), strings.Split(got[name], "\n")); diff != "" {
			t.Errorf("%s (-want +got); if the new is right, run go test -run TestCases -update\n%s", name, diff)
		}
	}
}

// checkCauses holds for every judged window: a cause by a known rule with something to show for it, no
// confidence without a rival's defeat, and a fix with a number wherever something was found.
func checkCauses(t *testing.T, tl *model.Timeline) {
	t.Helper()
	all := slices.Clone(tl.Windows)
	for _, w := range tl.HeldWindows() {
		all = append(all, w.Window)
	}
	for _, w := range all {
		if len(w.Causes) == 0 {
			t.Errorf("window %d has no cause", w.ID)
		}
		high := 0
		for _, c := range w.Causes {
			known := slices.ContainsFunc(causes.Rules(), func(r rule.Rule) bool { return r.Name == c.Rule })
			if !slices.ContainsFunc(causes.Rules(), func(r rule.Rule) bool {
				return c.Reason == "" || r.Name == c.Rule && slices.Contains(r.Reasons, c.Reason)
			}) {
				t.Errorf("window %d: %s does not list its reason %q", w.ID, c.Rule, c.Reason)
			}
			if !known || c.Text == "" || c.Evidence == nil || c.Rivals == nil || rule.Grade(c.Confidence) < 0 {
				t.Errorf("window %d: a cause with something missing: %+v", w.ID, c)
			}
			if c.Rule != "unexplained" && (len(c.Evidence) == 0 || !strings.ContainsAny(c.Fix, "0123456789")) {
				t.Errorf("window %d: %s has no evidence, or no number in its fix %q", w.ID, c.Rule, c.Fix)
			}
			if c.Confidence == model.High {
				high++
			}
		}
		if high > 1 {
			t.Errorf("window %d has %d causes of high confidence: no rival may fit as well", w.ID, high)
		}
	}
}

func judgeCase(t *testing.T, archive *txtar.Archive) *model.Timeline {
	t.Helper()
	tl := analyzed(t, readCase(t, archive).run())
	verdict.Judge(tl, gatesOf(t, strings.ReplaceAll(section(archive, "gates"), "\n", ";")))
	return tl
}

func readCase(t *testing.T, archive *txtar.Archive) *caseRun {
	t.Helper()
	c := newCase()
	c.scheme = strings.TrimSpace(section(archive, "scheme"))
	if url := strings.Fields(section(archive, "url")); len(url) > 0 {
		c.url, c.onURL = url[0], url[1:]
	}
	for _, line := range lines(section(archive, "nodes")) {
		pod, node, _ := strings.Cut(line, " ")
		c.nodes[pod] = node
	}
	for _, line := range lines(section(archive, "requests")) {
		c.do(t, line, c.requestLine)
	}
	c.do(t, "held", func(string) { c.heldLines(lines(section(archive, "held"))) })
	for _, line := range lines(section(archive, "events")) {
		c.do(t, line, c.eventLine)
	}
	return c
}

// What preflight predicts is compared with reasons, not only with rules: each has a case. Some are another case with
// lines left out and added.
func TestCausesSayInWhichOfTheirWaysTheyCameAbout(t *testing.T) {
	want := map[string]struct{ file, without, with string }{
		"failing-version/other-workload":        {"job_selected", "", ""},
		"pod-crashed/liveness":                  {"liveness_kill", "", ""},
		"pod-crashed/out-of-memory":             {"crash", "", ""},
		"no-ready-endpoint/service-deleted":     {"service_deleted", "", ""},
		"no-ready-endpoint/no-longer-selected":  {"pods_relabelled", "", ""},
		"no-ready-endpoint/scaled-to-0":         {"scaled_to_zero", "", ""},
		"no-ready-endpoint/liveness":            {"liveness_kills", "", ""},
		"no-ready-endpoint/ended-by-itself":     {"crashed_all", "", ""},
		"no-ready-endpoint/readiness":           {"shared_readiness", "web-2", ""},
		"no-ready-endpoint/node-drained":        {"drained_from_one_node", "", ""},
		"no-ready-endpoint/one-node":            {"drained_from_one_node", "pod-disrupted", ""},
		"no-ready-endpoint/taken-together":      {"drained_together", "", ""},
		"no-ready-endpoint/not-ready-together":  {"all_not_ready_and_dead", "", ""},
		"no-ready-endpoint/one-replica":         {"no_ready_endpoint", "", ""},
		"no-ready-endpoint/too-little-capacity": {"too_little_capacity", "", ""},
		"no-ready-endpoint/rolled-out": {"drained_from_one_node", "pod-disrupted", `
9.9s kube-event ReplicaSet/web-abc SuccessfulDelete : Deleted pod: web-1
9.9s kube-event ReplicaSet/web-abc SuccessfulDelete : Deleted pod: web-2
9.9s pod-seen web-4 Pending owner=ReplicaSet/web-def template=t2 : watched
9.9s snapshot ReplicaSet/web-def found replicas=2 owner=Deployment/web : 0 of 2 ready
`},
	}
	for _, r := range causes.Rules() {
		for _, reason := range r.Reasons {
			name := r.Name + "/" + reason
			archive, err := txtar.ParseFile("testdata/" + want[name].file + ".txtar")
			if err != nil {
				t.Fatalf("%s has no case: %v", name, err)
			}
			change(archive, want[name].without, want[name].with)
			var got []string
			for _, w := range judgeCase(t, archive).Windows {
				got = append(got, w.Causes[0].Rule+"/"+w.Causes[0].Reason)
			}
			if !slices.Contains(got, name) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// change leaves the lines with a word out of a case's requests and events, and adds events.
func change(archive *txtar.Archive, without, with string) {
	for i := range archive.Files {
		f := &archive.Files[i]
		var kept []string
		for _, line := range strings.Split(string(f.Data), "\n") {
			if without == "" || !strings.Contains(line, without) {
				kept = append(kept, line)
			}
		}
		if f.Data = []byte(strings.Join(kept, "\n")); f.Name == "events" {
			f.Data = append(f.Data, with...)
		}
	}
}

func TestEveryRuleHasACaseThatItExplains(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tl := judgeCase(t, archive)
		for _, w := range tl.Windows {
			named[w.Causes[0].Rule] = true
		}
		for _, rule := range heldCausesOf(tl) {
			named[rule] = true
		}
	}
	for _, r := range causes.Rules() {
		if !named[r.Name] {
			t.Errorf("no case in testdata is explained by %s", r.Name)
		}
	}
}

// While a run goes on its windows are provisional, and have causes all the same: the race is named
// as soon as its traces are there, though the Pod's exit is not known yet.
func TestWindowHasACauseWhileTheRunGoesOn(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/route_outlives_pod.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const now = 10030 * time.Millisecond
	run := readCase(t, archive).run()
	tracker := NewTracker(Options{})
	tracker.Add(run.Meta)
	for _, target := range run.Targets {
		tracker.Add(target)
	}
	for _, e := range run.Events {
		if e.Seen <= now {
			tracker.Add(e)
		}
	}
	for b := range run.Batches {
		b.Requests = slices.DeleteFunc(b.Requests, func(r timeline.Request) bool { return r.Done > now })
		b.Watermarks[0].Due = now - caseTimeout
		tracker.Add(b)
	}
	tracker.SetEnd(now)
	tl := tracker.Timeline()
	checkCauses(t, tl)
	if len(tl.Windows) != 1 || !tl.Windows[0].Live || tl.Windows[0].Causes[0].Rule != "route-outlives-pod" {
		t.Fatalf("windows %+v, want a live one caused by route-outlives-pod", tl.Windows)
	}
	if tl.Pods[0].Stopped == nil || tl.Pods[0].Exited != nil {
		t.Errorf("the Pod %+v, want it stopped and its exit not known", tl.Pods[0])
	}
}

func lines(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return kept
}

func section(archive *txtar.Archive, name string) string {
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func setSections(archive *txtar.Archive, sections map[string]string) {
	for _, name := range caseSections {
		if _, made := sections[name]; !made {
			continue
		}
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			i = len(archive.Files)
			archive.Files = append(archive.Files, txtar.File{Name: name})
		}
		archive.Files[i].Data = []byte(sections[name])
	}
}

// A caseRun is the run a case describes.
type caseRun struct {
	streams []*stream
	events  []timeline.Event
	pods    map[string]int    // by name, numbered from 1 as they are mentioned
	nodes   map[string]string // by name of the Pod, where it is not on the node of its number
	from    []string          // nodes with probers of their own
	url     string            // that is measured instead of the Service; "" if none is
	scheme  string            // of all targets but the control; "" is http
	held    *heldCase         // nil: none are
	onURL   []string          // by these targets only; none: by all
	end     time.Duration
}

// A stream is one target and what became of its requests: later spells go before earlier ones.
type stream struct {
	target timeline.Target
	spells []spell
}

type spell struct {
	from, to time.Duration
	n, of    int // n of so many requests
	class    timeline.Class
	code     uint16 // HTTP status or grpc-status; 0: none
	took     time.Duration
	peer     int    // the number of the Pod that was dialled; 0: not known
	by       uint16 // the Pod that the answer names, by its number; 0: none
}

const caseTimeout = 800 * time.Millisecond

var caseZero = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newCase() *caseRun { return &caseRun{pods: map[string]int{}, nodes: map[string]string{}} }

// do hands a line to its parser, which may give up with a panic.
func (c *caseRun) do(t *testing.T, line string, parse func(string)) {
	t.Helper()
	defer func() {
		if err := recover(); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
	}()
	parse(line)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// requestLine reads "new: every 5ms 0s..20s ok in 1ms" or "new: 10s..10.04s refused 1 of 2".
func (c *caseRun) requestLine(line string) {
	name, rest, _ := strings.Cut(line, ":")
	words := strings.Fields(rest)
	s := c.stream(name)
	if words[0] == "every" {
		s.target.Rate = float64(time.Second) / float64(must(time.ParseDuration(words[1])))
		words = words[2:]
	}
	if words[0] == "at" {
		c.single(s, words[1:])
		return
	}
	from, to, _ := strings.Cut(words[0], "..")
	p := spell{from: must(time.ParseDuration(from)), to: model.Never, n: 1, of: 1}
	if to != "" {
		p.to = must(time.ParseDuration(to))
	}
	if err := p.class.UnmarshalText([]byte(words[1])); err != nil {
		panic(err)
	}
	p.took = usualTime(p.class)
	for words = words[2:]; len(words) > 0; {
		switch {
		case words[0] == "in":
			p.took = must(time.ParseDuration(words[1]))
			words = words[2:]
		case words[0] == "to": // of a headless Service: the Pod whose address was dialled
			p.peer = c.number(words[1])
			words = words[2:]
		case words[0] == "over":
			s.target.Connections = must(strconv.Atoi(words[1]))
			words = words[2:]
		case words[0] == "status":
			p.code = uint16(must(strconv.ParseUint(words[1], 10, 16)))
			words = words[2:]
		case words[0] == "by":
			p.by = uint16(c.number(words[1]))
			words = words[2:]
		case words[1] == "of":
			p.n, p.of = must(strconv.Atoi(words[0])), must(strconv.Atoi(words[2]))
			words = words[3:]
		default:
			panic("neither 'in D', 'by POD' nor 'N of M': " + words[0])
		}
	}
	if len(s.spells) == 0 {
		c.end = max(c.end, p.to)
	}
	s.spells = append(s.spells, p)
}

// single reads the rest of "new: at 10s 10.5s refused in 2ms".
func (c *caseRun) single(s *stream, words []string) {
	n := slices.IndexFunc(words, func(w string) bool { return w[0] < '0' || w[0] > '9' })
	for _, at := range words[:n] {
		from := must(time.ParseDuration(at))
		c.requestLine(fmt.Sprintf("%s: %v..%v %s", s.target.Name, from, from+s.target.Interval(),
			strings.Join(words[n:], " ")))
	}
}

func usualTime(class timeline.Class) time.Duration {
	switch {
	case class == timeline.OK:
		return time.Millisecond
	case class.Timeout():
		return caseTimeout
	}
	return 200 * time.Microsecond
}

func (c *caseRun) stream(name string) *stream {
	for _, s := range c.streams {
		if s.target.Name == name {
			return s
		}
	}
	words, port, _ := strings.Cut(name, " @")
	kind, pod, _ := strings.Cut(words, " ")
	kind, six := strings.CutSuffix(kind, "6")
	s := &stream{target: timeline.Target{
		ID: timeline.TargetID(len(c.streams) + 1), Name: name, Kind: timeline.TargetKind(kind), URL: "http://web.shop/",
		Source: 1, Service: "shop/web", PortName: port, Timeout: caseTimeout,
	}}
	pod, way, _ := strings.Cut(pod, "by ")
	if by, node, elsewhere := strings.Cut(way, " from "); elsewhere {
		way, pod = by, "from "+node
	}
	s.target.Route, s.target.RouteNode, _ = strings.Cut(way, " ")
	switch s.target.Turns = s.target.Route == "headless"; {
	case six:
		s.target.URL = "http://[fd00::96]/"
	case s.target.Route == "loadbalancer":
		s.target.URL = "http://192.0.2.1/"
	case s.target.Route == "ipv4":
		s.target.URL = "http://10.96.0.7/"
	}
	if node, elsewhere := strings.CutPrefix(strings.TrimSpace(pod), "from "); elsewhere {
		s.target.Source = c.sourceOn(node)
	}
	switch s.target.Kind {
	case timeline.Direct:
		// a look-up of the Service's name, at a DNS server's own address
		if server, lookup := strings.CutPrefix(pod, "dns "); lookup {
			s.target.Service, s.target.PortName = "", ""
			s.target.Addr = netip.AddrPortFrom(must(netip.ParseAddr(server)), 53)
			s.target.URL = "dns://" + s.target.Addr.String() + "/web.shop?type=A"
			break
		}
		if service, of, named := strings.Cut(pod, " "); named && strings.Contains(service, "/") {
			s.target.Service, pod = service, of
		}
		pod, number, moved := strings.Cut(pod, " on ")
		s.target.Pod, s.target.PodUID, s.target.PodNode = "shop/"+pod, "uid-"+pod, c.node(pod)
		s.target.Addr = netip.AddrPortFrom(c.addr(pod, six), portNumber(port))
		if moved {
			s.target.Addr = netip.AddrPortFrom(c.addr(pod, six), uint16(must(strconv.ParseUint(number, 10, 16))))
		}
	case timeline.Control:
		s.target.Service = ""
		c.streams = append(c.streams, s)
		return s
	default:
		if namespace, name, other := strings.Cut(pod, "/"); other {
			s.target.Service, s.target.URL = pod, "http://"+name+"."+namespace+"/"
		}
		if c.url != "" && (len(c.onURL) == 0 || slices.Contains(c.onURL, name)) {
			s.target.Service, s.target.URL = "", c.url
		}
	}
	if c.scheme != "" {
		s.target.URL = strings.Replace(s.target.URL, "http://", c.scheme+"://", 1)
	}
	c.streams = append(c.streams, s)
	return s
}

// sourceOn is the prober on a node.
func (c *caseRun) sourceOn(node string) timeline.SourceID {
	if !slices.Contains(c.from, node) {
		c.from = append(c.from, node)
	}
	return timeline.SourceID(slices.Index(c.from, node) + 2)
}

// portNumber is where the Pods listen for a named port.
func portNumber(name string) uint16 {
	if name == "metrics" {
		return 9090
	}
	return 8080
}

func (c *caseRun) number(pod string) int {
	if c.pods[pod] == 0 {
		c.pods[pod] = len(c.pods) + 1
	}
	return c.pods[pod]
}

func (c *caseRun) addr(pod string, six bool) netip.Addr {
	if six {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(c.number(pod))})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(c.number(pod))})
}

func (c *caseRun) node(pod string) string {
	return stdcmp.Or(c.nodes[pod], fmt.Sprintf("node%d", c.number(pod)))
}

// eventKinds are those that a case can have: a misspelt one would go unnoticed.
var eventKinds = []timeline.EventKind{
	timeline.PodSeen, timeline.PodScheduled, timeline.PodContainer, timeline.PodReady, timeline.PodDeleted,
	timeline.PodDisrupted, timeline.EvictionRequested, timeline.PodPhase, timeline.DeletionAsked, timeline.PodGone, timeline.EndpointChanged,
	timeline.NodeReady, timeline.NodeSchedulable, timeline.NodeTaint, timeline.NodeGone, timeline.ServiceChanged,
	timeline.KubeEvent, timeline.SnapshotTaken, timeline.Predicted, timeline.NameAnswered, timeline.NodeChecked,
	timeline.RunPhase, timeline.Command, timeline.CommandOutput, timeline.ProberChanged, timeline.TargetChanged,
	timeline.WatchGap, timeline.WatchLane, timeline.ProberStall, timeline.RequestError, timeline.AddressFailed,
	timeline.Hammer,
}

// eventLine reads "TIME KIND OBJECT [[FROM] ->] [TO] [key=value…] [: DETAIL]".
func (c *caseRun) eventLine(line string) {
	line, detail, _ := strings.Cut(line, " : ")
	words := strings.Fields(line)
	e := timeline.Event{
		Seen: must(time.ParseDuration(words[0])), Kind: timeline.EventKind(words[1]), Detail: strings.TrimSpace(detail),
	}
	if !slices.Contains(eventKinds, e.Kind) {
		panic("no such kind of event")
	}
	name, rest := words[2], words[3:]
	if e.Kind == timeline.RequestError && name == "direct" {
		name, rest = name+" "+rest[0], rest[1:]
	}
	c.nameObject(&e, name)
	if e.Kind == timeline.ServiceChanged { // its states are of several words
		from, to, _ := strings.Cut(strings.Join(rest, " "), "->")
		e.From, e.To, rest = strings.TrimSpace(from), strings.TrimSpace(to), nil
	}
	for _, word := range rest {
		switch key, value, _ := strings.Cut(word, "="); {
		case strings.HasPrefix(word, "@"):
			e.PortName = word[1:]
			continue
		case word == "family=6":
			e.Addr = c.addr(words[2], true)
			continue
		case key == "->":
			e.From, e.To = e.To, ""
		case key == "addr":
			e.Addr = must(netip.ParseAddr(value))
		case key == "service":
			e.Service = value
		case key == "services":
			e.Services = strings.Split(value, ",")
		case key == "since":
			e.Since = must(time.ParseDuration(value))
		case key == "exit":
			e.ExitCode = new(must(strconv.Atoi(value)))
		case key == "restarts":
			e.Count = must(strconv.Atoi(value))
		case key == "grace" && e.Snapshot == nil:
			e.Grace = new(must(time.ParseDuration(value)))
		case key == "stamp": // since the run's zero
			e.Stamp = caseZero.Add(must(time.ParseDuration(value)))
		case key == "status":
			e.Status = uint16(must(strconv.ParseUint(value, 10, 16)))
		case key == "owner":
			e.Owner = value
			if e.Snapshot != nil {
				e.Owner, e.Snapshot.Workload.Owner = "", value
			}
		case key == "template":
			e.Template = value
		case key == "container":
			e.Container = value
		case key == "actor":
			e.Actor = value
		case e.Kind == timeline.SnapshotTaken && setSnapshot(e.Snapshot, key, value):
		case key == "port":
			e.Port = uint16(must(strconv.ParseUint(value, 10, 16)))
		default:
			e.To = word
		}
	}
	c.events = append(c.events, e)
}

// newSnapshot is an empty one of a kind of object: of a Pod template where it is no workload and no budget.
func newSnapshot(kind string) *timeline.Snapshot {
	switch kind {
	case "Deployment", "ReplicaSet", "StatefulSet":
		return &timeline.Snapshot{Workload: &timeline.Workload{}}
	case "PodDisruptionBudget":
		return &timeline.Snapshot{Budget: &timeline.Budget{}}
	case "Service":
		return &timeline.Snapshot{Service: &timeline.ServiceSpec{}}
	}
	return &timeline.Snapshot{Template: &timeline.PodTemplate{Containers: []timeline.Container{{Name: "main"}}}}
}

// setSnapshot sets a field of a snapshot: replicas=3 strategy=Recreate ready=2 autoscaled=true of a workload, allowed=0
// desired=2 maxUnavailable=1 of a budget, published=true internal=Local external=Local affinity=ClientIP
// distribution=PreferSameZone of a Service; id=t1 grace=30s prestop=5s hook=nginx_-s_quit readiness=2sx3
// liveness=10sx3, or servers=proxy,app others=shipper in place of its container main, of a template
// ("Template/web-abc").
func setSnapshot(s *timeline.Snapshot, key, value string) bool {
	switch key {
	case "replicas":
		s.Workload.Replicas = must(strconv.Atoi(value))
	case "strategy":
		s.Workload.Strategy = value
	case "internal":
		s.Service.Internal = value
	case "external":
		s.Service.External = value
	case "affinity":
		s.Service.Affinity = value
	case "distribution":
		s.Service.Distribution = value
	case "autoscaled":
		s.Workload.Autoscaled = value == "true"
	case "ready":
		s.Workload.Status.Ready = must(strconv.Atoi(value))
	case "allowed":
		s.Budget.Allowed = must(strconv.Atoi(value))
	case "maxUnavailable":
		s.Budget.MaxUnavailable = value
	case "desired":
		s.Budget.Desired = must(strconv.Atoi(value))
	case "published":
		s.Service.PublishNotReady = value == "true"
	case "id":
		s.Template.ID = value
	case "grace":
		s.Template.Grace = must(time.ParseDuration(value))
	case "prestop", "hook": // of the container before: a sleep, or a command, with _ for spaces
		hook := &timeline.Hook{Kind: "exec", Command: strings.ReplaceAll(value, "_", " ")}
		if key == "prestop" {
			hook = &timeline.Hook{Kind: "sleep", Sleep: must(time.ParseDuration(value))}
		}
		s.Template.Containers[len(s.Template.Containers)-1].PreStop = hook
	case "servers", "others": // containers in place of main, with a readiness probe and without
		if s.Template.Containers[0].Name == "main" {
			s.Template.Containers = nil
		}
		for name := range strings.SplitSeq(value, ",") {
			c := timeline.Container{Name: name}
			if key == "servers" {
				c.Readiness = &timeline.Probe{Kind: "httpGet", Period: time.Second, Threshold: 3}
			}
			s.Template.Containers = append(s.Template.Containers, c)
		}
	case "readiness", "liveness":
		period, threshold, _ := strings.Cut(value, "x")
		p := &timeline.Probe{Kind: "httpGet", Period: must(time.ParseDuration(period)),
			Threshold: must(strconv.Atoi(threshold))}
		if s.Template.Containers[0].Readiness = p; key == "liveness" {
			s.Template.Containers[0].Readiness, s.Template.Containers[0].Liveness = nil, p
		}
	default:
		return false
	}
	return true
}

func (c *caseRun) nameObject(e *timeline.Event, name string) {
	kind, of, slash := strings.Cut(name, "/")
	switch {
	case name == "-":
	case slash:
		e.Object = timeline.Object{Kind: kind, Namespace: "shop", Name: of, UID: "uid-" + name}
		if e.Kind == timeline.SnapshotTaken {
			e.Snapshot = newSnapshot(kind)
		}
	case strings.HasPrefix(string(e.Kind), "pod-"), e.Kind == timeline.EndpointChanged, e.Kind == timeline.KubeEvent:
		e.Object = timeline.Object{Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name, Node: c.node(name)}
		e.Addr = c.addr(name, false)
	case strings.HasPrefix(string(e.Kind), "node-"):
		e.Object = timeline.Object{Kind: "Node", Name: name}
	case e.Kind == timeline.RequestError:
		e.Object = timeline.Object{Kind: "Target", Name: name}
	default:
		e.Object = timeline.Object{Kind: name}
	}
}

// run gives the facts in the order they would have been recorded.
func (c *caseRun) run() timeline.Run {
	run := timeline.Run{Meta: timeline.Meta{
		ID: "case", T0: caseZero,
		Options: timeline.Options{Timeout: caseTimeout, Join: time.Second, Slow: 500 * time.Millisecond,
			Duration: c.end},
	}}
	if c.url != "" {
		run.Meta.Services = []timeline.Service{{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.7"}}
	}
	run.Sources = []timeline.Source{{ID: 1, Name: "prober", Role: timeline.Coordinator, Node: "node3", T0: run.Meta.T0}}
	for _, node := range c.from {
		source := timeline.Source{ID: c.sourceOn(node), Name: node, Role: timeline.Prober, Node: node, T0: run.Meta.T0}
		if node == "outside" {
			source.Role, source.Node = timeline.Workstation, ""
		}
		run.Sources = append(run.Sources, source)
	}
	events := append([]timeline.Event{{Kind: timeline.RunPhase, To: "measuring"}}, c.events...)
	events = append(events, timeline.Event{Seen: c.end, Kind: timeline.RunPhase, From: "measuring", To: "ended"})
	for _, s := range c.streams {
		run.Targets = append(run.Targets, s.target)
		events = append(events,
			timeline.Event{Seen: s.spells[0].from, Kind: timeline.TargetChanged, To: "measuring",
				Object: timeline.Object{Name: s.target.Name}, Source: s.target.Source},
			timeline.Event{Seen: s.spells[0].to, Kind: timeline.TargetChanged, To: "ended",
				Object: timeline.Object{Name: s.target.Name}, Source: s.target.Source})
	}
	slices.SortStableFunc(events, func(a, b timeline.Event) int { return int(a.Seen - b.Seen) })
	for i := range events {
		events[i].ID, events[i].Source = uint32(i+1), stdcmp.Or(events[i].Source, 1)
	}
	for pod, number := range c.pods {
		run.Backends = append(run.Backends, timeline.Backend{ID: uint16(number), Source: 1, Name: pod})
	}
	run.Events = events
	for pod, n := range c.pods {
		run.Peers = append(run.Peers,
			timeline.Peer{Source: 1, ID: uint16(n), Addr: netip.AddrPortFrom(c.addr(pod, false), 8080)})
	}
	if c.held != nil {
		run.Held, run.Backends = c.held.facts(c.end)
	}
	run.Batches = c.batches()
	return run
}

// batches yields each stream in turn, whole.
func (c *caseRun) batches() iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		first := uint64(0)
		for _, s := range c.streams {
			b := timeline.Batch{Source: 1, FirstSeq: first, Requests: s.requests()}
			b.Watermarks = []timeline.Watermark{{Target: s.target.ID, Due: s.spells[0].to}}
			first += uint64(len(b.Requests))
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (s *stream) requests() []timeline.Request {
	whole := s.spells[0]
	var requests []timeline.Request
	for due := whole.from; due < whole.to; due += s.target.Interval() {
		seq := uint64(len(requests))
		r := timeline.Request{Target: s.target.ID, Seq: seq, Due: due, Sent: due, Done: due + whole.took}
		r.Backend = whole.by
		for _, p := range s.spells {
			if p.from <= due && due < p.to && int(seq)%p.of < p.n {
				r.Class, r.Done, r.Peer, r.Backend = p.class, due+p.took, uint16(p.peer), p.by
				r.Code, r.Reused = p.code, s.target.Kind == timeline.Reused && !windows.Unconnected(p.class)
			}
		}
		requests = append(requests, r)
	}
	return requests
}

// What Lapse makes of it, as people read it.

func printIncidents(tl *model.Timeline) string {
	var b strings.Builder
	for _, in := range tl.Incidents {
		fmt.Fprintf(&b, "%d: windows %v of %s, %d/%d failed, downtime %s\n", in.ID, in.Windows,
			strings.Join(in.Targets, ", "),
			in.Failed, in.Sent, quantity.Length(in.Downtime, false)+
				map[bool]string{true: fmt.Sprintf(", %d connections cut", in.Cut)}[in.Cut > 0])
		for _, t := range in.Triggers {
			fmt.Fprintf(&b, "  set off by: %s (event %d)\n", t.Text, t.Event)
		}
		for _, c := range in.Causes {
			if c.Cut > 0 {
				fmt.Fprintf(&b, "  %d cut and ", c.Cut)
			}
			fmt.Fprintf(&b, "  %d failures: %s [%s]: %s\n", c.Failed, c.Rule, c.Confidence, c.Text)
		}
	}
	return b.String()
}

func printWindows(tl *model.Timeline) string {
	var b strings.Builder
	for _, w := range tl.Windows {
		fmt.Fprintf(&b, "%s: %s %s, start %s, end %s, length %s, %d/%d failed: %s\n", w.Target, w.Basis, w.Kind,
			bracket(w.Start), bracket(w.End), quantity.Length(w.Length, false), w.Failed, w.Sent,
			quantity.ClassCounts(w.Classes))
		for _, e := range w.Errors {
			fmt.Fprintf(&b, "  %s: %s (first %s)\n", e.Class, e.Text, bracket(e.First))
		}
		if w.Ended != nil {
			fmt.Fprintf(&b, "  ended about when %s (event %d)\n", w.Ended.Text, w.Ended.Event)
		}
		for _, cause := range w.Causes {
			printCause(&b, cause)
		}
	}
	return b.String()
}

func printCause(b *strings.Builder, c model.Cause) {
	fmt.Fprintf(b, "  %s [%s]: %s\n", c.Rule, c.Confidence, c.Text)
	if c.Fix != "" {
		fmt.Fprintf(b, "    fix: %s\n", c.Fix)
	}
	for _, e := range c.Evidence {
		source := e.Target
		if e.Event > 0 {
			source = fmt.Sprintf("event %d", e.Event)
		}
		fmt.Fprintf(b, "    + %s (%s)\n", e.Text, source)
	}
	for _, rival := range c.Rivals {
		fmt.Fprintf(b, "    - %s\n", rival)
	}
}

func bracket(at model.Instant) string {
	return fmt.Sprintf("%s..%s", at.Earliest.Round(10*time.Microsecond), at.Latest.Round(10*time.Microsecond))
}

func printPods(tl *model.Timeline) string {
	var b strings.Builder
	for _, p := range tl.Pods {
		fmt.Fprintf(&b, "%s on %s:", p.Name, p.Node)
		for _, state := range p.States {
			fmt.Fprintf(&b, " %s %s,", state.Start, state.State)
		}
		b.WriteString("\n")
		printInstants(&b, p)
	}
	return b.String()
}

func printInstants(b *strings.Builder, p model.Pod) {
	for _, entry := range []struct {
		name string
		at   *model.Instant
	}{
		{"created", p.Created}, {"scheduled", p.Scheduled}, {"started", p.Started}, {"ready", p.Ready},
		{"endpoint ready", p.EndpointReady},
		{"deleted", p.Deleted}, {"killing", p.Killing}, {"endpoint not ready", p.EndpointNotReady},
		{"stopped", p.Stopped},
		{"not ready", p.NotReady}, {"exited", p.Exited}, {"endpoint removed", p.EndpointRemoved}, {"gone", p.Gone},
	} {
		if entry.at != nil {
			fmt.Fprintf(b, "  %s %s\n", entry.name, bracket(*entry.at))
		}
	}
	if p.ExitCode != nil {
		fmt.Fprintf(b, "  exit code %d\n", *p.ExitCode)
	}
	if p.Ending != nil {
		fmt.Fprintf(b, "  %s: %s (event %d)\n", p.Ending.By, p.Ending.Text, p.Ending.Event)
	}
}

func printVerdict(tl *model.Timeline) string {
	v := tl.Verdict
	var b strings.Builder
	fmt.Fprintf(&b, "%s, exit %d\n", v.Result, v.ExitCode)
	for _, reason := range v.Reasons {
		fmt.Fprintf(&b, "  %s\n", reason)
	}
	return b.String()
}
