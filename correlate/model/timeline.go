// Package model is the judged document: the types of timeline.json, what every report and the page show. It has no
// judgement of its own.
package model

import (
	"encoding/json"
	"time"

	"lapse/timeline"
)

// SchemaVersion is the version of the JSON timeline. It rises when a reader of the old one would
// misread the new one.
//
// [Timeline] is both the Go document and the JSON: no figure can differ between them, and the schema is made from the
// types' comments. So renaming a field changes the schema, which a test compares. Documents and events use names as
// keys, because people read them with jq. Inside, targets, sources and endpoints are keyed by number: with 20 000
// targets that halved the CPU of judging.
const SchemaVersion = 2

// A Timeline is a judged run: the whole of timeline.json, and what every report and the page show.
//
// All instants and lengths are integer nanoseconds counted from T0. What is uncertain is a pair of
// bounds. What was not seen is absent, never zero.
type Timeline struct {
	SchemaVersion int       `json:"schemaVersion"`
	Tool          Tool      `json:"tool"`
	T0            time.Time `json:"t0"`

	Run        RunInfo      `json:"run"`
	Sources    []Source     `json:"sources,omitzero"` // who measured and watched; absent where the recording names none
	Targets    []Target     `json:"targets"`
	Incidents  []Incident   `json:"incidents"` // what reports lead with: windows that belong together
	Windows    []Window     `json:"windows"`
	Unobserved []Unobserved `json:"unobserved"`
	// what became of connections that were kept open; absent if none were
	Held []Held `json:"held,omitzero"`

	// every failed request of judged targets, up to a cap
	Failures          []Failure `json:"failures"`
	FailuresTruncated int       `json:"failuresTruncated,omitzero"` // how many failures the cap left out

	Buckets Buckets `json:"buckets"`
	Events  []Event `json:"events"`
	// those whose endpoints were watched; the one that lost most first
	Services []WatchedService `json:"services"`
	// how nodes followed changes of endpoints, by change, then by node; absent without probers on nodes
	Routes []Route      `json:"routes,omitzero"`
	Late   []LateRoutes `json:"late,omitzero"` // which of these nodes and changes stand out
	// how DNS servers followed the changes of a headless Service's endpoints; absent where none is measured, but in
	// runs of lapse routes
	DNS *DNS `json:"dns,omitzero"`
	// how the cluster's API servers answered; absent without --control-plane
	ControlPlane *ControlPlane `json:"controlPlane,omitzero"`

	Pods []Pod `json:"pods"`

	// absent where no routes outlived Pods, when they stopped is not known, or not every failure is listed
	KeepServing *KeepServing `json:"keepServing,omitzero"`

	Verdict Verdict `json:"verdict"`
	Hammer  *Hammer `json:"hammer,omitzero"`

	Scorecard *Scorecard `json:"scorecard,omitzero"` // absent if nobody asked preflight, and while the run goes on

	Said Said `json:"said"` // the run in words
}

// Tool names the program that judged the run.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// RunInfo says what was asked for and what ran.
type RunInfo struct {
	ID       string              `json:"id"`
	Services []timeline.Service  `json:"services,omitzero"`
	SetAside []timeline.SetAside `json:"setAside,omitzero"` // Services that were to be measured and could not be
	URLs     []string            `json:"urls,omitzero"`
	Duration time.Duration       `json:"duration"` // how long the run took, from T0 to its end
	Baseline time.Duration       `json:"baseline"`
	Settle   time.Duration       `json:"settle"`
	Timeout  time.Duration       `json:"timeout"`
	Join     time.Duration       `json:"join"`
	Slow     time.Duration       `json:"slow"` // 0: it depends on the target, see its slowFrom

	// a gap between two sends that is no longer counts as observed; absent: each target's gapLimit by default
	Resolution time.Duration `json:"resolution,omitzero"`
	// the share of the time that must have been observed for a run to pass
	MinCoverage float64 `json:"minCoverage,omitzero"`

	// the share that each node of --from must have observed; absent: minCoverage
	MinNodeCoverage *float64 `json:"minNodeCoverage,omitzero"`

	// what the run was asked to do, but for secrets; recordings of older versions have none
	Spec    json.RawMessage   `json:"spec,omitempty"`
	Command *Command          `json:"command,omitzero"`
	Cluster *timeline.Cluster `json:"cluster,omitzero"`
	Aborted string            `json:"aborted,omitzero"` // why the run ended before it was due to
	// how long the run was to take; absent where it lasts as long as the command
	Planned time.Duration `json:"planned,omitzero"`
	// the recording ends before the run did: Duration is what was recorded, and nothing is said of the time after
	Truncated bool `json:"truncated,omitzero"`
	// why not all of the run is on disk; what is said here was judged from all of it
	Unsaved string `json:"unsaved,omitzero"`
	Live    bool   `json:"live,omitzero"` // the run goes on: what follows may still change
}

