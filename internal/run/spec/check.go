package spec

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/preflight"
	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/timeline"
	"lapse/watcher"
)

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
		checkArmed,
		checkSigns,
		checkCommand,
		(*Options).CheckRequest,
		checkProtocols,
		ShareRate,
		checkProbes,
		checkGates,
		checkFormat,
		checkHammer,
		checkOpenFiles,
		(*Options).checkSecrets,
		checkPreflight,
		checkPrinted,
		checkFrom,
	} {
		if err := check(o); err != nil {
			return err
		}
	}
	return nil
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
		switch {
		case err != nil && i > 0 && !strings.ContainsAny(arg, ":/"):
			meant := strings.TrimSuffix(o.Targets[0], "/") + " -- " + strings.Join(o.Targets[i:], " ")
			return exit.Usagef("a command goes after --, as in `lapse run "+meant+"`",
				"target %q is neither a Service nor a URL", arg)
		case err != nil:
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
	if err := checkTotalRate(o); err != nil {
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
	if o.Armed {
		if !o.WasGiven("idle-rate") {
			o.IdleRate = cmp.Or(o.IdleRate, min(defaultIdleRate, o.RateFrom(1)))
		}
		if !o.WasGiven("max-duration") && o.AgentListen == "" {
			o.MaxDuration = max(o.MaxDuration, longestArmed)
		}
		settle = 10 * time.Second
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

func checkCommand(o *Options) error {
	switch {
	case !lastsAsCommand(o) && o.Duration == 0 && !o.Armed:
		return exit.Usagef("as in `lapse run … --duration 30s`, or `lapse run … -- kubectl drain NODE`",
			"give a command after --, a --duration, or --armed")
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

const (
	defaultIdleRate = 5              // --idle-rate
	longestArmed    = 24 * time.Hour // --max-duration with --armed
)

// checkArmed refuses what a run that waits for a sign cannot do.
func checkArmed(o *Options) error {
	const lasts = "--armed waits for a disruption that somebody else begins, and lasts until that is over"
	const limit = "--idle-rate is in requests per second, such as --idle-rate 5"
	switch {
	case !o.Armed && o.WasGiven("idle-rate"):
		return exit.Usagef("add --armed", "--idle-rate is the rate until --armed begins")
	case !o.Armed:
	case !(o.IdleRate >= leastIdleRate) || math.IsInf(o.IdleRate, 0):
		return exit.Usagef(limit, "idle-rate %v: at least %v", o.IdleRate, leastIdleRate)
	case o.IdleRate > o.RateFrom(1):
		return exit.Usagef("lower it, or raise --rate", "idle-rate %v: must not be above --rate, %v",
			o.IdleRate, o.RateFrom(1))
	case len(o.Command) > 0:
		return exit.Usagef("drop --armed to measure the command", "both a command and --armed: %s", lasts)
	case o.Duration > 0:
		return exit.Usagef("drop one of them", "both --duration and --armed: %s", lasts)
	case o.Settle <= o.Timeout:
		return exit.Usagef(fmt.Sprintf("as in --settle %v", o.Timeout.Truncate(time.Second)+10*time.Second),
			"settle %v: --armed ends when nothing has failed for that long: it must be longer than --timeout, %v",
			o.Settle, o.Timeout)
	case o.Outside || slices.Contains(strings.Split(o.From, ","), FromOutside):
		return exit.Usagef("leave it out of --from", "--from outside: a run that waits measures from nodes only")
	case o.holds():
		return exit.Usagef("leave out --held", "--armed keeps no connections open")
	case o.Hammer != "":
		return exit.Usagef("leave out --hammer", "--armed sends few requests until a disruption begins")
	case o.CountServices() == 0 && o.Watch == "" && !o.Chooses():
		o.Notes = append(o.Notes,
			"only a failed request begins the run: with --watch svc/NAME changes of endpoints do, too")
	}
	return nil
}

// leastIdleRate leaves at most 10 s before a disruption without a request.
const leastIdleRate = 0.1

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
	if o.Host, err = asciiHost(o.Host); err != nil {
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
		if o.Armed && (g.Metric == "errors.rate" || g.Metric == "latency.p99") {
			return exit.Usagef("use failed or downtime.total",
				"--fail-if '%s': with --armed it depends on how long the run had waited", g)
		}
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

func checkFormat(o *Options) error { return o.Output.Check() }

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

// OptionsOf returns how a prober makes requests, from the JSON of [Spec.Assigned].
func OptionsOf(spec []byte) (*Options, error) {
	var s plain
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, fmt.Errorf("the run's spec: %w", err)
	}
	o := &Options{Spec: Spec(s), Here: true, carried: true, ExternalCommand: s.Duration == 0}
	checks := []func(*Options) error{(*Options).CheckTargets, checkNumbers, (*Options).CheckRequest, checkProtocols}
	for _, check := range checks {
		if err := check(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// checkSecrets reads which Secrets are meant.
func (o *Options) checkSecrets() error {
	if o.AgentListen == "" && o.Echo != "" && o.EchoFrom != "" { // the agent has the text from the Secret
		return exit.Usagef("drop one of them", "both --echo and --echo-from: which text shall be sent?")
	}
	var err error
	for i, given := range o.HeadersFrom {
		if o.HeadersFrom[i], err = secretName("header-from", given); err != nil {
			return err
		}
	}
	if o.EchoFrom != "" {
		o.EchoFrom, err = secretName("echo-from", o.EchoFrom)
	}
	return err
}

func secretName(flag, given string) (string, error) {
	name := strings.TrimPrefix(given, "secret/")
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", exit.Usagef(fmt.Sprintf("as in --%s secret/web-auth", flag),
			"--%s %q is no name of a Secret: %s", flag, given, problems[0])
	}
	return name, nil
}

// checkPreflight reads the accepted findings, and the node that the command drains.
func checkPreflight(o *Options) error {
	if o.PreflightBaseline != "" {
		b, err := preflight.ReadBaseline(o.PreflightBaseline)
		if err != nil {
			return exit.AsUsage(err)
		}
		o.Accepted = b.Accepted
	}
	if o.NoPreflight && o.PreflightBaseline != "" {
		return exit.Usagef("drop one of them", "--preflight-baseline has no effect with --no-preflight")
	}
	if d := drains(o.Command); len(d.nodes) == 1 && d.selector == "" {
		o.Drains = d.nodes[0]
	}
	return nil
}
