package cli

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/deploy"
	"lapse/internal/report"
	"lapse/internal/run/access"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen"
)

// A runFlag is a flag of `lapse run` and `lapse gen`, with all that this program knows about it.
type runFlag struct {
	name    string
	short   string // one letter; empty: there is none
	bind    binding
	usage   string
	at      place  // where it has an effect
	instead string // what to do where it has none; empty: drop it
}

// A binding gives f a flag that fills in a field.
type binding func(f *pflag.FlagSet, d runFlag)

func text(field *string, def string) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.StringVarP(field, d.name, d.short, def, d.usage) }
}

func number(field *float64, def float64) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.Float64VarP(field, d.name, d.short, def, d.usage) }
}

func whole(field *int, def int) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.IntVarP(field, d.name, d.short, def, d.usage) }
}

func length(field *time.Duration, def time.Duration) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.DurationVarP(field, d.name, d.short, def, d.usage) }
}

func onOff(field *bool) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.BoolVarP(field, d.name, d.short, false, d.usage) }
}

// several binds a flag that can be repeated.
func several(field *[]string) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.StringArrayVarP(field, d.name, d.short, nil, d.usage) }
}

// list binds a flag whose value is separated by commas.
func list(field *[]string, def []string) binding {
	return func(f *pflag.FlagSet, d runFlag) { f.StringSliceVarP(field, d.name, d.short, def, d.usage) }
}

// runFlags gives cmd the flags of a run, which fill in o.
func runFlags(o *spec.Options, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	addFlags(f, runTable(o))
}

// Options returns the options of `lapse run` with flags, which are not yet checked.
func Options(flags ...string) (*spec.Options, error) {
	var o spec.Options
	cmd := &cobra.Command{}
	runFlags(&o, cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		return nil, err
	}
	o.Env, o.Given = spec.EnvOf(os.Environ()), given(cmd.Flags())
	return &o, nil
}

func addFlags(f *pflag.FlagSet, flags []runFlag) {
	for _, d := range flags {
		d.bind(f, d)
	}
}

// given returns the flags that were given, and whether each has another value than its default.
func given(f *pflag.FlagSet) map[string]bool {
	flags := map[string]bool{}
	f.Visit(func(flag *pflag.Flag) { flags[flag.Name] = flag.Value.String() != flag.DefValue })
	return flags
}