// Recorded says how much of a run that is Truncated was recorded. write prints a length of time.
func (r RunInfo) Recorded(write func(time.Duration) string) string {
	text := "recorded for " + write(r.Duration)
	if r.Planned > r.Duration {
		text += " of " + write(r.Planned)
	}
	return text
}

// Command is the wrapped command.
type Command struct {
	Args     []string       `json:"args"`
	Start    *time.Duration `json:"start,omitzero"`
	End      *time.Duration `json:"end,omitzero"`
	ExitCode *int           `json:"exitCode,omitzero"`
}

// An Instant lies somewhere between Earliest and Latest, both inclusive.
type Instant struct {
	Earliest time.Duration `json:"earliest"`
	Latest   time.Duration `json:"latest"`
}

// A Length of time is at least Min and at most Max.
type Length struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// A Source is a process that measured or watched, with a clock of its own.
type Source struct {
	ID    timeline.SourceID `json:"id"`
	Name  string            `json:"name"`
	Role  timeline.Role     `json:"role"`
	Node  string            `json:"node,omitzero"`
	Zone  string            `json:"zone,omitzero"`
	Clock *SourceClock      `json:"clock,omitzero"` // absent if it has the run's

	Late     int      `json:"late"`              // requests of its judged targets that it sent late
	Stalls   int      `json:"stalls"`            // how often it was stopped
	Coverage *float64 `json:"coverage,omitzero"` // the worst of its judged targets'; absent if it has none
	// stretches, from Earliest to Latest, whose measurements are not on record
	Lost []Instant `json:"lost,omitzero"`
}

// A SourceClock is how a source's clock stood against the run's.
type SourceClock struct {
	// the run's clock was ahead of it by at least Min and at most Max, over the whole run
	Min       time.Duration `json:"min"`
	Max       time.Duration `json:"max"`
	Exchanges int           `json:"exchanges"` // how often the two were compared
	// how often it jumped against the run's, as where its machine was suspended
	Jumps int `json:"jumps,omitzero"`
}

