package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/correlate/quantity"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/timeline"
	"lapse/watcher"
)

// This file chooses the Services of a run that names none: --on-node, -A and --selector.

const (
	// DefaultTotalRate is the requests per second to all judged targets together, where Services are chosen and no
	// rate is given. With 500/s to Pods' own addresses and 100/s of control that is 0.08 core at 48 µs per request;
	// the rest of a core is for watching and judging. 100 Services get 5/s for each of new and reused.
	DefaultTotalRate = 1000
	// leastRate is the smallest share of --total-rate for a judged target, in requests per second.
	leastRate = 1
	// MostPredicted is the largest number of chosen Services for which preflight runs. Each takes about ten requests
	// to the API server.
	MostPredicted = 10
)

// A ChosenService is a Service that the run chose, and that can be measured.
type ChosenService struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Scheme    string `json:"scheme,omitzero"` // what it speaks; empty: what --scheme says
}

// ChoiceHint shows how Services are chosen.
const ChoiceHint = "as in `lapse run --on-node node1 -- kubectl drain node1 --ignore-daemonsets`, " +
	"or `lapse run -A --selector team=blue --duration 5m`"

// Chooses reports whether Services are chosen, not named.
func (s *Spec) Chooses() bool { return s.OnNode != "" || s.AllNamespaces || s.Selector != "" }

// checkChoice reads --on-node, -A and --selector, as far as that can be done without the cluster.
func checkChoice(o *Options) error {
	given := o.ChoiceText()
	switch {
	case len(o.Targets) > 0:
		return exit.Usagef("drop one of them: "+given+" finds the Services to measure",
			"both %s and a named target, %s", given, o.Targets[0])
	case o.AgentListen != "" && len(o.Chosen) == 0:
		return exit.Usagef("name the Services, as in `run svc/web`",
			"%s: Services are chosen on the workstation, and a Job that was written by hand has none", given)
	case o.OnNode != "" && o.AllNamespaces:
		return exit.Usagef("drop -A: --on-node looks in every namespace, unless -n names one", "both --on-node and -A")
	case o.AgentListen == "" && o.AllNamespaces && o.Kube.Namespace != "":
		return exit.Usagef("drop one of them; -n with --selector measures some Services of one namespace",
			"both -A and -n %s", o.Kube.Namespace)
	case o.Watch != "":
		return exit.Usagef("drop --watch: chosen Services are watched as well as measured",
			"both %s and --watch %s", given, o.Watch)
	case o.Hammer != "":
		return exit.Usagef("name the Service to load, and measure that",
			"--hammer loads one Service, and %s chooses several", given)
	}
	o.OnNode = strings.TrimPrefix(o.OnNode, "node/")
	if o.OnNode != "" && len(validation.IsDNS1123Subdomain(o.OnNode)) > 0 {
		return exit.Usagef("`kubectl get nodes` lists them", "--on-node %q is no name of a node", o.OnNode)
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return exit.Usagef("as in --selector app=web", "selector %q: %w", o.Selector, err)
	}
	o.Parsed = o.ChosenTargets()
	return nil
}

// ChoiceText returns the flags that choose the Services.
func (s *Spec) ChoiceText() string {
	var flags []string
	if s.OnNode != "" {
		flags = append(flags, "--on-node "+s.OnNode)
	}
	if s.AllNamespaces {
		flags = append(flags, "-A")
	}
	if s.Selector != "" {
		flags = append(flags, "--selector "+s.Selector)
	}
	return strings.Join(flags, " ")
}

// ChosenTargets returns the targets of the chosen Services. Before these are known, one target stands for them, so
// that flags can be checked.
func (s *Spec) ChosenTargets() []Target {
	if len(s.Chosen) == 0 {
		return []Target{{Service: "SERVICE", Path: "/"}}
	}
	namespaces := s.ChosenNamespaces()
	targets := make([]Target, len(s.Chosen))
	for i, c := range s.Chosen {
		targets[i] = Target{Service: c.Name, Namespace: c.Namespace, scheme: c.Scheme, Path: "/", Label: c.Name}
		if len(namespaces) > 1 {
			targets[i].Label = c.Namespace + "/" + c.Name
		}
	}
	return targets
}

