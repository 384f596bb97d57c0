package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lapse/correlate/model"
)

// judged has what was judged of a run so far. A counter never falls: where a later judgement says less, the earlier
// one stays.
type judged struct {
	mu       sync.Mutex
	downtime model.Length
	up       time.Duration
	unseen   time.Duration
}

var (
	downtimeDesc = prometheus.NewDesc("lapse_downtime_seconds_total",
		"How long the target that lost most was down, of what was observed up to now: "+
			"at least (min) and at most (max). "+
			"A failure that was under way when measuring began, or that goes on, may be longer than max.",
		[]string{"bound"}, nil)
	observedDesc = prometheus.NewDesc("lapse_observed_seconds_total",
		"How long the target that lost most was surely up, was surely down, or was not observed. "+
			"What lies within the error bars is in none of these.", []string{"state"}, nil)
)

func (j *judged) take(tl *model.Timeline) {
	var measured []time.Duration // how long each target was
	for i := range tl.Targets {
		if t := &tl.Targets[i]; t.Kind.Judged() {
			measured = append(measured, t.Measured.Latest-t.Measured.Earliest)
		}
	}
	if len(measured) == 0 {
		return
	}
	v, longest := &tl.Verdict, slices.Max(measured)
	down, unseen := v.Downtime.Total, time.Duration(float64(longest)*(1-v.Coverage))
	if v.Sent == 0 { // all that is known is that nothing was seen
		down, unseen = model.Length{Max: longest}, longest
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.downtime.Min = max(j.downtime.Min, down.Min)
	j.downtime.Max = max(j.downtime.Max, down.Max)
	j.unseen = max(j.unseen, unseen)
	if !v.Downtime.Open {
		j.up = max(j.up, slices.Min(measured)-max(unseen, down.Max))
	}
}

// Describe is of [prometheus.Collector].
func (j *judged) Describe(descs chan<- *prometheus.Desc) {
	descs <- downtimeDesc
	descs <- observedDesc
}

// Collect is of [prometheus.Collector].
func (j *judged) Collect(series chan<- prometheus.Metric) {
	j.mu.Lock()
	defer j.mu.Unlock()
	counter := func(of *prometheus.Desc, d time.Duration, label string) {
		series <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, d.Seconds(), label)
	}
	counter(downtimeDesc, j.downtime.Min, "min")
	counter(downtimeDesc, j.downtime.Max, "max")
	counter(observedDesc, j.up, "up")
	counter(observedDesc, j.downtime.Min, "down")
	counter(observedDesc, j.unseen, "unobserved")
}