// Target is a target with its totals over the run. Of the fact, Source has a name in place of a number, and Family and
// Timeout are left out.
type Target struct {
	timeline.Target
	Source string `json:"source,omitzero"` // the name of who probed it
	Node   string `json:"node,omitzero"`   // the node from which it was probed

	Sent   int `json:"sent"` // requests whose outcome tells something of the target: ok + failed
	OK     int `json:"ok"`
	Failed int `json:"failed"`
	// requests without evidence, by a fault of our own: classes notsent and local
	NotSent int `json:"notSent"`
	Late    int `json:"late"` // sent more than max(1 interval, 5 ms) after due
	// ok requests whose answer may have come earlier than recorded, because the prober was stopped or read it late:
	// they have no part in latency and slow windows
	Delayed int            `json:"delayed,omitzero"`
	Classes map[string]int `json:"classes"` // how many requests ended in each class

	// reused: how many ok requests were the first on their connection
	NewConnections int `json:"newConnections,omitzero"`
	// addresses of its name that failed before another one answered: requests that succeeded, late
	FailedAddresses []FailedAddress `json:"failedAddresses,omitzero"`

	AchievedRate float64 `json:"achievedRate"` // sent ÷ measured time
	// its rate was changed while it was measured: rate and achievedRate are of the time since
	Rerated *Rerated `json:"rerated,omitzero"`
	// detection limit: the longest time between successive sends while observed
	Resolution time.Duration `json:"resolution"`
	// a longer time between two sends, with nothing in flight, is unobserved: --resolution, at least 3 intervals; by
	// default 50 ms or 10 intervals, whichever is longer
	GapLimit time.Duration `json:"gapLimit,omitzero"`
	// observed ÷ measured time, 0 to 1; if the rate was changed, the least of any rate
	Coverage float64 `json:"coverage"`
	// observed by at least one of the sources that send the same to the same Service; absent if there is one
	SharedCoverage *float64 `json:"sharedCoverage,omitzero"`
	// from the first due instant, or from when measuring was to begin if that was over 150 ms earlier (Earliest), to
	// the end of its measuring (Latest)
	Measured Instant `json:"measured"`
	// an ok request that took longer is slow: --slow, or by default 500 ms or 3 times what 9 of 10 answers took at the
	// start, whichever is longer
	SlowFrom time.Duration `json:"slowFrom,omitzero"`
	// every ok request took longer than --slow, or 500 ms: that is how the target answers, and no window
	AlwaysSlow bool     `json:"alwaysSlow,omitzero"`
	Latency    *Latency `json:"latency,omitzero"` // of ok requests, from Due; absent if there were none
}

// A Rerated is the last change of a target's rate. What happened before it is known less well, if the rate was lower.
type Rerated struct {
	At         Instant       `json:"at"`
	From       float64       `json:"from"`       // the lowest rate before, in requests per second
	Resolution time.Duration `json:"resolution"` // detection limit of the time since
}

// A FailedAddress is one of several addresses of a target's name that failed when connections were made. They went to
// another one then, in the time that was left; where none accepted, the request failed. Of each target the first 8
// different ones are counted.
type FailedAddress struct {
	Addr  string `json:"addr"`
	Class string `json:"class"` // what came of connecting to it
	Text  string `json:"text"`  // the same in the words of the first failure
	// how many were made to another address for that reason, without those during which the prober was stopped; there
	// may be more while the run goes on, or where it broke off
	Connections int     `json:"connections"`
	During      Instant `json:"during"` // when they were made
}

// Latency are quantiles of the time from Due to Done, without delayed requests.
type Latency struct {
	P50  time.Duration `json:"p50"`
	P90  time.Duration `json:"p90"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`
	// of p99 with the delayed requests, which took any time up to what was recorded; absent if there are none
	P99Bounds *Length `json:"p99Bounds,omitzero"`
}

// WindowKind says what kind of trouble a window is.
type WindowKind string

const (
	Outage  WindowKind = "outage"  // at least 3 requests, none of them answered
	Partial WindowKind = "partial" // a share of the requests failed
	Slow    WindowKind = "slow"    // answered, but later than --slow
)

// Basis says what a window's brackets rest on.
type Basis string

const (
	// 8 requests or more failed and none succeeded among them, so one good request proves health: the brackets hold the
	// truth
	Exact Basis = "exact"
	// only a share of requests failed, or too few to tell, or they timed out, which shows when answers usually come:
	// the brackets hold the truth with 99 % probability
	Statistical Basis = "statistical"
)

