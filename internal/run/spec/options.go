package spec

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/report"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/timeline"
	"lapse/watcher"
)

// Options are a run's [Spec], and what concerns only the machine that starts the run.
type Options struct {
	Spec
	Kube access.Kube

	Command []string // to wrap, and to run here

	Out          string // directory for the run's files
	saved.Output        // how the result is printed on standard output
	Dashboard    string // address to serve the page on
	NoCapture    bool
	From         string // where to measure from: all nodes, how many, which, or which labels; Probers follow from it
	Changes      int    // how many endpoints of the run's own Service are replaced; 0: there is no such Service
	Here         bool   // the requests to a Service are sent from this machine

	// Of the Job, for the API server.
	Image           string
	ImagePullSecret string
	CPU             string
	AvoidNodes      []string
	YAML            bool // it is only printed: `lapse gen`

	CAFile            string // CAPEM is read from it
	GRPCDescriptors   string // a descriptor set in a file, and the message in JSON: GRPCRequest is made from them
	GRPCMessage       string
	PreflightBaseline string // a file that Accepted is read from

	// Of the agent, the process in the Job's Pod.
	ID              string
	AgentListen     string // where its API and page listen; empty: this is no agent
	ExternalCommand bool   // measure until the workstation says that the command has ended
	carried         bool   // the whole Spec came from the workstation: no default is missing

	// Filled in by Check.
	Parsed   []Target
	Gates    []verdict.Gate
	observed float64 // --min-coverage

	nodeObserved *float64 // --min-node-coverage; nil: as observed

	Header   http.Header
	roots    *x509.CertPool
	Statuses loadgen.Statuses
	Sent     string   // over bare TCP or UDP
	Awaited  string   // over bare TCP or UDP, if not what was sent
	Notes    []string // what the user may not expect of the run

	AvoidSelector string              // of nodes to keep off, in addition to AvoidNodes
	NotCovered    []string            // what a pass does not cover, for people
	FromHere      []Service           // what this machine measures with --from outside
	Nearby        []map[string]string // the selectors of chosen Services in the Job's namespace

	Env Env // of this process

	Given map[string]bool // the flags that were given; true: with another value than the default
}

// Check completes and validates the options. If it returns an error, no request was sent and nothing was created.
func (o *Options) Check(args, command []string) error {
	if err := o.Complete(args, command); err != nil {
		return err
	}
	return o.Validate()
}

// Complete reads the targets and the places to measure from. In the Pod of a Job it reads all options from the
// environment.
func (o *Options) Complete(args, command []string) error {
	o.Command, o.Targets = command, args
	if err := agentEnv(o); err != nil {
		return err
	}
	if err := o.CheckTargets(); err != nil {
		return err
	}
	return readOutside(o)
}

// Validate checks the completed options, and fills in what follows from them. A check may depend on the ones before
// it.
func (o *Options) Validate() error {
	for _, check := range []func(*Options) error{
		checkNumbers,
		setDefaults,
		checkCommand,
		(*Options).CheckRequest,
		checkProtocols,
		ShareRate,
		checkProbes,
		checkGates,
		checkFormat,
		checkHammer,
		checkOpenFiles,
		(*Options).CheckSecrets,
		CheckPreflight,
		checkPrinted,
		checkFrom,
	} {
		if err := check(o); err != nil {
			return err
		}
	}
	return nil
}

// WasGiven reports whether a flag was given.
func (o *Options) WasGiven(flag string) bool {
	_, given := o.Given[flag]
	return given
}

// CheckTargets reads the TARGET arguments.
func (o *Options) CheckTargets() error {
	if o.Chooses() {
		return checkChoice(o)
	}
	if len(o.Targets) == 0 {
		return exit.Usagef(TargetHint+", or --on-node NODE or -A to choose Services",
			"nothing to measure: no target given")
	}
	for i, arg := range o.Targets {
		t, err := ParseTarget(arg)
		if err != nil {
			return err
		}
		o.Parsed, o.Targets[i] = append(o.Parsed, t), t.String()
	}
	labels := map[string]Target{}
	for _, s := range o.Parsed {
		label := o.Label(s)
		if other, twice := labels[label]; twice {
			advice := "measure them one after the other"
			if s.Routes+other.Routes != "" && s.Service == other.Service && s.Port == other.Port {
				advice = "name all routes at once, as in svc/" + s.Service + routeMark + "clusterip,nodeport"
			}
			return exit.Usagef(advice, "targets %s and %s would both be called %q", other, s, label)
		}
		labels[label] = s
	}
	if o.Watch != "" {
		if s, err := ParseTarget(o.Watch); err != nil || s.Service == "" {
			return exit.Usagef("as in --watch svc/web", "--watch %q is not a Service", o.Watch)
		}
	}
	if o.CountServices() > 0 && o.CountServices() < len(o.Parsed) && !o.Here {
		return exit.Usagef("run them one after the other, or add --here",
			"Services and URLs cannot be measured from the cluster and from here at once")
	}
	return nil
}

