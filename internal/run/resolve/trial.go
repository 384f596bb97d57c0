package resolve

import (
	"context"
	"slices"
	"time"

	"lapse/internal/run/measure"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
)

// Chosen Services get trial requests before the run begins. A Service that never answers is set aside: in the run it
// would fail the baseline.
const (
	trialFor  = time.Second
	trialRate = 5
	trialWait = 5 * time.Second // for the last responses
)

// A trial counts how the trial requests to one Service ended.
type trial struct {
	target  spec.Target
	ok      int
	failed  map[string]int // by class
	because string         // the text of the first failure
}

// tryChosen sets aside each chosen Service without a good response. A Service to which no request was sent stays.
func (r *Found) tryChosen(ctx context.Context) error {
	trials, err := r.try(ctx)
	if err != nil {
		return err
	}
	for _, t := range trials {
		if class := measure.Commonest(t.failed); t.ok == 0 && class != "" {
			r.setAside(t.target, "it gave no good answer before the run began: "+because(class, t.because))
			r.forget(t.target)
		}
	}
	return r.keepFound()
}

func because(class, text string) string {
	if text == "" {
		return class
	}
	return class + ", " + text
}

// forget removes a Service from the run.
func (r *Found) forget(s spec.Target) {
	r.Services = slices.DeleteFunc(r.Services, func(have spec.Service) bool { return have.Target == s })
}

// try sends a few requests to each Service, on new connections.
func (r *Found) try(ctx context.Context) ([]*trial, error) {
	trials := make([]*trial, len(r.opts.Parsed))
	byName := map[string]*trial{}
	take := func(f timeline.Fact) {
		switch f := f.(type) {
		case timeline.Batch:
			for _, request := range f.Requests {
				trials[request.Target-1].take(request.Class)
			}
		case timeline.Event:
			if t := byName[f.Object.Name]; t != nil && t.because == "" && f.Kind == timeline.RequestError {
				t.because = f.Detail
			}
		}
	}
	config := loadgen.Config{Clock: timeline.StartClock(), Source: 1, Logger: r.logger, Sink: take}
	prober := loadgen.New(config)
	for i, s := range r.Resolved() {
		p := r.opts.ProbeOf(s)
		p.ID, p.Kind, p.Name = timeline.TargetID(i+1), timeline.New, r.opts.Label(s.Target)
		p.Rate, p.Timeout = trialRate, r.opts.Timeout
		trials[i] = &trial{target: s.Target, failed: map[string]int{}}
		byName[p.Name] = trials[i]
		if err := prober.Start(p); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, trialFor)
	defer cancel()
	defer time.AfterFunc(trialFor+trialWait, prober.Abandon).Stop()
	return trials, prober.Run(ctx)
}

func (t *trial) take(class timeline.Class) {
	switch {
	case class == timeline.OK:
		t.ok++
	case class.Failed():
		t.failed[class.String()]++
	}
}