// A Window is a stretch in which requests to one target failed. Start and End are brackets: the
// trouble began after the last good request and no later than the first failure was known.
//
//	ok ok x x x ok   →   start ∈ [1,2]  end ∈ [4,5]
type Window struct {
	ID     int        `json:"id"` // from 1, by start
	Target string     `json:"target"`
	Kind   WindowKind `json:"kind"`
	Basis  Basis      `json:"basis"`
	Start  Instant    `json:"start"`
	End    Instant    `json:"end"`
	Length Length     `json:"length"`

	// the failures and the requests amid them, of time-outs all that were sent from the first to the last; of fewer
	// than 3 failures with none amid them, all within the brackets
	Sent   int `json:"sent"`
	Failed int `json:"failed"`
	// requests of class local between the failures: counted neither as sent nor as failed, for the failure may be the
	// prober's own
	NoEvidence int `json:"noEvidence,omitzero"`
	// in a window of kind slow, which has no failures: the slow successes
	Slow     int            `json:"slow,omitzero"`
	Share    float64        `json:"share"` // failed ÷ sent; of kind slow: slow ÷ sent
	Downtime Length         `json:"downtime"`
	Blackout *Length        `json:"blackout,omitzero"` // the longest stretch of at least 3 failures without a success
	Classes  map[string]int `json:"classes"`           // failures by class
	Backends map[string]int `json:"backends,omitzero"` // who answered the successes inside
	// the Pods whose own addresses failed meanwhile as most of its requests did
	Failing []FailingPod `json:"failing,omitzero"`
	// what its failures said, where their class alone does not tell what was wrong
	Errors []ErrorText `json:"errors,omitzero"`
	// when requests in flight failed all at once, as when a server is killed, while others in flight did not: the
	// failures became known then
	Cut  *Instant `json:"cut,omitzero"`
	Open Open     `json:"open"`
	// when its first and its last failed request were due, as of an [Incident]; absent if none failed
	FailedFrom *time.Duration `json:"failedFrom,omitzero"`
	FailedTo   *time.Duration `json:"failedTo,omitzero"`
	// upper bounds of an open window; absent if unbounded
	Most *Most `json:"most,omitzero"`
	Live bool  `json:"live,omitzero"` // not final: later requests may change it
	// the last change near its end that can have ended it: an endpoint, the Service, a node; absent if there was none
	Ended *Evidence `json:"ended,omitzero"`

	Causes []Cause `json:"causes"` // most likely first; never empty in a judged window

	Said WindowSaid `json:"said"` // the window in words
}

// An ErrorText is why requests of a class failed. The first 3 different texts of each target and class are kept:
// others may have failed for further reasons.
type ErrorText struct {
	Class string  `json:"class"`
	Text  string  `json:"text"`
	First Instant `json:"first"` // when the target's first request failed so, which may be before the window
}

// A FailingPod is a Pod whose own address failed during a window.
type FailingPod struct {
	Pod    string  `json:"pod"` // its name
	UID    string  `json:"uid"`
	Target string  `json:"target"` // that asked it
	Since  Instant `json:"since"`  // when it began to fail
	// the ID of the event that shows what ended it, if that was before; absent if nothing had
	Ending uint32 `json:"ending,omitzero"`
}

// Open tells at which side a window's bracket ends for want of observation, not at a good request.
type Open struct {
	Start bool `json:"start"`
	End   bool `json:"end"`
}

// Most bounds an open window that unobserved time cuts: by the good requests beyond that time, and as if all of it
// had been down. A window that measuring began or ended in has no such bound.
type Most struct {
	Length   time.Duration `json:"length"`
	Downtime time.Duration `json:"downtime"`
}

// Confidence of a cause.
type Confidence string

const (
	High   Confidence = "high"   // independent signs agree, and no rival fits as well
	Medium Confidence = "medium" // the signs fit, and so does a rival
	Low    Confidence = "low"    // only closeness in time
)

// Unexplained is the rule of a cause that is none: its text says what is known, and its fix where to look next.
const Unexplained = "unexplained"

// A Cause is why a window opened, with its evidence and what else it could be.
type Cause struct {
	Rule string `json:"rule"` // "route-outlives-pod"; "unexplained" is an honest answer
	// which of several ways it came about, of a rule that knows them apart: "one-replica"; absent if that was not seen
	Reason     string     `json:"reason,omitzero"`
	Confidence Confidence `json:"confidence"`
	Text       string     `json:"text"`         // one sentence with names and figures
	Fix        string     `json:"fix,omitzero"` // what to change, with a number in it
	Evidence   []Evidence `json:"evidence"`
	Rivals     []string   `json:"rivals"` // other rules that fit, with why they rank lower
	// how many of the window's failures it can have made; absent if all
	Explains int       `json:"explains,omitzero"`
	Measures []Measure `json:"measures,omitzero"` // the numbers the text and the fix rest on
	// how long a preStop sleep would have to be; absent where that is not the fix, or not all of it
	Sleep *Sleep `json:"sleep,omitzero"`
}

