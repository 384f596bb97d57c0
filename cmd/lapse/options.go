package main

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/report"
	"lapse/timeline"
	"lapse/watcher"
)

// options are the flags of `lapse run`, as given and then checked.
type options struct {
	kube kubeOptions

	rate        float64
	duration    time.Duration
	baseline    time.Duration
	settle      time.Duration
	timeout     time.Duration
	connections int
	join        time.Duration
	slow        time.Duration
	resolution  time.Duration
	coverage    string
	kinds       []string
	direct      float64
	pacing      string

	scheme        string
	caFile        string
	headers       []string
	method        string
	host          string
	expectStatus  string
	expectBody    string
	echo          string
	backendHeader string
	hammer        string

	gateExprs []string
	watch     string
	out       string
	format    string
	dashboard string
	noCapture bool

	here            bool
	image           string
	imagePullSecret string
	cpu             string
	avoidNodes      []string
	maxDuration     time.Duration
	headersFrom     []string      // Secrets
	echoFrom        string        // a Secret
	yaml            bool          // it is only printed: `lapse gen`
	unheard         time.Duration // after so long without a sign of life of the workstation that runs the command, the Job ends the run

	id   string
	hold time.Duration

	// Of the agent, the process in the Job's Pod.
	control   string // where its API and page listen; empty: this is no agent
	untilTold bool   // measure until the workstation says that the command has ended
	pem       string // the authorities to trust

	// Filled in by check.
	args     []string
	subjects []subject
	command  []string
	gates    []verdict.Gate
	observed float64 // --min-coverage
	header   http.Header
	roots    *x509.CertPool
	statuses loadgen.Statuses
	sent     string   // over bare TCP
	awaited  string   // over bare TCP, if not what was sent
	notes    []string // what the user may not expect of the run

	avoidSelector string // of nodes to keep off, beside avoidNodes

	changed func(flag string) bool    // whether a flag was given
	given   func(func(f *pflag.Flag)) // visits those that were
}

