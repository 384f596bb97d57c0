package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/deploy"
	"lapse/loadgen"
	"lapse/report"
	"lapse/run"
	"lapse/run/judging"
	"lapse/run/saved"
)

// runFlags gives cmd the flags of a run, which fill in o.
func runFlags(o *run.Options, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.Changed, o.Given = f.Changed, f.Visit
	o.CheckFlags = func() error { return checkPlace(o) }
	kubeFlags(&o.Kube, f)
	f.StringVar(&o.OnNode, "on-node", "", "instead of TARGETs, measure every Service with ready endpoints on this `NODE`: in all namespaces, or in that of -n")
	f.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "instead of TARGETs, measure every Service of the cluster")
	f.StringVar(&o.Selector, "selector", "", "instead of TARGETs, measure the Services with these `LABELS`, of the namespace or as --on-node and -A say")
	f.Float64Var(&o.Rate, "rate", defaultRate, "requests per second, for each of new and reused")
	f.Float64Var(&o.TotalRate, "total-rate", 0, fmt.Sprintf("instead of --rate, requests per second in all, shared evenly by new and reused of every target (default with --on-node, -A and --selector: %d, and at most %d each)", run.DefaultTotalRate, defaultRate))
	f.DurationVar(&o.Duration, "duration", 0, "how long to measure after the baseline, where no command is wrapped")
	f.DurationVar(&o.Baseline, "baseline", 0, "healthy baseline before the command; 0 skips it and the health check (default 5s with a command, else 1s; at least as long as 2 requests take); with --from it goes on until each node has asked each target")
	f.DurationVar(&o.Settle, "settle", 0, "how long to measure after the command (default 10s with a command, else 0)")
	f.DurationVar(&o.Timeout, "timeout", loadgen.DefaultTimeout, "per-request timeout")
	f.IntVar(&o.Connections, "connections", loadgen.DefaultConnections, "persistent connections of the reused target")
	f.IntVar(&o.Held, "held", 0, fmt.Sprintf("keep this many connections open for the whole run, and report each cut and reconnect: adds held to --target (default with --target held: %d)", run.DefaultHeld))
	f.DurationVar(&o.Heartbeat, "heartbeat", 5*time.Second, "how often something is asked on each held connection: an HTTP request, a WebSocket ping, an echo")
	f.DurationVar(&o.Join, "join", time.Second, "merge failures closer together than this into one window")
	f.DurationVar(&o.Slow, "slow", 0, slowUsage+" (default: 500ms or 3 times what 9 of 10 answers took at the start, whichever is longer)")
	f.DurationVar(&o.Resolution, "resolution", 0, resolutionUsage+" (default 50ms or 10 intervals, whichever is longer)")
	f.StringVar(&o.Coverage, "min-coverage", "99%", minCoverageUsage)
	f.StringVar(&o.NodeCoverage, "min-node-coverage", "", minNodeCoverageUsage+" (default: --min-coverage)")
	f.StringSliceVar(&o.Kinds, "target", []string{"new", "reused"}, "which kinds of connection to measure: new, reused, held")
	f.Float64Var(&o.DirectRate, "direct-rate", 0, "total rate of direct probes, shared by all Pod IPs (default: --rate; 0: none)")
	f.StringVar(&o.Pacing, "pacing", string(loadgen.Economical), "economical: sleep until each send time; precise: wake early and busy-wait (less jitter, more CPU)")
	f.StringArrayVar(&o.GateExprs, "fail-if", nil, "a gate `EXPR`, such as 'failed>0' or 'downtime.total>500ms' (repeatable)")
	f.StringVar(&o.Out, "out", "", "directory for the recording and timeline.json (default runs/RUN)")
	outputFlags(&o.Output, f)
	f.StringVar(&o.Dashboard, "dashboard", "", "serve the live page here, such as 127.0.0.1:8080")
	f.BoolVar(&o.NoCapture, "no-capture", false, "pass the command's output through without marking it on the timeline")
	f.StringVar(&o.Scheme, "scheme", "http", "scheme for svc/ targets: "+loadgen.Schemes(""))
	f.StringVar(&o.CAFile, "ca-file", "", "PEM file of the authorities to trust for TLS")
	f.StringArrayVarP(&o.Headers, "header", "H", nil, "a request `HEADER`, 'Name: value' (repeatable)")
	f.StringArrayVar(&o.HeadersFrom, "header-from", nil, "a `SECRET` of the Service's namespace, secret/NAME, each key of which names a request header, read by the Job (repeatable)")
	f.StringVar(&o.Method, "method", http.MethodGet, "request method")
	f.StringVar(&o.Host, "host", "", "Host header and TLS server name, where they differ from the target's")
	f.StringVar(&o.ExpectStatus, "expect-status", "", "status codes that count as success, such as 200,300-399 (default 200-399; with --on-node, -A and --selector 200-499)")
	f.StringVar(&o.ExpectBody, "expect-body", "", "text a good reply's body contains; of grpc and grpcs: what its message contains; of tcp, tls and udp: what a good reply begins with, if not with the echo")
	f.StringVar(&o.Echo, "echo", "", `tcp, tls and udp: a `+"`TEXT`"+` to send and to await back, such as ping or 'PING\r\n' (default: of tcp and tls connecting is enough); over udp {id} in it is different in each request`)
	f.StringVar(&o.EchoFrom, "echo-from", "", "a `SECRET` of the Service's namespace, secret/NAME, whose key echo holds the TEXT of --echo, read by the Job")
	f.StringVar(&o.GRPCMethod, "grpc-method", "", "grpc and grpcs: a unary `METHOD` to call, such as shop.Cart/Get (default: the standard health check)")
	f.StringVar(&o.GRPCDescriptors, "grpc-descriptors", "", "a `FILE` with the descriptor set that has --grpc-method, of protoc --include_imports --descriptor_set_out=FILE")
	f.StringVar(&o.GRPCMessage, "grpc-message", "", "what --grpc-method is called with, in `JSON` (default: the empty message)")
	f.StringVar(&o.BackendHeader, "backend-header", loadgen.DefaultBackendHeader, "response header that names the Pod that answered")
	f.StringVar(&o.Hammer, "hammer", "", "background load on the first TARGET beside the probes, in hey's flags: '-c 50 -q 20'")
	f.StringVar(&o.Watch, "watch", "", "also watch this Service, svc/NAME: with a URL, through the kubeconfig")
	f.BoolVar(&o.NoPreflight, "no-preflight", false, "do not run preflight before the run; otherwise the report says which of its predictions came true")
	f.StringVar(&o.PreflightBaseline, "preflight-baseline", "", "a `FILE` of findings of preflight that are accepted, with reasons: they are predictions all the same")
	f.BoolVar(&o.Here, "here", false, "send the requests to a svc/ target from this machine, not from a Job in the cluster")
	f.StringVar(&o.From, "from", "", "measure from `NODES`: all, how many, their names, or a label selector; they share --rate (default: from the Job's node alone). With outside among them, as in all,outside, this machine measures too, by the Service's address outside of the cluster")
	f.DurationVar(&o.ProberWait, "wait", time.Minute, "how long to wait until the Job has created its Pod, and for the probers of --from; the run starts without probers that are not ready then")
	f.StringVar(&o.Image, "image", image, "image of the Job that measures in the cluster")
	f.StringVar(&o.ImagePullSecret, "image-pull-secret", "", "Secret to pull the image with")
	f.StringVar(&o.CPU, "cpu", deploy.DefaultCPU, "CPU the Job's Pod asks for: its share of a busy node; there is no limit")
	f.StringSliceVar(&o.AvoidNodes, "avoid-node", nil, "nodes the Job must not run on (default: those a wrapped kubectl drain, cordon, taint or delete names)")
	f.DurationVar(&o.MaxDuration, "max-duration", 2*time.Hour, "the Job ends itself after this time")
	f.DurationVar(&o.WorkstationTimeout, "workstation-timeout", 5*time.Minute, "the Job ends the run of a command, and keeps its result, if it receives nothing from this machine for this long (0: only --max-duration does)")
	f.DurationVar(&o.Hold, "hold", 10*time.Minute, "how long the Job keeps its result for retrieval")
}

// outputFlags gives f the flags that say how a result is printed.
func outputFlags(as *saved.Output, f *pflag.FlagSet) {
	f.StringVarP(&as.Format, "output", "o", "table", "result on standard output: "+judging.FormatNames(report.Formats))
	f.BoolVarP(&as.Verbose, "verbose", "v", false, "show each window of an incident, with its evidence and rivals")
}

// kubeFlags gives f the flags that say which cluster is meant, kubectl's own.
func kubeFlags(o *run.Kube, f *pflag.FlagSet) {
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace (default: the kubeconfig's)")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: as kubectl: $KUBECONFIG, ~/.kube/config, the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig")
}

const (
	slowUsage        = "successes slower than this form slow windows"
	resolutionUsage  = "a gap between two requests that is no longer counts as observed"
	minCoverageUsage = "share of the time that must have been observed for a run to pass"

	minNodeCoverageUsage = "share of the time that each node of --from must have observed for a run to pass; 0 accepts nodes that observed nothing"
)