// A Sleep is a preStop sleep that would have kept Pods serving until no route led to them.
type Sleep struct {
	Pod      string        `json:"pod"` // the name of the Pod that needed it longest
	PodUID   string        `json:"podUID"`
	Measured time.Duration `json:"measured"` // how long that Pod would have had to serve on after SIGTERM, at the least
	Bounds   Length        `json:"bounds"`   // between which that lies
	Margin   time.Duration `json:"margin"`   // to be added: see [RunInfo.SleepMargin]
}

// SyncPeriod returns the shortest time between two writes of kube-proxy's rules, which is 1 s where it is not known.
func (r *RunInfo) SyncPeriod() time.Duration {
	if r.Cluster == nil {
		return timeline.Cluster{}.SyncPeriod()
	}
	return r.Cluster.SyncPeriod()
}

// SleepMargin returns what to add to how long Pods would have had to serve on, and at least 1 s. What was measured is a
// sample: how much of kube-proxy's minSyncPeriod the end of a Pod meets is luck (kubernetes/kubernetes#92836).
func (r *RunInfo) SleepMargin(measured time.Duration) time.Duration {
	return max(time.Second, r.SyncPeriod(), measured/4)
}

// Seconds returns how long to sleep in whole seconds, which is all that a preStop sleep takes.
func (s *Sleep) Seconds() int { return int((s.Measured + s.Margin + time.Second - 1) / time.Second) }

// RouteLag is the name of a [Measure]: how long the routes of a node led to a Pod after it had stopped.
const RouteLag = "route-lag"

// NameLag is the name of a [Measure]: how long the name of a headless Service led to a Pod after its endpoint had left.
const NameLag = "name-lag"

// ReadyEarly is the name of a [Measure]: for how long a Pod's endpoint was ready before the Pod answered at its own
// address.
const ReadyEarly = "ready-early"

// A Measure is a number with a name and bounds.
type Measure struct {
	Name   string `json:"name"`          // "route-lag", "ready-early"
	Object string `json:"object"`        // the name of the Pod it is about
	Node   string `json:"node,omitzero"` // the node whose routes they are: the prober's
	Length Length `json:"length"`        // proven to be at least Min, and at most Max
}

// Evidence is one fact a cause rests on.
type Evidence struct {
	Event  uint32   `json:"event,omitzero"`  // the ID of an event
	Target string   `json:"target,omitzero"` // the name of a target
	At     *Instant `json:"at,omitzero"`
	Text   string   `json:"text"`
}

// Unobserved is time in which a target was not measured: neither up nor down.
type Unobserved struct {
	Target string        `json:"target"`
	Start  time.Duration `json:"start"`
	End    time.Duration `json:"end"`
	// "not sent", "prober stalled", "local fault", "run ended early", "prober lost", "record damaged", "clock jumped"
	Reason string `json:"reason"`
}

// Reasons of [Unobserved] time.
const (
	ReasonNotSent = "not sent"
	ReasonStalled = "prober stalled"
	ReasonLocal   = "local fault"
	ReasonEnded   = "run ended early"
	ReasonGone    = "prober lost"    // the prober of the node was lost before the run ended
	ReasonLost    = "record damaged" // what was measured is not on record
	// when the source's clock jumped against the run's: when things happened is not known
	ReasonJumped = "clock jumped"
)

