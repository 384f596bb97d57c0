package sample

import (
	"fmt"
	"time"

	"lapse/correlate/model"
)

// chunk is how many slots of a series go under one key.
const chunk = 20

// A bucketChunk is a stretch of one target's series.
type bucketChunk struct {
	Start      int               `json:"start"`
	Sent       []int             `json:"sent"`
	Failed     []int             `json:"failed"`
	Unobserved []float64         `json:"unobserved"`
	Latency    []model.Histogram `json:"latency"`

	Classes map[string]model.SparseCounts `json:"classes,omitzero"` // slots count from the beginning of the run
}

// Fill puts a run, as it stands at instant now, under the keys the page reads.
func Fill(put func(key string, value any) error, run *model.Timeline, now time.Duration) error {
	var failed error
	set := func(key string, value any) {
		if err := put(key, value); err != nil && failed == nil {
			failed = err
		}
	}
	set("tool", run.Tool)
	set("t0", run.T0)
	set("run", run.Run)
	set("live", run.Run.Live)
	set("now", now)
	set("bucketWidth", run.Buckets.Width)
	for _, t := range run.Targets {
		set("target/"+t.Name, t)
	}
	for name, series := range run.Buckets.Targets {
		for start := 0; start < len(series.Sent); start += chunk {
			classes := map[string]model.SparseCounts{}
			for class, pairs := range series.Classes {
				for i := 0; i < len(pairs); i += 2 {
					if start <= pairs[i] && pairs[i] < start+chunk {
						classes[class] = append(classes[class], pairs[i], pairs[i+1])
					}
				}
			}
			end := min(start+chunk, len(series.Sent))
			set(fmt.Sprintf("bucket/%s/%d", name, start/chunk), bucketChunk{
				start, series.Sent[start:end], series.Failed[start:end], series.Unobserved[start:end], series.Latency[start:end], classes,
			})
		}
	}
	for _, e := range run.Events {
		set(fmt.Sprintf("event/%d", e.ID), e)
	}
	for _, p := range run.Pods {
		set("pod/"+p.UID, p)
	}
	set("incidents", run.Incidents)
	set("unobserved", run.Unobserved)
	set("services", run.Services)
	for _, w := range run.Windows {
		set(fmt.Sprintf("window/%d", w.ID), w)
	}
	set("verdict", run.Verdict)
	return failed
}