// runTable returns the flags of a run, which fill in o, in the order of the help.
func runTable(o *spec.Options) []runFlag {
	flags := kubeTable(&o.Kube)
	flags = append(flags, []runFlag{
		{
			name: "on-node", bind: text(&o.OnNode, ""), at: inJob,
			usage: "instead of TARGETs, measure every Service with ready endpoints on this `NODE`: in all " +
				"namespaces, or in that of -n",
			instead: chosenInJob,
		},
		{
			name: "all-namespaces", short: "A", bind: onOff(&o.AllNamespaces), at: inJob,
			usage:   "instead of TARGETs, measure every Service of the cluster",
			instead: chosenInJob,
		},
		{
			name: "selector", bind: text(&o.Selector, ""), at: inJob,
			usage: "instead of TARGETs, measure the Services with these `LABELS`, of the namespace or as " +
				"--on-node and -A say",
			instead: chosenInJob,
		},
		{
			name: "rate", bind: number(&o.Rate, defaultRate), at: always,
			usage: "requests per second, for each of new and reused",
		},
		{
			name: "total-rate", bind: number(&o.TotalRate, 0), at: always,
			usage: fmt.Sprintf("instead of --rate, requests per second in all, shared evenly by new and reused of "+
				"every target (default with --on-node, -A and --selector: %d, and at most %d each)",
				spec.DefaultTotalRate, defaultRate),
		},
		{
			name: "duration", bind: length(&o.Duration, 0), at: always,
			usage: "how long to measure after the baseline, where no command is wrapped",
		},
		{
			name: "armed", bind: onOff(&o.Armed), at: always,
			usage: "wait for the first sign of a disruption, begin up to 2m before it, and end when nothing has " +
				"changed for --settle (--max-duration: 24h)",
		},
		{
			name: "idle-rate", bind: number(&o.IdleRate, 0), at: always,
			usage: "requests per second while --armed waits, for each of new and reused (default 5)",
		},
		{
			name: "sign", bind: several(&o.Signs), at: always,
			usage: "a `SIGN` on nodes that --armed heeds too, KIND=KEY[=VALUE]:CLASS[:ACTOR], such as " +
				"taint=example.com/retire:S:our-operator. KIND is taint, label, annotation or condition; CLASS is P " +
				"(planned, maybe hours before), S (seconds before) or 0 (it begins the run) (repeatable)",
		},
		{
			name: "baseline", bind: length(&o.Baseline, 0), at: always,
			usage: "healthy baseline before the command; 0 skips it and the health check (default 5s with a " +
				"command, else 1s; at least as long as 2 requests take); with --from it goes on until each " +
				"node has asked each target",
		},
		{
			name: "settle", bind: length(&o.Settle, 0), at: always,
			usage: "how long to measure after the command, or the last change with --armed (default 10s with these, " +
				"else 0)",
		},
		{
			name: "timeout", bind: length(&o.Timeout, loadgen.DefaultTimeout), at: always,
			usage: "per-request timeout",
		},
		{
			name: "connections", bind: whole(&o.Connections, loadgen.DefaultConnections), at: always,
			usage: "persistent connections of the reused target",
		},
		{
			name: "held", bind: whole(&o.Held, 0), at: always,
			usage: fmt.Sprintf("keep this many connections open for the whole run, and report each cut and "+
				"reconnect: adds held to --target (default with --target held: %d)", spec.DefaultHeld),
		},
		{
			name: "heartbeat", bind: length(&o.Heartbeat, 5*time.Second), at: always,
			usage: "how often something is asked on each held connection: an HTTP request, a WebSocket ping, an " +
				"echo",
		},
		{
			name: "join", bind: length(&o.Join, time.Second), at: always,
			usage: "merge failures closer together than this into one window",
		},
		{
			name: "slow", bind: length(&o.Slow, 0), at: always,
			usage: slowUsage + " (default: 500ms or 3 times what 9 of 10 answers took at the start, whichever is " +
				"longer)",
		},
		{
			name: "resolution", bind: length(&o.Resolution, 0), at: always,
			usage: resolutionUsage + " (default 50ms or 10 intervals, whichever is longer)",
		},
		{
			name: "min-coverage", bind: text(&o.Coverage, "99%"), at: always,
			usage: minCoverageUsage,
		},
		{
			name: "min-node-coverage", bind: text(&o.NodeCoverage, ""), at: ofJob,
			usage: minNodeCoverageUsage + " (default: --min-coverage)",
		},
		{
			name: "target", bind: list(&o.Kinds, []string{"new", "reused"}), at: always,
			usage: "which kinds of connection to measure: new, reused, held",
		},
		{
			name: "direct-rate", bind: number(&o.DirectRate, 0), at: ofCluster,
			usage:   "total rate of direct probes, shared by all Pod IPs (default: --rate; 0: none)",
			instead: "Pods are measured at their own addresses where their Service is known: add --watch svc/NAME",
		},
		{
			name: "pacing", bind: text(&o.Pacing, string(loadgen.Economical)), at: always,
			usage: "economical: sleep until each send time; precise: wake early and busy-wait (less jitter, " +
				"more CPU)",
		},
		{
			name: "fail-if", bind: several(&o.GateExprs), at: always,
			usage: "a gate `EXPR`, such as 'failed>0' or 'downtime.total>500ms' (repeatable)",
		},
		{
			name: "out", bind: text(&o.Out, ""), at: attended,
			usage:   "directory for the recording and timeline.json (default runs/RUN)",
			instead: "`lapse retrieve RUN -n NAMESPACE --out DIR` fetches the result",
		},
	}...)
	flags = append(flags, outputTable(&o.Output)...)
	return append(flags, []runFlag{
		{
			name: "dashboard", bind: text(&o.Dashboard, ""), at: attended,
			usage:   "serve the live page here, such as 127.0.0.1:8080",
			instead: "`lapse attach RUN -n NAMESPACE --dashboard ADDR` serves the page",
		},
		{
			name: "metrics", bind: text(&o.Metrics, ""), at: attended,
			usage:   "serve metrics for Prometheus here, such as 127.0.0.1:9117",
			instead: "metrics are served where `lapse run` is started",
		},
		{
			name: "no-capture", bind: onOff(&o.NoCapture), at: attended,
			usage:   "pass the command's output through without marking it on the timeline",
			instead: "it is for a command after --",
		},
		{
			name: "scheme", bind: text(&o.Scheme, "http"), at: ofCluster,
			usage:   "scheme for svc/ targets: " + loadgen.Schemes(""),
			instead: "a URL has its own scheme",
		},
		{
			name: "ca-file", bind: text(&o.CAFile, ""), at: always,
			usage: "PEM file of the authorities to trust for TLS",
		},
		{
			name: "header", short: "H", bind: several(&o.Headers), at: attended,
			usage:   "a request `HEADER`, 'Name: value' (repeatable)",
			instead: spec.SecretHint,
		},
		{
			name: "header-from", bind: several(&o.HeadersFrom), at: ofJob,
			usage: "a `SECRET` of the Service's namespace, secret/NAME, each key of which names a request " +
				"header, read by the Job (repeatable)",
			instead: "give the header itself with --header: it stays on this machine",
		},
		{
			name: "method", bind: text(&o.Method, http.MethodGet), at: always,
			usage: "request method",
		},
		{
			name: "host", bind: text(&o.Host, ""), at: always,
			usage: "Host header and TLS server name, where they differ from the target's",
		},
		{
			name: "expect-status", bind: text(&o.ExpectStatus, ""), at: always,
			usage: "status codes that count as success, such as 200,300-399 (default 200-399; with --on-node, " +
				"-A and --selector 200-499)",
		},
		{
			name: "expect-body", bind: text(&o.ExpectBody, ""), at: always,
			usage: "text a good reply's body contains; of grpc and grpcs: what its message contains; of tcp, " +
				"tls and udp: what a good reply begins with, if not with the echo",
		},
		{
			name: "echo", bind: text(&o.Echo, ""), at: attended,
			usage: "tcp, tls and udp: a `TEXT` to send and to await back, such as ping or 'PING\\r\\n' (default: of " +
				"tcp and tls connecting is enough); over udp {id} in it is different in each request",
			instead: "put the text into the key \"echo\" of a Secret in the Service's namespace, and give " +
				"--echo-from secret/NAME",
		},
		{
			name: "echo-from", bind: text(&o.EchoFrom, ""), at: ofJob,
			usage: "a `SECRET` of the Service's namespace, secret/NAME, whose key echo holds the TEXT of " +
				"--echo, read by the Job",
			instead: "give the text itself with --echo: it stays on this machine",
		},
		{
			name: "grpc-method", bind: text(&o.GRPCMethod, ""), at: always,
			usage: "grpc and grpcs: a unary `METHOD` to call, such as shop.Cart/Get (default: the standard " +
				"health check)",
		},
		{
			name: "grpc-descriptors", bind: text(&o.GRPCDescriptors, ""), at: always,
			usage: "a `FILE` with the descriptor set that has --grpc-method, of protoc --include_imports " +
				"--descriptor_set_out=FILE",
		},
		{
			name: "grpc-message", bind: text(&o.GRPCMessage, ""), at: attended,
			usage: "what --grpc-method is called with, in `JSON` (default: the empty message)",
			instead: "name a method that can be called with the empty message, or measure from this machine or by " +
				"`lapse run`",
		},
		{
			name: "backend-header", bind: text(&o.BackendHeader, loadgen.DefaultBackendHeader), at: always,
			usage: "response header that names the Pod that answered",
		},
		{
			name: "hammer", bind: text(&o.Hammer, ""), at: always,
			usage: "background load on the first TARGET beside the probes, in hey's flags: '-c 50 -q 20'",
		},
		{
			name: "watch", bind: text(&o.Watch, ""), at: always,
			usage: "also watch this Service, svc/NAME: with a URL, through the kubeconfig",
		},
		{
			name: "control-plane", bind: onOff(&o.ControlPlane), at: ofCluster,
			usage:   "also ask each API server, and show when it does not answer",
			instead: "add --watch svc/NAME to ask the cluster too",
		},
		{
			name: "no-preflight", bind: onOff(&o.NoPreflight), at: ofCluster,
			usage:   "do not run preflight before the run",
			instead: "preflight is of a Service: without one nothing is predicted",
		},
		{
			name: "preflight-baseline", bind: text(&o.PreflightBaseline, ""), at: ofCluster,
			usage: "a `FILE` of findings of preflight that are accepted, with reasons: they are predictions all " +
				"the same",
			instead: "preflight is of a Service: add --watch svc/NAME",
		},
		{
			name: "here", bind: onOff(&o.Here), at: fromHere,
			usage:   "send the requests to a svc/ target from this machine, not from a Job in the cluster",
			instead: "drop it: `lapse gen` prints a Job",
		},
		{
			name: "from", bind: text(&o.From, ""), at: ofJob,
			usage: "measure from `NODES`: all, how many, their names, or a label selector; they share --rate " +
				"(default: from the Job's node alone). With outside among them, as in all,outside, this " +
				"machine measures too, by the Service's address outside of the cluster",
		},
		{
			name: "wait", bind: length(&o.ProberWait, time.Minute), at: ofJob,
			usage: "how long to wait until the Job's Pod is created and has a node, and for the probers of --from; " +
				"the run starts without probers that are not ready then",
		},
		{
			name: "image", bind: text(&o.Image, ""), at: ofJob,
			usage: "image of the Job that measures in the cluster (default: " + defaultImage + ")",
		},
		{
			name: "image-pull-secret", bind: text(&o.ImagePullSecret, ""), at: ofJob,
			usage: "Secret to pull the image with",
		},
		{
			name: "cpu", bind: text(&o.CPU, deploy.DefaultCPU), at: ofJob,
			usage: "CPU the Job's Pod asks for: its share of a busy node; there is no limit",
		},
		{
			name: "avoid-node", bind: list(&o.AvoidNodes, nil), at: ofJob,
			usage: "nodes the Job must not run on (default: those a wrapped kubectl drain, cordon, taint or " +
				"delete names)",
		},
		{
			name: "max-duration", bind: length(&o.MaxDuration, 2*time.Hour), at: ofJob,
			usage: "the Job ends itself after this time",
		},
		{
			name: "workstation-timeout", bind: length(&o.WorkstationTimeout, 5*time.Minute), at: inJob,
			usage: "the Job ends the run of a command, and keeps its result, if it receives nothing from this " +
				"machine for this long (0: only --max-duration does)",
			instead: "only the run of a command waits for the workstation that runs it",
		},
		{
			name: "hold", bind: length(&o.Hold, 10*time.Minute), at: ofJob,
			usage: "how long the Job keeps its result for retrieval",
		},
	}...)
}