func (o *options) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.changed, o.given = f.Changed, f.Visit
	o.kube.flags(f)
	f.Float64Var(&o.rate, "rate", defaultRate, "requests per second, for each of new and reused")
	f.DurationVar(&o.duration, "duration", 0, "how long to measure after the baseline, where no command is wrapped")
	f.DurationVar(&o.baseline, "baseline", 0, "how long to measure before the command (default 5s with a command, else 1s, but no less than 2 requests take; 0: none, and no check that the target is up)")
	f.DurationVar(&o.settle, "settle", 0, "how long to go on after the command (default 10s with a command, else 0)")
	f.DurationVar(&o.timeout, "timeout", loadgen.DefaultTimeout, "a request without a whole answer for so long has failed")
	f.IntVar(&o.connections, "connections", loadgen.DefaultConnections, "persistent connections of the reused target")
	f.DurationVar(&o.join, "join", time.Second, "failures less than this apart are one window")
	f.DurationVar(&o.slow, "slow", 0, slowUsage+" (default: 500ms or 3 times what 9 of 10 answers took at the start, whichever is longer)")
	f.DurationVar(&o.resolution, "resolution", 0, resolutionUsage+" (default 50ms or 10 intervals, whichever is longer)")
	f.StringVar(&o.coverage, "min-coverage", "99%", minCoverageUsage)
	f.StringSliceVar(&o.kinds, "target", []string{"new", "reused"}, "which kinds of connection to measure: new, reused")
	f.Float64Var(&o.direct, "direct-rate", 0, "requests per second for all Pods' own addresses together (default: --rate; 0: none)")
	f.StringVar(&o.pacing, "pacing", string(loadgen.Economical), "economical: wait for due instants asleep; precise: wake early and spin, for more CPU")
	f.StringArrayVar(&o.gateExprs, "fail-if", nil, "a gate `EXPR`, such as 'failed>0' or 'downtime.total>500ms' (repeatable)")
	f.StringVar(&o.out, "out", "", "directory for the recording and timeline.json (default runs/ID)")
	f.StringVarP(&o.format, "output", "o", "table", "result on standard output: "+formatNames())
	f.StringVar(&o.dashboard, "dashboard", "", "serve the live page here, such as 127.0.0.1:8080")
	f.BoolVar(&o.noCapture, "no-capture", false, "pass the command's output through without marking it on the timeline")
	f.StringVar(&o.scheme, "scheme", "http", "scheme for svc/ targets: http, https or tcp")
	f.StringVar(&o.caFile, "ca-file", "", "PEM file of the authorities to trust for https")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a request `HEADER`, 'Name: value' (repeatable)")
	f.StringArrayVar(&o.headersFrom, "header-from", nil, "a `SECRET` of the Service's namespace, secret/NAME, each key of which names a request header, read by the Job (repeatable)")
	f.StringVar(&o.method, "method", http.MethodGet, "request method")
	f.StringVar(&o.host, "host", "", "Host header and TLS server name, where they differ from the target's")
	f.StringVar(&o.expectStatus, "expect-status", "", "statuses that count as good, such as 200,300-399 (default 2xx and 3xx)")
	f.StringVar(&o.expectBody, "expect-body", "", "text a good reply's body contains; of tcp: what a good reply begins with, if not with the echo")
	f.StringVar(&o.echo, "echo", "", `tcp: a `+"`TEXT`"+` to send and to await back, such as ping or 'PING\r\n' (default: connecting is enough)`)
	f.StringVar(&o.echoFrom, "echo-from", "", "a `SECRET` of the Service's namespace, secret/NAME, whose key echo holds the TEXT of --echo, read by the Job")
	f.StringVar(&o.backendHeader, "backend-header", loadgen.DefaultBackendHeader, "response header that names the Pod that answered")
	f.StringVar(&o.hammer, "hammer", "", "background load on the first TARGET beside the probes, in hey's flags: '-c 50 -q 20'")
	f.StringVar(&o.watch, "watch", "", "also watch this Service, svc/NAME: with a URL, through the kubeconfig")
	f.BoolVar(&o.here, "here", false, "send the requests to a svc/ target from this machine, not from a Job in the cluster")
	f.StringVar(&o.image, "image", image, "image of the Job that measures in the cluster")
	f.StringVar(&o.imagePullSecret, "image-pull-secret", "", "Secret to pull the image with")
	f.StringVar(&o.cpu, "cpu", deploy.DefaultCPU, "CPU the Job's Pod asks for: its share of a busy node; there is no limit")
	f.StringSliceVar(&o.avoidNodes, "avoid-node", nil, "nodes the Job must not run on (default: those a wrapped kubectl drain, cordon, taint or delete names)")
	f.DurationVar(&o.maxDuration, "max-duration", 2*time.Hour, "the Job ends itself after this, whatever happens")
	f.DurationVar(&o.unheard, "workstation-timeout", 5*time.Minute, "the Job ends the run of a command, and keeps its result, if this machine was not heard of for so long (0: only --max-duration does)")
	f.DurationVar(&o.hold, "hold", 10*time.Minute, "the Job keeps its result for so long, if it cannot be fetched at once")
	// What the workstation tells the Job's Pod.
	f.StringVar(&o.pem, "ca-pem", "", "")
	if err := f.MarkHidden("ca-pem"); err != nil {
		panic(err)
	}
}

func formatNames() string {
	return strings.Join(slices.Sorted(maps.Keys(report.Formats)), ", ")
}