// A Failure is one failed request.
type Failure struct {
	Target  string         `json:"target"`
	Seq     uint64         `json:"seq"`
	Due     time.Duration  `json:"due"`
	Sent    time.Duration  `json:"sent"`
	Done    time.Duration  `json:"done"`
	Class   timeline.Class `json:"class"`
	Code    uint16         `json:"code,omitzero"`
	Backend string         `json:"backend,omitzero"`
	// where the connection went, or was to go; only of targets whose connections go to several addresses in turn
	Peer      string        `json:"peer,omitzero"`
	Reused    bool          `json:"reused,omitzero"`
	DNS       time.Duration `json:"dns,omitzero"`
	Connect   time.Duration `json:"connect,omitzero"`
	TLS       time.Duration `json:"tls,omitzero"`
	FirstByte time.Duration `json:"firstByte,omitzero"`
	// due, sent and done may each have been so much earlier or later; absent if its source has the run's clock
	Error time.Duration `json:"error,omitzero"`
}

// Earliest returns when the request can have been sent at the earliest.
func (f *Failure) Earliest() time.Duration { return f.Sent - f.Error }

// Latest returns when the request can have been over at the latest.
func (f *Failure) Latest() time.Duration { return f.Done + f.Error }

// Buckets are per-target series over slots of Width, slot i beginning at i × Width after T0, by the
// instant a request was sent.
type Buckets struct {
	Width   time.Duration           `json:"width"`
	Targets map[string]BucketSeries `json:"targets"`

	Making *SeriesMaking `json:"-"` // instead of Targets: see MadeWhenAsked. Of and All read both
}

// BucketSeries holds one entry per slot. A slot with Sent 0 was not measured.
type BucketSeries struct {
	// index of the first slot in the lists below; only those of direct targets leave out slots
	Start      int         `json:"start,omitzero"`
	Sent       []int       `json:"sent"`
	Failed     []int       `json:"failed"`
	Unobserved []float64   `json:"unobserved"` // share of the slot not observed, 0 to 1
	Latency    []Histogram `json:"latency"`    // of ok requests, from Due

	// Classes counts the failed requests by class: for each class that occurs, pairs of the index of a slot and how
	// many of its requests failed so.
	Classes map[string]SparseCounts `json:"classes,omitzero"`
}

// SparseCounts are counts as pairs of slot and count: [slot, count, slot, count, …], slots rising. [LatencyBin] says
// what the slots of a latency histogram are.
type SparseCounts []int

// Event is a fact on the run's clock. Of the fact, Source has a name in place of a number, and Since is left out: At
// says more.
type Event struct {
	timeline.Event
	At     Instant `json:"at"`              // when it happened
	Source string  `json:"source,omitzero"` // the name of who learned of it; absent in a run with one source
}

// A WatchedService is a Service whose endpoints were watched.
type WatchedService struct {
	Name      string         `json:"name"`      // NAMESPACE/NAME; empty where the recording does not say
	Endpoints []EndpointStep `json:"endpoints"` // each time their number changed, by time; never empty

	Verdict *ServiceVerdict `json:"verdict,omitzero"` // absent if it was only watched
}

// A ServiceVerdict is what was found of one Service. Where several targets are judged, sent and failed add over them
// and the others are the worst target's, as in a [Verdict].
type ServiceVerdict struct {
	Sent      int           `json:"sent"`
	Failed    int           `json:"failed"`
	Downtime  Downtime      `json:"downtime"`
	Coverage  float64       `json:"coverage"`
	Held      int           `json:"held,omitzero"`  // connections that were to be kept open
	Cut       int           `json:"cut,omitzero"`   // of these, those that were cut at least once
	Incidents int           `json:"incidents"`      // how many it had failures or cuts in
	Cause     *ServiceCause `json:"cause,omitzero"` // absent if no request failed
}

// A ServiceCause is the likeliest cause of most of a Service's failures, in the words that it has in the window with
// the most.
type ServiceCause struct {
	Rule       string     `json:"rule"`
	Confidence Confidence `json:"confidence"`
	Text       string     `json:"text"`
	Fix        string     `json:"fix,omitzero"`
	Failed     int        `json:"failed"` // of the Service's failures, those in windows with this cause
}

// An EndpointStep is how many endpoints a Service had from At on. A Pod counts once, whatever addresses and ports it
// has; an address counts where no Pod is named.
type EndpointStep struct {
	At      Instant `json:"at"`
	Ready   int     `json:"ready"`
	Serving int     `json:"serving"` // ready, or terminating and still serving
}