// Label returns what distinguishes the targets of one TARGET from those of another: "" for a single URL.
func (o *Options) Label(s Target) string {
	switch {
	case s.Label != "":
		return s.Label
	case s.Service != "" && s.Port != "" && o.CountServices() > 1:
		return s.Service + ":" + s.Port
	case s.Service != "":
		return s.Service
	case len(o.Parsed) == 1:
		return ""
	}
	label := s.URL.Host + strings.TrimSuffix(s.URL.Path, "/")
	if s.URL.Scheme == "dns" && s.URL.RawQuery != "" { // which records; a query of HTTP may be long, or a secret
		label += "?" + s.URL.RawQuery
	}
	return label
}

// CountServices counts the Services among the targets.
func (o *Options) CountServices() int {
	n := 0
	for _, s := range o.Parsed {
		if s.Service != "" {
			n++
		}
	}
	return n
}

// InCluster reports whether a Job sends the requests.
func (o *Options) InCluster() bool { return o.CountServices() > 0 && !o.Here }

func checkNumbers(o *Options) error {
	switch rate := o.RateFrom(1); {
	case !(rate > 0) || math.IsInf(rate, 0):
		return exit.Usagef("--rate is in requests per second, such as --rate 200",
			"rate %v: must be greater than 0", rate)
	case rate > loadgen.MaxRate:
		return exit.Usagef("", "rate %v: at most %d requests per second", rate, loadgen.MaxRate)
	case math.IsNaN(o.DirectRate) || o.DirectRate > loadgen.MaxRate:
		return exit.Usagef("", "direct-rate %v: at most %d requests per second", o.DirectRate, loadgen.MaxRate)
	case o.Timeout < time.Millisecond:
		return exit.Usagef("as in --timeout 800ms", "timeout %v: must be at least 1ms", o.Timeout)
	case o.Connections < 1:
		return exit.Usagef("", "connections %d: must be at least 1", o.Connections)
	case o.Join == 0:
		return exit.Usagef(judging.JoinHint, "join 0s: must be greater than 0")
	case o.Join < 0 || o.Duration < 0 || o.Baseline < 0 || o.Settle < 0 || o.WorkstationTimeout < 0:
		return exit.Usagef("", "durations must not be negative")
	case o.Slow < 0 || o.Slow == 0 && o.WasGiven("slow"):
		return exit.Usagef("as in --slow 500ms", "slow %v: must be greater than 0", o.Slow)
	case o.Hold <= 0:
		return exit.Usagef("", "--hold must be greater than 0")
	case o.MaxDuration <= 0:
		return exit.Usagef("", "max-duration %v: must be greater than 0", o.MaxDuration)
	}
	if err := CheckTotalRate(o); err != nil {
		return err
	}
	if err := deploy.CheckCPU(o.CPU); err != nil {
		return exit.Usagef("as in --cpu 500m, half a core, or --cpu 1", "%w", err)
	}
	var err error
	if o.observed, err = judging.ParseCoverage(o.Coverage); err != nil {
		return err
	}
	if o.nodeObserved, err = judging.ParseNodeCoverage(o.NodeCoverage); err != nil {
		return err
	}
	if err := judging.CheckResolution(o.Resolution, o.WasGiven("resolution")); err != nil {
		return err
	}
	for _, kind := range o.Kinds {
		if k := timeline.TargetKind(kind); !k.Judged() && k != timeline.Held {
			return exit.Usagef("as in --target new,reused", "target kind %q is not one of new, reused, held", kind)
		}
	}
	if err := checkHeld(o); err != nil {
		return err
	}
	if _, err := loadgen.ParsePacing(o.Pacing); err != nil {
		return exit.Usagef("as in --pacing precise", "%w", err)
	}
	o.Kinds = slices.Compact(slices.Sorted(slices.Values(o.Kinds)))
	if len(o.Kinds) == 0 {
		return exit.Usagef("as in --target new,reused", "no target kind given")
	}
	return nil
}

// setDefaults fills in what depends on other flags, where it was not given.
func setDefaults(o *Options) error {
	if o.carried {
		return nil
	}
	baseline, settle := time.Second, time.Duration(0)
	if lastsAsCommand(o) {
		baseline, settle = 5*time.Second, 10*time.Second
	}
	o.Namespace = o.Kube.Namespace
	if !o.WasGiven("baseline") {
		o.Baseline = cmp.Or(o.Baseline, max(baseline, o.TwoRequests(1)))
	}
	if !o.WasGiven("settle") {
		o.Settle = cmp.Or(o.Settle, settle)
	}
	if !o.WasGiven("direct-rate") {
		o.DirectRate = cmp.Or(o.DirectRate, o.RateFrom(1))
	}
	if o.Chooses() && !o.WasGiven("expect-status") {
		o.ExpectStatus = AnyAnswer
	}
	return nil
}