// outputFlags gives f the flags that say how a result is printed.
func outputFlags(as *saved.Output, f *pflag.FlagSet) { addFlags(f, outputTable(as)) }

func outputTable(as *saved.Output) []runFlag {
	return []runFlag{
		{
			name: "output", short: "o", bind: text(&as.Format, "table"), at: attended,
			usage:   "result on standard output: " + judging.FormatNames(report.Formats),
			instead: "`lapse retrieve RUN -n NAMESPACE -o FORMAT` prints the result",
		},
		{
			name: "verbose", short: "v", bind: onOff(&as.Verbose), at: attended,
			usage:   "show each window of an incident, with its evidence and rivals, and every figure",
			instead: "`lapse retrieve RUN -n NAMESPACE -v` prints the result",
		},
		{
			name: "quiet", short: "q", bind: onOff(&as.Quiet), at: attended,
			usage:   "show the verdict alone",
			instead: "`lapse retrieve RUN -n NAMESPACE -q` prints the result",
		},
		{
			name: "color", bind: text(&as.Color, terminal.ColorAuto), at: attended,
			usage:   "colours of the summary: auto, always or never (auto heeds NO_COLOR and CLICOLOR_FORCE)",
			instead: "`lapse retrieve RUN -n NAMESPACE --color always` prints the result",
		},
	}
}

