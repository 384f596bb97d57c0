package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Times are how long a Service was up, down and unobserved.
type Times struct {
	Down       model.Length
	Up         time.Duration // surely
	Unobserved time.Duration
}

var (
	downtimeDesc = prometheus.NewDesc("lapse_downtime_seconds_total",
		"How long the Service's target that lost most was down, of what was observed up to now: "+
			"at least (min) and at most (max). "+
			"A failure that was under way when measuring began, or that goes on, may be longer than max.",
		[]string{"service", "bound"}, nil)
	observedDesc = prometheus.NewDesc("lapse_observed_seconds_total",
		"How long the Service's target that lost most was surely up, was surely down, or was not observed. "+
			"What lies within the error bars is in none of these.", []string{"service", "state"}, nil)
)

// DescribeTimes describes what [Times.Collect] returns.
func DescribeTimes(descs chan<- *prometheus.Desc) {
	descs <- downtimeDesc
	descs <- observedDesc
}

// Collect returns the series of a Service.
func (t Times) Collect(series chan<- prometheus.Metric, service string) {
	counter := func(of *prometheus.Desc, d time.Duration, label string) {
		series <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, d.Seconds(), service, label)
	}
	counter(downtimeDesc, t.Down.Min, "min")
	counter(downtimeDesc, t.Down.Max, "max")
	counter(observedDesc, t.Up, "up")
	counter(observedDesc, t.Down.Min, "down")
	counter(observedDesc, t.Unobserved, "unobserved")
}

// Raise takes over what is more in a later judgement. A counter never falls: where that says less, the earlier one
// stays.
func (t *Times) Raise(later Times) {
	t.Down.Min = max(t.Down.Min, later.Down.Min)
	t.Down.Max = max(t.Down.Max, later.Down.Max)
	t.Up = max(t.Up, later.Up)
	t.Unobserved = max(t.Unobserved, later.Unobserved)
}

// TimesOf returns what a run says of one of its Services, or of its URL. While a window is open, Up is 0: it is not
// known.
func TimesOf(tl *model.Timeline, service string) (t Times, open bool) {
	var measured []time.Duration // how long each target was
	others := false
	for i := range tl.Targets {
		switch of := &tl.Targets[i]; {
		case !of.Kind.Judged():
		case label(of.Target) == service:
			measured = append(measured, of.Measured.Latest-of.Measured.Earliest)
		default:
			others = true
		}
	}
	v := model.ServiceVerdict{Sent: tl.Verdict.Sent, Coverage: tl.Verdict.Coverage, Downtime: tl.Verdict.Downtime}
	is := func(s model.WatchedService) bool { return s.Name == service && s.Verdict != nil }
	if i := slices.IndexFunc(tl.Services, is); others && i >= 0 {
		v = *tl.Services[i].Verdict
	}
	if len(measured) == 0 {
		return Times{}, false
	}
	longest := slices.Max(measured)
	t.Down, t.Unobserved = v.Downtime.Total, time.Duration(float64(longest)*(1-v.Coverage))
	if v.Sent == 0 { // all that is known is that nothing was seen
		t.Down, t.Unobserved = model.Length{Max: longest}, longest
	}
	if !v.Downtime.Open {
		t.Up = max(0, slices.Min(measured)-max(t.Unobserved, t.Down.Max))
	}
	return t, v.Downtime.Open
}

// judged has what was judged of a run so far, by Service or URL.
type judged struct {
	mu       sync.Mutex
	services map[string]*Times
}

// add begins to tell of a target's Service: its series are there from the beginning, as 0.
func (j *judged) add(t timeline.Target) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.services[label(t)] == nil {
		j.services[label(t)] = &Times{}
	}
}

func (j *judged) take(tl *model.Timeline) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for service, t := range j.services {
		later, _ := TimesOf(tl, service)
		t.Raise(later)
	}
}

// Describe is of [prometheus.Collector].
func (j *judged) Describe(descs chan<- *prometheus.Desc) { DescribeTimes(descs) }

// Collect is of [prometheus.Collector].
func (j *judged) Collect(series chan<- prometheus.Metric) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for service, t := range j.services {
		t.Collect(series, service)
	}
}
