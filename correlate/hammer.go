package correlate

import (
	"encoding/json"
	"math"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

func (r *runState) hammerChanged(e timeline.Event) {
	h := model.Hammer{}
	if r.hammer != nil {
		h = *r.hammer
	}
	if e.To == "running" {
		h.Args, h.Start = e.Detail, new(e.Seen)
	} else if h.End = new(e.Seen); e.Detail != "" {
		h.Summary, h.Error = readHammer(e.Detail)
	}
	r.hammer = &h
}

// readHammer reads the end of the background load as its event has it: hey's summary as JSON, times in seconds, or
// else an error's text.
func readHammer(detail string) (*model.HammerSummary, string) {
	var hey struct {
		Total               float64
		NumRes              int
		Unanswered          int
		Average             float64
		Fastest             float64
		Slowest             float64
		LatencyDistribution []struct{ Percentage, Latency float64 }
		StatusCodeDist      map[string]int
		ErrorDist           map[string]int
		SizeTotal           int64
	}
	if json.Unmarshal([]byte(detail), &hey) != nil {
		return nil, detail
	}
	s := &model.HammerSummary{
		Duration: inSeconds(hey.Total), Requests: hey.NumRes, Unanswered: hey.Unanswered, Bytes: hey.SizeTotal,
		Statuses: orEmpty(hey.StatusCodeDist), Errors: orEmpty(hey.ErrorDist),
	}
	if hey.Total > 0 {
		s.Rate = float64(hey.NumRes) / hey.Total
	}
	if hey.Slowest <= 0 {
		return s, ""
	}
	s.Latency = &model.HammerLatency{Mean: inSeconds(hey.Average), Min: inSeconds(hey.Fastest),
		Max: inSeconds(hey.Slowest)}
	quantiles := map[float64]*time.Duration{50: &s.Latency.P50, 90: &s.Latency.P90, 95: &s.Latency.P95,
		99: &s.Latency.P99}
	for _, q := range hey.LatencyDistribution {
		if into := quantiles[q.Percentage]; into != nil {
			*into = inSeconds(q.Latency)
		}
	}
	return s, ""
}

func inSeconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// orEmpty returns m, but never nil, which JSON would write as null.
func orEmpty(m map[string]int) map[string]int {
	if m == nil {
		return map[string]int{}
	}
	return m
}