// check validates the arguments and fills in what follows from them. No request has been sent, and
// nothing was created, when it returns an error.
func (o *options) check(args, command []string) error {
	o.command, o.args = command, args
	if err := o.agentEnv(); err != nil {
		return err
	}
	for _, check := range []func() error{
		o.checkSubjects, o.checkPlace, o.checkNumbers, o.checkCommand, o.checkRequest, o.checkTCP, o.checkProbes, o.checkGates, o.checkFormat, o.checkHammer,
		o.checkFiles, o.checkSecrets,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) checkSubjects() error {
	if len(o.args) == 0 {
		return refuse(targetHint, "nothing to measure: no target given")
	}
	for _, arg := range o.args {
		s, err := parseSubject(arg)
		if err != nil {
			return err
		}
		o.subjects = append(o.subjects, s)
	}
	labels := map[string]subject{}
	for _, s := range o.subjects {
		label := o.label(s)
		if other, twice := labels[label]; twice {
			return refuse("measure them one after the other", "targets %s and %s would both be called %q", other, s, label)
		}
		labels[label] = s
	}
	if o.watch != "" {
		if s, err := parseSubject(o.watch); err != nil || s.service == "" {
			return refuse("as in --watch svc/web", "--watch %q is not a Service", o.watch)
		}
	}
	if o.services() > 0 && o.services() < len(o.subjects) && !o.here {
		return refuse("run them one after the other, or add --here", "Services and URLs cannot be measured from the cluster and from here at once")
	}
	return nil
}

// label is what tells a subject's targets from another's: nothing where a URL is the only one.
func (o *options) label(s subject) string {
	switch {
	case s.service != "" && s.port != "" && o.services() > 1:
		return s.service + ":" + s.port
	case s.service != "":
		return s.service
	case len(o.subjects) == 1:
		return ""
	}
	return s.url.Host + strings.TrimSuffix(s.url.Path, "/")
}

// services counts the Services among the subjects.
func (o *options) services() int {
	n := 0
	for _, s := range o.subjects {
		if s.service != "" {
			n++
		}
	}
	return n
}

// inCluster reports whether the requests are to be sent by a Job.
func (o *options) inCluster() bool { return o.services() > 0 && !o.here }

func (o *options) checkNumbers() error {
	switch {
	case !(o.rate > 0) || math.IsInf(o.rate, 0):
		return refuse("--rate is in requests per second, such as --rate 200", "rate %v: must be greater than 0", o.rate)
	case o.rate > loadgen.MaxRate:
		return refuse("", "rate %v: at most %d requests per second", o.rate, loadgen.MaxRate)
	case math.IsNaN(o.direct) || o.direct > loadgen.MaxRate:
		return refuse("", "direct-rate %v: at most %d requests per second", o.direct, loadgen.MaxRate)
	case o.timeout < time.Millisecond:
		return refuse("as in --timeout 800ms", "timeout %v: must be at least 1ms", o.timeout)
	case o.connections < 1:
		return refuse("", "connections %d: must be at least 1", o.connections)
	case o.join == 0:
		return refuse(joinHint, "join 0s: must be greater than 0")
	case o.join < 0 || o.duration < 0 || o.baseline < 0 || o.settle < 0 || o.unheard < 0:
		return refuse("", "durations must not be negative")
	case o.slow < 0 || o.slow == 0 && o.changed("slow"):
		return refuse("as in --slow 500ms", "slow %v: must be greater than 0", o.slow)
	case o.hold <= 0:
		return refuse("", "--hold must be greater than 0")
	case o.maxDuration <= 0:
		return refuse("", "max-duration %v: must be greater than 0", o.maxDuration)
	}
	if err := deploy.CheckCPU(o.cpu); err != nil {
		return refuse("as in --cpu 500m, half a core, or --cpu 1", "%w", err)
	}
	var err error
	if o.observed, err = parseCoverage(o.coverage); err != nil {
		return err
	}
	if err := checkResolution(o.resolution, o.changed("resolution")); err != nil {
		return err
	}
	for _, kind := range o.kinds {
		if !timeline.TargetKind(kind).Judged() {
			return refuse("as in --target new,reused", "target kind %q is not one of new, reused", kind)
		}
	}
	if _, err := loadgen.ParsePacing(o.pacing); err != nil {
		return refuse("as in --pacing precise", "%w", err)
	}
	o.kinds = slices.Compact(slices.Sorted(slices.Values(o.kinds)))
	if len(o.kinds) == 0 {
		return refuse("as in --target new,reused", "no target kind given")
	}
	if !o.changed("direct-rate") {
		o.direct = cmp.Or(o.direct, o.rate)
	}
	return nil
}

const (
	slowUsage        = "a good answer that took longer counts as slow"
	resolutionUsage  = "a gap between two requests that is no longer counts as observed"
	minCoverageUsage = "share of the time that must have been observed for a run to pass"
)

// checkResolution refuses a --resolution that was given and is none.
func checkResolution(d time.Duration, given bool) error {
	if d < 0 || given && d == 0 {
		return refuse("as in --resolution 50ms; what is less than 3 intervals between requests counts as 3", "resolution %v: must be greater than 0", d)
	}
	return nil
}

// parseCoverage reads a --min-coverage.
func parseCoverage(text string) (float64, error) {
	share, problem := verdict.ParseRatio(text)
	switch {
	case problem != "":
		return 0, refuse("as in --min-coverage 99%", "min-coverage: %s", problem)
	case share == 0:
		return 0, refuse("as in --min-coverage 90%", "min-coverage %s: a run that observed nothing proves nothing", text)
	}
	return share, nil
}

const joinHint = "for as many windows as there are runs of failures: --join 1ns"

func (o *options) checkCommand() error {
	wrapped := len(o.command) > 0 || o.untilTold
	switch {
	case !wrapped && o.duration == 0:
		return refuse("as in `lapse run … --duration 30s`, or `lapse run … -- kubectl drain NODE`", "neither a command after -- nor a --duration: when would the run end?")
	case o.unheard > 0 && o.unheard < 3*compareClocks:
		return refuse(fmt.Sprintf("as in --workstation-timeout %v", 3*compareClocks), "workstation-timeout %v: too short: this machine is heard of every %v", o.unheard, compareClocks)
	case len(o.command) > 0 && o.duration != 0:
		return refuse("drop one of them", "both a command and a --duration: a run lasts as long as its command")
	}
	if len(o.command) > 0 {
		if _, err := exec.LookPath(o.command[0]); err != nil {
			return refuse("give the command's path, or check its spelling", "the command to wrap cannot be run: %w", err)
		}
		o.avoidDrained()
	}
	baseline, settle := time.Second, time.Duration(0)
	if wrapped {
		baseline, settle = 5*time.Second, 10*time.Second
	}
	if !o.changed("baseline") {
		o.baseline = cmp.Or(o.baseline, max(baseline, o.twoRequests()))
	}
	if !o.changed("settle") {
		o.settle = cmp.Or(o.settle, settle)
	}
	if o.inCluster() && o.total() > o.maxDuration {
		return refuse(fmt.Sprintf("raise it, as in --max-duration %v", o.total()), "the run takes %v, and the Job ends itself after --max-duration %v", o.total(), o.maxDuration)
	}
	return nil
}

// twoRequests is how long two requests to a target take at the rate asked for, an hour at most: after so long, each target
// was asked and has had the time to answer.
func (o *options) twoRequests() time.Duration {
	return time.Duration(min(2/o.rate, 3600) * float64(time.Second))
}

const headerHint = "as in --header 'Authorization: Bearer …'"

func (o *options) checkRequest() error {
	if !slices.Contains([]string{"http", "https", "tcp"}, o.scheme) {
		return refuse("", "scheme %q: must be http, https or tcp", o.scheme)
	}
	if !httpguts.ValidHeaderFieldName(o.method) {
		return refuse("as in --method HEAD", "method %q is not an HTTP method", o.method)
	}
	if o.method == http.MethodHead && o.expectBody != "" {
		return refuse("drop one of them", "--expect-body %q is in no reply to --method HEAD: it has no body", o.expectBody)
	}
	o.header = http.Header{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
			return refuse(headerHint, "header %q is not of the form 'Name: value'", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return refuse(headerHint, "header %q has a value that cannot be sent, with control characters", name)
		}
		o.header.Add(name, value)
	}
	var err error
	if o.host, err = asciiHost(o.host); err != nil {
		return refuse("as in --host shop.example", "--host: %w", err)
	}
	if o.statuses, err = loadgen.ParseStatuses(o.expectStatus); err != nil {
		return refuse("as in --expect-status 200,204,300-399", "expect-status: %w", err)
	}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return refuse("it must be a file in PEM form", "ca-file: %w", err)
		}
		o.pem = string(pem)
	}
	if o.pem == "" {
		return nil
	}
	if o.roots = x509.NewCertPool(); !o.roots.AppendCertsFromPEM([]byte(o.pem)) {
		return refuse("it must hold certificates in PEM form", "ca-file %s: no certificate found", o.caFile)
	}
	return nil
}