// Pod is one Pod's life, as far as it was seen. Instants taken from the watch are when the change
// happened; those taken from the traffic (Stopped, FirstOK, LastOK, LastFailure) rest on the run's own clock alone.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node,omitzero"`
	IP        string `json:"ip,omitzero"`

	Created          *Instant `json:"created,omitzero"`
	Scheduled        *Instant `json:"scheduled,omitzero"`
	Started          *Instant `json:"started,omitzero"`
	Ready            *Instant `json:"ready,omitzero"` // first became ready
	Deleted          *Instant `json:"deleted,omitzero"`
	Killing          *Instant `json:"killing,omitzero"`
	NotReady         *Instant `json:"notReady,omitzero"` // last turned not ready
	EndpointReady    *Instant `json:"endpointReady,omitzero"`
	EndpointNotReady *Instant `json:"endpointNotReady,omitzero"`
	EndpointRemoved  *Instant `json:"endpointRemoved,omitzero"`
	// its direct target: between the last answer and the first failure known
	Stopped     *Instant       `json:"stopped,omitzero"`
	Exited      *Instant       `json:"exited,omitzero"`
	Gone        *Instant       `json:"gone,omitzero"` // its object was deleted
	ExitCode    *int           `json:"exitCode,omitzero"`
	FirstOK     *time.Duration `json:"firstOk,omitzero"`
	LastOK      *time.Duration `json:"lastOk,omitzero"`
	LastFailure *time.Duration `json:"lastFailure,omitzero"`

	Owner    string  `json:"owner,omitzero"`    // KIND/NAME of its controller
	Template string  `json:"template,omitzero"` // the ID of its template, which a snapshot event has
	Ending   *Ending `json:"ending,omitzero"`   // who or what ended it; absent if nothing did that was seen

	States []PodState `json:"states"` // for the lane: what it was from when on
}

// An Ending is who or what ended a Pod.
type Ending struct {
	By    EndedBy `json:"by"`
	Text  string  `json:"text"`  // "evicted through the API, node2 being cordoned (a drain)"
	Event uint32  `json:"event"` // the ID of the event that shows it

	// what was scaled, rolled out or drained: the workload, or the node; absent of other endings
	Of *timeline.Object `json:"of,omitzero"`
	// the ID of the event by which that was asked for: the change of the workload, the cordon or the taint; absent
	// if it was not seen
	Change uint32 `json:"change,omitzero"`
}

// EndedBy says who or what ended a Pod. The list is closed.
type EndedBy string

const (
	ByEviction  EndedBy = "evicted"           // through the eviction API, as by a drain
	ByScheduler EndedBy = "preempted"         // by the scheduler
	ByTaint     EndedBy = "taint-evicted"     // because its node was tainted
	ByCollector EndedBy = "garbage-collected" // because its node was gone
	ByKubelet   EndedBy = "kubelet"           // node pressure, or the node's shutdown
	ByScaling   EndedBy = "scaled-down"       // its workload wants fewer
	ByRollout   EndedBy = "rolled-out"        // its workload has a newer template
	ByRequest   EndedBy = "deleted"           // by anyone else, or by whom is not known
	ByItself    EndedBy = "crashed"           // a container ended, and nobody had asked for it
)

// PodState is a stretch of a Pod's lane. It lasts until the next one's Start.
type PodState struct {
	Start time.Duration `json:"start"`
	// pending, creating, running, ready, terminating+serving, terminating, gone, crashed
	State string `json:"state"`
}

// Result of a verdict.
type Result string

const (
	Pass         Result = "pass"
	Fail         Result = "fail"
	Inconclusive Result = "inconclusive"
	Ungated      Result = "ungated"
)