// ChosenNamespaces returns the namespaces of the chosen Services, each once.
func (s *Spec) ChosenNamespaces() (names []string) {
	for _, c := range s.Chosen {
		names = append(names, c.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OtherNamespaces returns the namespaces that the Job must read one by one, in addition to its own.
func (s *Spec) OtherNamespaces(own string) []string {
	if s.AllNamespaces {
		return nil
	}
	return slices.DeleteFunc(s.ChosenNamespaces(), func(name string) bool { return name == own })
}

// Scope returns the namespace in which Services are chosen; empty for all.
func (o *Options) Scope(namespace string) string {
	if o.AllNamespaces || o.OnNode != "" && o.Kube.Namespace == "" {
		return metav1.NamespaceAll
	}
	return namespace
}

// NothingToMeasure says why none of the Services can be measured.
func NothingToMeasure(aside []timeline.SetAside) string {
	if len(aside) == 0 {
		return "no Service is meant"
	}
	return "none of the Services can be measured: " + strings.Join(report.AsideLines(aside), "; ")
}

// PrintChoice prints the number of measured Services, their rate, and the Services that are set aside.
func (s *Spec) PrintChoice(say func(string)) {
	if !s.Chooses() {
		return
	}
	services := quantity.Count(len(s.Chosen), "Service")
	namespaces := quantity.Count(len(s.ChosenNamespaces()), "namespace")
	say(fmt.Sprintf("measuring %s in %s, %s requests per second for each of %s",
		services, namespaces, quantity.Number(s.Rate), strings.Join(s.Kinds, ", ")))
	for _, line := range report.AsideLines(s.SetAside) {
		say("set aside " + line)
	}
}

// SchemeFor returns what a chosen Service is assumed to speak on its port: what its appProtocol says, else HTTP where
// the port's name or number is one of HTTP's, else bare TCP. It returns "" if --scheme decides.
// https://kubernetes.io/docs/concepts/services-networking/service/#application-protocol
func (o *Options) SchemeFor(info watcher.Info) string {
	if o.WasGiven("scheme") {
		return ""
	}
	if strings.EqualFold(info.AppProtocol, "kubernetes.io/h2c") {
		return "h2c"
	}
	named, _, _ := strings.Cut(cmp.Or(info.AppProtocol, info.PortName), "-")
	usual := slices.Contains([]int32{80, 8000, 8080}, info.Port)
	switch {
	case strings.EqualFold(named, "https"):
		return "https"
	case strings.EqualFold(named, "http"), named == "" && usual, named == "web":
		return "http"
	case named == "" && (info.Port == 443 || info.Port == 8443):
		return "https"
	}
	return "tcp"
}

// ShareRate gives each judged target its part of --total-rate, and what follows from that.
func ShareRate(o *Options) error {
	if o.carried || o.Chooses() && len(o.Chosen) == 0 {
		return nil
	}
	targets := 0
	for _, s := range o.Parsed {
		targets += len(ratedKindsOf(o, s))
	}
	switch {
	case targets == 0:
		return nil
	case o.TotalRate > 0:
		o.Rate = o.TotalRate / float64(targets)
	case o.Chooses() && !o.WasGiven("rate"):
		o.Rate = min(o.Rate, DefaultTotalRate/float64(targets))
	default:
		return nil
	}
	if o.Rate < leastRate {
		advice := "give --total-rate " + strconv.Itoa(leastRate*targets) + " or more"
		if o.Chooses() {
			advice += ", or choose fewer Services with --selector or -n"
		}
		return exit.Usagef(advice, "%d targets would get %s requests per second each, and need %d: "+
			"an outage shorter than the time between two requests may go unseen",
			targets, quantity.Number(o.Rate), leastRate)
	}
	if !o.WasGiven("direct-rate") {
		o.DirectRate = o.Rate
	}
	if !o.WasGiven("baseline") {
		o.Baseline = max(o.Baseline, o.TwoRequests(1))
	}
	return nil
}

// checkTotalRate refuses a --total-rate that is not greater than 0, and one together with --rate.
func checkTotalRate(o *Options) error {
	switch {
	case !o.WasGiven("total-rate"):
		return nil
	case !(o.TotalRate > 0) || math.IsInf(o.TotalRate, 0):
		return exit.Usagef("as in --total-rate 1000", "total-rate %v: must be greater than 0", o.TotalRate)
	case slices.ContainsFunc(o.Parsed, func(s Target) bool { return s.Routes != "" }):
		return exit.Usagef("give --rate, which each of them gets",
			"--total-rate with ?route=: how many addresses share it is known only later")
	case o.WasGiven("rate"):
		return exit.Usagef("drop one of them: --rate is of each target, --total-rate is shared by all",
			"both --rate and --total-rate")
	}
	return nil
}
