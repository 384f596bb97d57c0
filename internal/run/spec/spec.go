// Package spec is what a run is asked to do: the Spec that a Job gets and a recording keeps, the options of the
// machine that starts the run, and the checks of both, which ask no cluster.
package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/deploy"
	"lapse/internal/preflight"
	"lapse/internal/run/exit"
	"lapse/internal/run/mask"
	"lapse/internal/run/plane"
	"lapse/loadgen/hey"
	"lapse/timeline"
)

// A Spec is what a run is asked to do: what to send where, for how long, and how to judge it. It is made from flags
// once, where the user is, and checked there. A Job gets it as one value, and the recording keeps it. What only
// concerns the workstation is in [Options].
//
// Its JSON hides secrets, wherever it is written: names of headers stay, values do not. [Spec.Secrets] returns what is
// hidden.
type Spec struct {
	Targets   []string `json:"targets"`            // TARGET arguments
	Namespace string   `json:"namespace,omitzero"` // of the Services; empty: the kubeconfig's
	Watch     string   `json:"watch,omitzero"`     // a Service that is only watched

	// OnNode is given instead of Targets: the Services with ready endpoints on this node.
	OnNode string `json:"onNode,omitzero"`
	// AllNamespaces is given instead of Targets: the Services of all namespaces.
	AllNamespaces bool                `json:"allNamespaces,omitzero"`
	Selector      string              `json:"selector,omitzero"`  // of the Services' labels
	Chosen        []ChosenService     `json:"chosen,omitempty"`   // the Services that these choose
	SetAside      []timeline.SetAside `json:"setAside,omitempty"` // chosen, and cannot be measured

	NoPreflight bool                   `json:"noPreflight,omitzero"` // nothing is predicted
	Accepted    []preflight.Acceptance `json:"accepted,omitempty"`   // predictions that somebody has accepted
	Drains      string                 `json:"drains,omitzero"`      // the node that the command names to drain

	Probers    []string      `json:"probers,omitempty"`   // the nodes to measure from; none: from the Job's own alone
	ProberWait time.Duration `json:"proberWait,omitzero"` // how long the run waits for all of them to measure

	// ProberNodes says which nodes Probers are, where the Job finds that out when it starts: all, names or a label
	// selector.
	ProberNodes string `json:"proberNodes,omitzero"`

	// Outside makes the workstation measure as well, by the Services' addresses outside of the cluster.
	Outside bool `json:"outside,omitzero"`

	Cluster timeline.Cluster `json:"cluster,omitzero"` // as far as the user may know it

	DNS *DNS `json:"dns,omitzero"` // which DNS servers are asked; absent: none

	ControlPlane bool `json:"controlPlane,omitzero"` // the API servers are asked as well
	// APIServers are their addresses, which the workstation finds; absent: the process that asks them finds them.
	APIServers *plane.Servers `json:"apiServers,omitzero"`

	// Rate is the requests per second to each target, for each of Kinds. Probers share it. 0 with NodeRate.
	Rate float64 `json:"rate"`
	// NodeRate is given instead of Rate in `lapse routes`: the requests per second from each of Probers.
	NodeRate float64 `json:"nodeRate,omitzero"`
	// TotalRate is the requests per second that all judged targets share: Rate follows from it.
	TotalRate   float64       `json:"totalRate,omitzero"`
	DirectRate  float64       `json:"directRate"` // requests per second for all Pods' own addresses together
	Pacing      string        `json:"pacing"`
	Kinds       []string      `json:"kinds"` // of connections: new, reused, held
	Connections int           `json:"connections"`
	Held        int           `json:"held,omitzero"`      // connections that each target keeps open
	Heartbeat   time.Duration `json:"heartbeat,omitzero"` // on each of them
	Timeout     time.Duration `json:"timeout"`
	Duration    time.Duration `json:"duration,omitzero"` // 0: as long as the command runs
	// Armed makes the run begin at the first sign of a disruption, and end when that is over. Until then each target
	// gets IdleRate requests per second, for each of Kinds.
	Armed    bool          `json:"armed,omitzero"`
	IdleRate float64       `json:"idleRate,omitzero"`
	Signs    []string      `json:"signs,omitempty"` // marks of nodes that announce a disruption: --sign
	Baseline time.Duration `json:"baseline"`
	Settle   time.Duration `json:"settle"`

	Scheme string `json:"scheme"` // of Services
	// ByClusterIP sends requests to Services to their addresses. No DNS server is asked for their names.
	ByClusterIP   bool     `json:"byClusterIP,omitzero"`
	Method        string   `json:"method"`
	Host          string   `json:"host,omitzero"`
	Headers       []string `json:"headers,omitempty"`     // "Name: value"; the values are secret
	HeadersFrom   []string `json:"headersFrom,omitempty"` // names of Secrets
	ExpectStatus  string   `json:"expectStatus,omitzero"`
	ExpectBody    string   `json:"expectBody,omitzero"`
	Echo          string   `json:"echo,omitzero"`     // secret
	EchoFrom      string   `json:"echoFrom,omitzero"` // the name of a Secret
	BackendHeader string   `json:"backendHeader,omitzero"`
	GRPCMethod    string   `json:"grpcMethod,omitzero"`
	GRPCRequest   []byte   `json:"grpcRequest,omitempty"` // secret: the encoded message to call it with
	CAPEM         string   `json:"caPEM,omitzero"`        // the authorities to trust
	Hammer        string   `json:"hammer,omitzero"`       // secret if it has headers or a body

	Join       time.Duration `json:"join"`
	Slow       time.Duration `json:"slow,omitzero"`
	Resolution time.Duration `json:"resolution,omitzero"`
	Coverage   string        `json:"minCoverage"`

	NodeCoverage string `json:"minNodeCoverage,omitzero"` // of each node of Probers; empty: as Coverage

	GateExprs []string `json:"failIf,omitempty"`

	MaxDuration time.Duration `json:"maxDuration"` // the Job ends itself after it
	// WorkstationTimeout ends the run after that time without a sign of life of the workstation that runs the command.
	WorkstationTimeout time.Duration `json:"workstationTimeout,omitzero"`
	Hold               time.Duration `json:"hold"` // how long the Job keeps its result
}