// AnyAnswer is the good statuses of a chosen Service: its paths, and who may ask for them, are not known.
const AnyAnswer = "200-499"

// lastsAsCommand reports whether the run lasts as long as a command, here or on the workstation.
func lastsAsCommand(o *Options) bool { return len(o.Command) > 0 || o.ExternalCommand }

func checkCommand(o *Options) error {
	switch {
	case !lastsAsCommand(o) && o.Duration == 0:
		return exit.Usagef("as in `lapse run … --duration 30s`, or `lapse run … -- kubectl drain NODE`",
			"give either a command after -- or a --duration")
	case o.WorkstationTimeout > 0 && o.WorkstationTimeout < 3*CompareClocks:
		return exit.Usagef(fmt.Sprintf("as in --workstation-timeout %v", 3*CompareClocks),
			"workstation-timeout %v: too short: this machine reports every %v", o.WorkstationTimeout, CompareClocks)
	case len(o.Command) > 0 && o.Duration != 0:
		return exit.Usagef("drop one of them", "both a command and a --duration: a run lasts as long as its command")
	}
	judged := func(kind string) bool { return timeline.TargetKind(kind).Judged() }
	if o.Duration > 0 && o.RateFrom(1)*o.Duration.Seconds() < 1 && slices.ContainsFunc(o.Kinds, judged) {
		return exit.Usagef("raise --rate, or measure for longer",
			"rate %s: one request in %s, and --duration %v is shorter: it may measure nothing",
			quantity.Number(o.RateFrom(1)), quantity.Span(o.interval()), o.Duration)
	}
	if len(o.Command) > 0 {
		if _, err := exec.LookPath(o.Command[0]); err != nil {
			return exit.Usagef("give the command's path, or check its spelling",
				"the command to wrap cannot be run: %w", err)
		}
		o.AvoidDrained()
	}
	if o.InCluster() && o.Total() > o.MaxDuration {
		return exit.Usagef(fmt.Sprintf("raise it, as in --max-duration %v", o.Total()),
			"the run takes %v, and the Job ends itself after --max-duration %v", o.Total(), o.MaxDuration)
	}
	return nil
}

// RateFrom returns the requests per second that each of n places sends to a target, for each of Kinds.
func (s *Spec) RateFrom(n int) float64 {
	if s.NodeRate != 0 {
		return s.NodeRate
	}
	return s.Rate / float64(n)
}

// rateOfAll returns the requests per second that all places together send to a target, for each of Kinds.
func (s *Spec) rateOfAll() float64 {
	if s.NodeRate != 0 {
		return s.NodeRate * float64(max(1, len(s.Probers)))
	}
	return s.Rate
}

// TwoRequests returns how long each of n places takes for two requests to a target, at most an hour. After that, each
// target was asked and has had the time to answer.
func (s *Spec) TwoRequests(n int) time.Duration {
	return time.Duration(min(2/s.RateFrom(n), 3600) * float64(time.Second))
}

// interval returns the time between two requests to a target that is measured from one place.
func (s *Spec) interval() time.Duration {
	return time.Duration(min(1/s.RateFrom(1), 1e9) * float64(time.Second))
}

// longBaseline is the length from which on a default baseline is announced.
const longBaseline = 30 * time.Second

// baselineNote says how long the baseline takes, if a low rate makes it long. Otherwise it returns "".
func baselineNote(o *Options) string {
	if o.carried || o.WasGiven("baseline") || o.Baseline < longBaseline {
		return ""
	}
	return fmt.Sprintf("the baseline takes %s: at --rate %s a target gets a request every %s, "+
		"and is to answer before anything is disturbed; raise --rate, or set --baseline",
		quantity.Span(o.Baseline), quantity.Number(o.RateFrom(1)), quantity.Span(o.interval()))
}

const headerHint = "as in --header 'Authorization: Bearer …'"

