package drill

import (
	"fmt"
	"slices"
	"time"
)

// Timeline is the part of timeline.json that drills look at. Instants and lengths are nanoseconds.
type Timeline struct {
	T0   time.Time `json:"t0"`
	Tool struct {
		Version string `json:"version"` // of the Lapse that judged
	} `json:"tool"`
	Run struct {
		ID       string        `json:"id"`
		Duration time.Duration `json:"duration"`
		Aborted  string        `json:"aborted"`
		SetAside []SetAside    `json:"setAside"`
		Services []struct {
			Name       string   `json:"name"`
			NotCovered []string `json:"notCovered"`
		} `json:"services"`
		Command struct {
			Start    *time.Duration `json:"start"`
			End      *time.Duration `json:"end"`
			ExitCode *int           `json:"exitCode"`
		} `json:"command"`
	} `json:"run"`
	Targets     []Target     `json:"targets"`
	Incidents   []Incident   `json:"incidents"`
	Windows     []Window     `json:"windows"`
	Unobserved  []Unobserved `json:"unobserved"`
	Held        []Held       `json:"held"`
	Failures    []Failure    `json:"failures"`
	Pods        []Pod        `json:"pods"`
	Events      []Event      `json:"events"`
	Services    []Service    `json:"services"`
	Routes      []Route      `json:"routes"`
	DNS         *DNS         `json:"dns"`         // nil: no DNS server was asked
	KeepServing *KeepServing `json:"keepServing"` // nil: nothing is said
	// nil: no API server was asked
	ControlPlane *ControlPlane `json:"controlPlane"`
	Scorecard    struct {
		Predicted   int                `json:"predicted"` // confirmed + refuted + not tested
		Confirmed   int                `json:"confirmed"`
		Refuted     int                `json:"refuted"`
		NotTested   int                `json:"notTested"`
		Missed      int                `json:"missed"` // incidents that were to be predicted
		Predictions []ScoredPrediction `json:"predictions"`
	} `json:"scorecard"`
	Verdict struct {
		Result         string        `json:"result"`
		ExitCode       int           `json:"exitCode"`
		Reasons        []string      `json:"reasons"`
		Failed         int           `json:"failed"`
		Sent           int           `json:"sent"`
		Coverage       float64       `json:"coverage"`
		DetectionLimit time.Duration `json:"detectionLimit"`
	} `json:"verdict"`
}

// Held is what became of the connections of a held target.
type Held struct {
	// Attempts to open them. A good one has the first heartbeat answered, which is no request of the target.
	Attempts int            `json:"attempts"`
	Failed   map[string]int `json:"failed"`   // attempts, by class
	Unwarned int            `json:"unwarned"` // connections that were cut without an announcement
}

// Opened returns how many attempts were good, and how many others a server may have answered.
func (h Held) Opened() (opened, doubtful int) {
	for _, n := range h.Failed {
		doubtful += n
	}
	return h.Attempts - doubtful, doubtful
}

// DNS is how DNS servers followed the changes of endpoints.
type DNS struct {
	NotAsked string `json:"notAsked"`
	Servers  []struct {
		Addr     string  `json:"addr"`
		Asked    int     `json:"asked"`
		Answered int     `json:"answered"`
		TTL      *Length `json:"ttl"`
		Changes  []struct {
			Change string  `json:"change"`
			Open   bool    `json:"open"`
			Lag    *Length `json:"lag"` // nil: unobserved
		} `json:"changes"`
	} `json:"servers"`
}

// ControlPlane is how the API servers answered.
type ControlPlane struct {
	NotAsked string      `json:"notAsked"`
	Servers  []APIServer `json:"servers"`
}

// APIServer is one address of the API, as one source asked it for one thing.
type APIServer struct {
	Addr        string         `json:"addr"`
	Path        string         `json:"path"`
	Node        string         `json:"node"`
	NotMeasured string         `json:"notMeasured"`
	Refused     map[string]int `json:"refused"`
	Outages     []struct {
		Start  Instant `json:"start"`
		End    Instant `json:"end"`
		Length Length  `json:"length"`
	} `json:"outages"`
}

// ScoredPrediction is what preflight predicted, and what the run says of it.
type ScoredPrediction struct {
	Prediction struct {
		Rule string `json:"rule"`
	} `json:"prediction"`
	Outcome string `json:"outcome"`
	Why     string `json:"why"`
}

// SetAside is a Service that was meant and not measured.
type SetAside struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Why       string `json:"why"`
}

// Service is one that was watched; the one that lost most comes first.
type Service struct {
	Name    string `json:"name"` // NAMESPACE/NAME
	Verdict *struct {
		Sent      int `json:"sent"`
		Failed    int `json:"failed"`
		Incidents int `json:"incidents"`
	} `json:"verdict"` // nil: it was only watched
}

// Route is how the routes of one node followed a change of an endpoint.
type Route struct {
	Change  string  `json:"change"`
	Pod     string  `json:"pod"`
	Node    string  `json:"node"`
	Target  string  `json:"target"`
	Open    bool    `json:"open"`
	Changed Instant `json:"changed"`

	Asked *Instant `json:"asked"` // nil: Lapse did not ask for the change itself
}

// KeepServing is how many requests would still have failed, had each Pod served longer.
type KeepServing struct {
	Failed int            `json:"failed"` // in the windows that it is about
	Others int            `json:"others"` // elsewhere
	Left   []ServedLonger `json:"left"`   // up to the first length that leaves none
}