// plain is a Spec whose JSON hides nothing.
type plain Spec

// MarshalJSON writes s without its secrets.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(plain(s.public())) }

// public returns s with "***" in place of each secret.
func (s Spec) public() Spec {
	s.Targets, s.Headers = slices.Clone(s.Targets), slices.Clone(s.Headers)
	for i, target := range s.Targets {
		s.Targets[i] = mask.Text(target) // a token in a query
	}
	for i, header := range s.Headers {
		s.Headers[i] = mask.Header(header)
	}
	if s.Echo != "" {
		s.Echo = mask.Hidden
	}
	if len(s.GRPCRequest) > 0 {
		s.GRPCRequest = []byte(mask.Hidden)
	}
	if hey.Hides(s.Hammer) {
		s.Hammer = hey.Public(s.Hammer)
	}
	return s
}

// Secrets returns the JSON of the fields with secrets, or nil if there are none. It belongs into a Secret and nowhere
// else.
func (s Spec) Secrets() []byte {
	whole, public := fieldsOf(s), fieldsOf(s.public())
	maps.DeleteFunc(whole, func(name string, value json.RawMessage) bool { return bytes.Equal(value, public[name]) })
	if len(whole) == 0 {
		return nil
	}
	return MustMarshal(whole)
}

func fieldsOf(s Spec) (fields map[string]json.RawMessage) {
	if err := json.Unmarshal(MustMarshal(plain(s)), &fields); err != nil {
		panic(err) // it was just written
	}
	return fields
}

// MustMarshal returns the JSON of a value that always has one.
func MustMarshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// readSpec returns the Spec of its JSON and of the JSON of its secrets, if there are any. Errors do not show secrets.
func readSpec(public, secrets string) (Spec, error) {
	const hint = "the workstation writes it: is the image of another version of Lapse?"
	var s plain
	decoder := json.NewDecoder(strings.NewReader(public))
	decoder.DisallowUnknownFields() // a flag that this version does not know would be ignored
	if err := decoder.Decode(&s); err != nil {
		return Spec{}, exit.Usagef(hint, "%s: %w", deploy.EnvSpec, err)
	}
	if secrets != "" && json.Unmarshal([]byte(secrets), &s) != nil {
		return Spec{}, exit.Usagef(hint, "the run's Secret cannot be read")
	}
	return Spec(s), nil
}

// addSecrets adds the headers and the text to echo that the kubelet has put into the environment from the user's
// Secrets.
func (s *Spec) addSecrets(environ []string) {
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		if text, ok := strings.CutPrefix(variable, deploy.EnvEcho+"="); ok {
			s.Echo = text
		}
		numbered, ok := strings.CutPrefix(variable, deploy.EnvHeader)
		if !ok {
			continue
		}
		_, header, _ := strings.Cut(numbered, "_")
		name, value, _ := strings.Cut(header, "=")
		s.Headers = append(s.Headers, name+": "+strings.TrimSpace(value))
	}
}

// SecretHint says how to give a header that `lapse gen` must not print.
const SecretHint = "put it into a Secret in the Service's namespace, whose keys are names of headers, as in " +
	"`kubectl create secret generic web-auth --from-literal=Authorization='Bearer …'`, " +
	"and give --header-from secret/web-auth"