// Verdict is the run in one word, and the figures it rests on. Where several targets are judged,
// failed adds over them and the others are the worst target's.
type Verdict struct {
	Result          Result       `json:"result"`
	ExitCode        int          `json:"exitCode"`
	Reasons         []string     `json:"reasons"` // why, in sentences; what makes a run inconclusive
	Gates           []GateResult `json:"gates"`
	Sent            int          `json:"sent"`
	Failed          int          `json:"failed"`
	ErrorRate       float64      `json:"errorRate"`
	Windows         int          `json:"windows"` // of kind outage or partial
	Downtime        Downtime     `json:"downtime"`
	LongestWindow   *Length      `json:"longestWindow,omitzero"`   // absent if there was none
	LongestBlackout *Length      `json:"longestBlackout,omitzero"` // absent if there was none
	// what a success proves of targets that await no answer, in words; absent if there is no such target
	Blind string `json:"blind,omitzero"`
	// what became of connections that were kept open, in a sentence; absent if none were
	Held string `json:"held,omitzero"`
	// what is worth knowing and makes no window, in sentences
	Notes []string `json:"notes,omitzero"`
	// an outage of all requests shorter than this may have gone unseen
	DetectionLimit time.Duration `json:"detectionLimit"`
	// the worst judged target's; of targets that send the same from several sources, what they have together
	Coverage float64 `json:"coverage"`
	// what each node observed of a run that measures from several, the least first
	Nodes      []NodeCoverage `json:"nodes,omitzero"`
	LatencyP99 *time.Duration `json:"latencyP99,omitzero"` // the worst judged target's
	Validity   Validity       `json:"validity"`
}

// A NodeCoverage is how much one node observed of what is measured from several nodes.
type NodeCoverage struct {
	Node       string        `json:"node"`
	Coverage   float64       `json:"coverage"`   // observed ÷ measured time, of what it observed least
	Unobserved time.Duration `json:"unobserved"` // how long it did not observe that
	// the target that it observed least; absent if nothing was measured from the node
	Target string `json:"target,omitzero"`
}

// Downtime is request-weighted: the time a service failing every request would need to lose as many. Its bounds hold
// what may lie in unobserved time, too.
type Downtime struct {
	Total Length `json:"total"`
	// it may be more than Total.Max: a window was under way when measuring began or ended
	Open bool `json:"open,omitzero"`
}

// GateOutcome is what the error bars say about a gate.
type GateOutcome string

const (
	GatePass      GateOutcome = "pass"
	GateFail      GateOutcome = "fail"
	GateUndecided GateOutcome = "undecided"
)

// A Unit is what a gate's value counts.
type Unit string

const (
	Count    Unit = "count"
	Duration Unit = "duration" // nanoseconds
	Ratio    Unit = "ratio"    // from 0 to 1
)

// GateResult is one gate, judged.
type GateResult struct {
	Expr    string      `json:"expr"`
	Metric  string      `json:"metric"` // what it limits: "downtime.total"
	Unit    Unit        `json:"unit"`   // of the metric, and so of Value
	Outcome GateOutcome `json:"outcome"`
	Value   *Range      `json:"value,omitzero"` // absent if nothing was measured

	Proven GateOutcome `json:"proven"` // as Outcome, but undecided where the run proves too little for a pass
	Said   string      `json:"said"`   // how it was decided, in words
}

// Range holds a gate's value in the gate's unit.
type Range struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Open bool    `json:"open,omitzero"` // it may be more than Max: a window was under way when measuring began or ended
}

// Validity tells how good the measurement itself was.
type Validity struct {
	Late    float64 `json:"late"` // share of requests of judged targets sent late
	NotSent int     `json:"notSent"`
	// of these, requests for which the prober had no file descriptor, port or memory
	Local      int           `json:"local,omitzero"`
	Shortage   string        `json:"shortage,omitzero"` // the system's error then, such as "too many open files"
	WatchGaps  int           `json:"watchGaps"`
	Unobserved time.Duration `json:"unobserved"` // the worst judged target's
	Control    string        `json:"control"`    // "ok", "absent", or what went wrong
	Stalls     int           `json:"stalls"`
	LanesOff   []string      `json:"lanesOff,omitzero"` // watched kinds we had no right to see
	// Pods with an endpoint that were never probed at their own address, in a run that probes some
	NotProbed int `json:"notProbed,omitzero"`
}