// CheckRequest checks how requests are made, and what their replies must be.
func (o *Options) CheckRequest() error {
	if _, known := loadgen.ProtocolOf(o.Scheme); !known {
		return exit.Usagef("", "scheme %q: must be %s", o.Scheme, loadgen.Schemes(""))
	}
	if !httpguts.ValidHeaderFieldName(o.Method) {
		return exit.Usagef("as in --method HEAD", "method %q is not an HTTP method", o.Method)
	}
	if o.Method == http.MethodHead && o.ExpectBody != "" {
		return exit.Usagef("drop one of them",
			"--expect-body %q is in no reply to --method HEAD: it has no body", o.ExpectBody)
	}
	o.Header = http.Header{}
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name):
			return exit.Usagef(headerHint, "header %q is not of the form 'Name: value'", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return exit.Usagef(headerHint, "header %q has a value that cannot be sent, with control characters", name)
		}
		o.Header.Add(name, value)
	}
	var err error
	if o.Host, err = AsciiHost(o.Host); err != nil {
		return exit.Usagef("as in --host shop.example", "--host: %w", err)
	}
	if o.Statuses, err = loadgen.ParseStatuses(o.ExpectStatus); err != nil {
		return exit.Usagef("as in --expect-status 200,204,300-399", "expect-status: %w", err)
	}
	if o.CAFile != "" {
		pem, err := input.File(o.CAFile, input.Certificates)
		if err != nil {
			return exit.Usagef("it must be a file in PEM form", "ca-file: %w", err)
		}
		o.CAPEM = string(pem)
	}
	if o.CAPEM == "" {
		return nil
	}
	if o.roots = x509.NewCertPool(); !o.roots.AppendCertsFromPEM([]byte(o.CAPEM)) {
		return exit.Usagef("it must hold certificates in PEM form", "ca-file %s: no certificate found", o.CAFile)
	}
	return nil
}

// checkProbes refuses options that make a probe which loadgen refuses. Only the cluster knows a Service's address: an
// example address stands in for it, see https://www.rfc-editor.org/rfc/rfc5737.
func checkProbes(o *Options) error {
	for _, s := range o.Parsed {
		known := watcher.Info{Service: timeline.Service{Name: s.Service, ClusterIP: "192.0.2.1"}, Port: 80}
		for _, p := range o.ProbesOf(Service{Target: s, Info: known}) {
			if err := p.Check(); err != nil {
				return exit.Usagef(cmp.Or(hint.Of(err), "see `lapse run --help`"), "%w", err)
			}
		}
	}
	return nil
}

func checkGates(o *Options) error {
	var err error
	if o.Gates, err = judging.ParseGates(o.GateExprs); err != nil || o.carried {
		return err
	}
	for _, g := range o.Gates {
		if metric, _ := verdict.MetricNamed(g.Metric); metric.Held && !o.holds() {
			return exit.Usagef("add --held 100",
				"--fail-if '%s': %s is measured on connections that are held, and there are none", g, g.Metric)
		}
	}
	if o.From != "" {
		return nil
	}
	for _, g := range o.Gates {
		if metric, _ := verdict.MetricNamed(g.Metric); metric.From {
			return exit.Usagef("add --from all, or see `lapse routes --help`",
				"--fail-if '%s': %s is measured by the probers of --from, and there is none", g, g.Metric)
		}
	}
	return nil
}

func checkFormat(o *Options) error { return judging.CheckFormat(report.Formats, o.Format) }

func checkHammer(o *Options) error {
	if o.Hammer == "" {
		return nil
	}
	_, err := hey.ParseFlags(o.Hammer)
	switch {
	case err != nil:
		return exit.Usagef("hey's flags, as in --hammer '-c 50 -q 20'", "hammer: %w", err)
	case o.YAML && hey.Hides(o.Hammer):
		return exit.Usagef("the load has the headers of the probes too: "+SecretHint,
			"--hammer: what -H and -d say would be printed, for all to read")
	}
	return nil
}

// checkPrinted refuses to print secrets: `lapse gen` prints the run's Secret too.
func checkPrinted(o *Options) error {
	if o.YAML && o.Secrets() != nil {
		return exit.Usagef("put it into a header, and give --header-from secret/NAME",
			"a target's query has what looks like a secret, and would be printed for all to read")
	}
	return nil
}

// NewID returns the name of a new run, of its directory and of its Job. It is short, probably unique, and a valid
// Kubernetes name.
func NewID() string {
	return "lapse-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// RunDir returns the directory of the run's files.
func (o *Options) RunDir(id string) string { return cmp.Or(o.Out, filepath.Join("runs", id)) }

// Total returns the length of the run, or 0 if it lasts as long as a command.
func (s *Spec) Total() time.Duration {
	if s.Duration == 0 {
		return 0
	}
	return s.Baseline + s.Duration + s.Settle
}

// Recorded returns the options that a later judgement needs.
func (o *Options) Recorded() timeline.Options {
	return timeline.Options{
		Rate:            o.rateOfAll(),
		Timeout:         o.Timeout,
		Duration:        o.Duration,
		Baseline:        o.Baseline,
		Settle:          o.Settle,
		Join:            o.Join,
		Slow:            o.Slow,
		Resolution:      o.Resolution,
		MinCoverage:     o.observed,
		MinNodeCoverage: o.nodeObserved,
		Gates:           o.GateExprs,
	}
}
