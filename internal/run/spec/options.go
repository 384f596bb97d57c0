package spec

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/internal/run/access"
	"lapse/internal/run/saved"
	"lapse/internal/run/signs"
	"lapse/loadgen"
	"lapse/timeline"
)

// Options are a run's [Spec], and what concerns only the machine that starts the run.
type Options struct {
	Spec
	Kube access.Kube

	Command []string // to wrap, and to run here

	Out          string // directory for the run's files
	saved.Output        // how the result is printed on standard output
	Dashboard    string // address to serve the page on
	Metrics      string // address to serve metrics on
	NoCapture    bool
	From         string // where to measure from: all nodes, how many, which, or which labels; Probers follow from it
	Changes      int    // how often endpoints of the run's own Service are replaced; 0: there is no such Service
	AtOnce       int    // how many of them every second change replaces
	Here         bool   // the requests to a Service are sent from this machine

	// Of the Job, for the API server.
	Image           string
	ImageFrom       string // what Image was given by, for people
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
	Own      []signs.Mark // --sign
	observed float64      // --min-coverage

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

// WasGiven reports whether a flag was given.
func (o *Options) WasGiven(flag string) bool {
	_, given := o.Given[flag]
	return given
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

// CanaryPods returns how many Pods the run's own Service has: one stays whatever a change deletes.
func (o *Options) CanaryPods() int {
	if o.Changes == 0 {
		return 0
	}
	return o.AtOnce + 1
}

// InCluster reports whether a Job sends the requests.
func (o *Options) InCluster() bool { return o.CountServices() > 0 && !o.Here }

// AnyAnswer is the good statuses of a chosen Service: its paths, and who may ask for them, are not known.
const AnyAnswer = "200-499"

// lastsAsCommand reports whether the run lasts as long as a command, here or on the workstation.
func lastsAsCommand(o *Options) bool { return len(o.Command) > 0 || o.ExternalCommand }

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

// FirstRateFrom returns the requests per second that each of n places sends to a target in the baseline.
func (s *Spec) FirstRateFrom(n int) float64 {
	rate := s.RateFrom(n)
	if s.Armed {
		rate = min(rate, s.IdleRate/float64(s.Sharers(n)))
	}
	return rate
}

// Sharers returns by how many of n places a rate is shared.
func (s *Spec) Sharers(n int) int {
	if s.NodeRate != 0 {
		return 1
	}
	return n
}

// TwoRequests returns how long each of n places takes for two requests to a target in the baseline, at most an hour.
// After that, each target was asked and has had the time to answer.
func (s *Spec) TwoRequests(n int) time.Duration {
	return time.Duration(min(2/s.FirstRateFrom(n), 3600) * float64(time.Second))
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

// NewID returns the name of a new run, of its directory and of its Job. It is a valid Kubernetes name, and unique even
// where a drain begins a hundred runs in one second: two are alike once in 200,000 times.
func NewID() string {
	return "lapse-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6])
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