// ServedLonger is how many of the failures a length leaves.
type ServedLonger struct {
	Longer time.Duration `json:"longer"`
	Min    int           `json:"min"`
	Max    int           `json:"max"`
}

// Target is one target's totals.
type Target struct {
	Name     string         `json:"name"`
	Kind     string         `json:"kind"`
	URL      string         `json:"url"`
	Sent     int            `json:"sent"`
	OK       int            `json:"ok"`
	Failed   int            `json:"failed"`
	Classes  map[string]int `json:"classes"`
	Coverage float64        `json:"coverage"`
	Source   string         `json:"source"` // the name of who asks

	Service    string        `json:"service"`    // NAMESPACE/NAME; "" of a URL
	Route      string        `json:"route"`      // the way to it; "" where none was asked for
	Node       string        `json:"node"`       // the prober's
	RouteNode  string        `json:"routeNode"`  // whose port is asked; "" if none is
	Turns      bool          `json:"turns"`      // connections go to each address of a name in turn
	Rate       float64       `json:"rate"`       // asked for, per second
	Resolution time.Duration `json:"resolution"` // detection limit
}

// Incident is the unit of a report: windows that belong together.
type Incident struct {
	ID      int     `json:"id"`
	Windows []int   `json:"windows"`
	Start   Instant `json:"start"`
	End     Instant `json:"end"`
	Sent    int     `json:"sent"`
	Failed  int     `json:"failed"`
	Cut     int     `json:"cut"`    // held connections
	Causes  []Cause `json:"causes"` // each rule once, the one that explains most failures first

	Triggers []struct{ Text string } `json:"triggers"` // the changes that set it off
}

// Window is one downtime window.
type Window struct {
	ID      int            `json:"id"`
	Target  string         `json:"target"`
	Kind    string         `json:"kind"`
	Start   Instant        `json:"start"`
	End     Instant        `json:"end"`
	Length  Length         `json:"length"`
	Sent    int            `json:"sent"`
	Failed  int            `json:"failed"`
	Classes map[string]int `json:"classes"`
	Causes  []Cause        `json:"causes"`

	// Open at a side: the bracket ends at unobserved time, and the fault may have been there.
	Open struct{ Start, End bool } `json:"open"`
}

// Cause is why.
type Cause struct {
	Rule       string `json:"rule"`
	Reason     string `json:"reason"` // which of several ways it came about
	Confidence string `json:"confidence"`
	Text       string `json:"text"`
	Fix        string `json:"fix"`

	Measures []Measure `json:"measures"`
}

// A Measure is a number that a cause rests on: "route-lag" of a Pod is how long its node routes outlived it.
type Measure struct {
	Name   string `json:"name"`
	Object string `json:"object"`
	Length Length `json:"length"`
}

// Instant and Length are brackets.
type (
	Instant struct {
		Earliest time.Duration `json:"earliest"`
		Latest   time.Duration `json:"latest"`
	}
	Length struct {
		Min time.Duration `json:"min"`
		Max time.Duration `json:"max"`
	}
)

// Unobserved is time in which a target was not measured.
type Unobserved struct {
	Target string        `json:"target"`
	Start  time.Duration `json:"start"`
	End    time.Duration `json:"end"`
	Reason string        `json:"reason"`
}

// Failure is one failed request.
type Failure struct {
	Target string        `json:"target"`
	Sent   time.Duration `json:"sent"`
	Done   time.Duration `json:"done"`
	Class  string        `json:"class"`
}

// Pod is one Pod's life.
type Pod struct {
	Name    string   `json:"name"`
	Node    string   `json:"node"`
	IP      string   `json:"ip"`
	Stopped *Instant `json:"stopped"`
	Exited  *Instant `json:"exited"`
}

// Event is a change in the cluster.
type Event struct {
	Kind   string        `json:"kind"`
	Seen   time.Duration `json:"seen"`
	At     Instant       `json:"at"`     // when it happened
	Source string        `json:"source"` // the name of who learned of it; "" in a run with one source
	From   string        `json:"from"`
	To     string        `json:"to"`
	Detail string        `json:"detail"`
	Object struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"object"`
}

// OfKind returns the judged targets of a kind: one for each node that was measured from.
func (t Timeline) OfKind(kind string) []Target {
	return slices.DeleteFunc(slices.Clone(t.Targets), func(target Target) bool { return target.Kind != kind })
}

// LongestGap returns the longest time in which nothing looked at one of the judged targets: no shorter outage of all
// requests is sure to show.
func (t Timeline) LongestGap() time.Duration {
	longest := t.Verdict.DetectionLimit
	for _, u := range t.Unobserved {
		longest = max(longest, u.End-u.Start)
	}
	return longest
}

// CausedBy returns the windows whose first cause is rule.
func (t Timeline) CausedBy(rule string) []Window {
	var found []Window
	for _, w := range t.Windows {
		if len(w.Causes) > 0 && w.Causes[0].Rule == rule {
			found = append(found, w)
		}
	}
	return found
}

// ProberNode returns the node that the requests were sent from.
func (t Timeline) ProberNode() string {
	for _, target := range t.Targets {
		if target.Node != "" {
			return target.Node
		}
	}
	return ""
}

// Target returns the target of that name, or an error that lists those there are.
func (t Timeline) Target(name string) (Target, error) {
	var names []string
	for _, target := range t.Targets {
		if target.Name == name {
			return target, nil
		}
		names = append(names, target.Name)
	}
	return Target{}, fmt.Errorf("no target %q among %q", name, names)
}