// kubeFlags gives f the flags that say which cluster is meant, kubectl's own.
func kubeFlags(o *access.Kube, f *pflag.FlagSet) { addFlags(f, kubeTable(o)) }

func kubeTable(o *access.Kube) []runFlag {
	return []runFlag{
		{
			name: "namespace", short: "n", bind: text(&o.Namespace, ""), at: ofCluster,
			usage:   "namespace (default: the kubeconfig's)",
			instead: "add --watch svc/NAME to ask the cluster too",
		},
		{
			name: "kubeconfig", bind: text(&o.Kubeconfig, ""), at: ofCluster,
			usage:   "kubeconfig file (default: as kubectl: $KUBECONFIG, ~/.kube/config, the Pod's own)",
			instead: "add --watch svc/NAME to ask the cluster too",
		},
		{
			name: "context", bind: text(&o.Context, ""), at: ofCluster,
			usage:   "context of the kubeconfig",
			instead: "add --watch svc/NAME to ask the cluster too",
		},
	}
}

const (
	slowUsage        = "successes slower than this form slow windows"
	resolutionUsage  = "a gap between two requests that is no longer counts as observed"
	minCoverageUsage = "share of the time that must have been observed for a run to pass"

	minNodeCoverageUsage = "share of the time that each node of --from must have observed for a run to pass; " +
		"0 accepts nodes that observed nothing"
)
