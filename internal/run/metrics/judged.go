package metrics

import (
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
		"How long the target that lost most was down: at least (min) and at most (max).", []string{"bound"}, nil)
	observedDesc = prometheus.NewDesc("lapse_observed_seconds_total",
		"How long the target that lost most was surely up, was surely down, or was not observed. "+
			"What lies within the error bars is in none of these.", []string{"state"}, nil)
)

func (j *judged) take(tl *model.Timeline) {
	v := &tl.Verdict
	if v.Sent == 0 {
		return
	}
	var measured time.Duration
	for _, t := range tl.Targets {
		if t.Kind.Judged() {
			measured = max(measured, t.Measured.Latest-t.Measured.Earliest)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	unseen := time.Duration(float64(measured) * (1 - v.Coverage))
	j.downtime.Min = max(j.downtime.Min, v.Downtime.Total.Min)
	j.downtime.Max = max(j.downtime.Max, v.Downtime.Total.Max)
	j.unseen = max(j.unseen, unseen)
	if !v.Downtime.Open {
		j.up = max(j.up, measured-max(unseen, v.Downtime.Total.Max))
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