// checkProbes refuses what loadgen would. A Service's address is known only to the cluster: another stands in for it.
func (o *options) checkProbes() error {
	for _, s := range o.subjects {
		known := watcher.Info{Service: timeline.Service{Name: s.service, ClusterIP: "192.0.2.1"}, Port: 80}
		m := &measurement{opts: o, services: []service{{subject: s, info: known}}}
		for _, p := range m.probesOf(s) {
			p.Timeout = o.timeout
			if err := p.Check(); err != nil {
				text, hint, _ := strings.Cut(err.Error(), "\nhint: ")
				return refuse(cmp.Or(hint, "see `lapse run --help`"), "%s", text)
			}
		}
	}
	return nil
}

func (o *options) checkGates() error {
	var err error
	o.gates, err = parseGates(o.gateExprs)
	return err
}

func parseGates(exprs []string) ([]verdict.Gate, error) {
	var gates []verdict.Gate
	for _, expr := range exprs {
		g, err := verdict.ParseGate(expr)
		if err != nil {
			return nil, refuse(gateHint(err), "--fail-if %w", err)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

func gateHint(err error) string {
	if h, ok := err.(interface{ Hint() string }); ok {
		return h.Hint()
	}
	return "as in --fail-if 'failed>0' or --fail-if 'downtime.total>500ms'"
}

func (o *options) checkFormat() error { return checkFormat(o.format) }

func checkFormat(format string) error {
	if _, ok := report.Formats[format]; !ok {
		return refuse("one of: "+formatNames(), "unknown output format %q", format)
	}
	return nil
}

func (o *options) checkHammer() error {
	if o.hammer == "" {
		return nil
	}
	_, err := hey.ParseFlags(o.hammer)
	switch {
	case err != nil:
		return refuse("hey's flags, as in --hammer '-c 50 -q 20'", "hammer: %w", err)
	case o.yaml && hey.Hides(o.hammer):
		return refuse("the load has the headers of the probes too: "+secretHint, "--hammer: what -H and -d say would be printed, for all to read")
	}
	return nil
}

// runDir is the directory the run's files go to.
func (o *options) runDir(id string) string { return cmp.Or(o.out, filepath.Join("runs", id)) }

// blockEvery is how often what was measured is put into the recording: as seldom as is allowed, because
// larger blocks are denser, but soon where a workstation follows it.
func (o *options) blockEvery() time.Duration {
	if o.control != "" {
		return refresh
	}
	return time.Second
}

// total is how long the run will take, or 0 if only the command knows.
func (o *options) total() time.Duration {
	if o.duration == 0 {
		return 0
	}
	return o.baseline + o.duration + o.settle
}

// recorded are the options a later judgement needs.
func (o *options) recorded() timeline.Options {
	return timeline.Options{
		Rate: o.rate, Timeout: o.timeout, Duration: o.duration, Baseline: o.baseline, Settle: o.settle,
		Join: o.join, Slow: o.slow, Resolution: o.resolution, MinCoverage: o.observed, Gates: o.gateExprs,
	}
}
