package main

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
	"time"

	"lapse/internal/record"
	"lapse/loadgen"
	"lapse/timeline"
)

// flushEvery is how often Lapse completes a block of its recording in a cluster; `lapse run` here does once a second.
const flushEvery = 250 * time.Millisecond

// runLapse is Lapse's engine with its recording and nothing else: no control target, no judgement.
func runLapse(ctx context.Context, l load) (outcome, error) {
	if l.Profile != "" {
		stop, err := profile(l.Profile)
		if err != nil {
			return outcome{}, err
		}
		defer stop()
	}
	keep := keeper{}
	if l.Record != "" {
		w, err := record.Create(l.Record)
		if err != nil {
			return outcome{}, err
		}
		keep.file = w
	}
	zero := monotonic()
	clock := timeline.StartClock()
	prober := loadgen.New(loadgen.Config{Clock: clock, Source: 1, Sink: keep.take})
	target := timeline.Target{ID: 1, Name: "reused", Kind: timeline.Reused, Source: 1, URL: l.URL, Rate: l.Rate}
	keep.take(timeline.Meta{T0: clock.T0()})
	keep.take(target)
	if err := prober.Start(loadgen.Probe{Target: target, Connections: l.Connections}); err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.For)
	defer cancel()
	err := prober.Run(ctx)
	keep.outcome.Zero = zero
	return keep.outcome, errors.Join(err, keep.close())
}

func profile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}

// A keeper is the prober's sink: it counts, and records as `lapse run` does. The prober calls it from one goroutine
// at a time.
type keeper struct {
	file    *record.Writer // nil: nothing is recorded
	flushed time.Time
	outcome outcome
	err     error // the first of the recording
}

func (k *keeper) take(f timeline.Fact) {
	if b, ok := f.(timeline.Batch); ok {
		k.count(b)
	}
	if k.file == nil {
		return
	}
	k.keep(k.file.Append(f))
	if now := time.Now(); now.Sub(k.flushed) >= flushEvery {
		k.flushed = now
		k.keep(k.file.Flush())
	}
}

func (k *keeper) count(b timeline.Batch) {
	for i := range b.Requests {
		r := &b.Requests[i]
		switch {
		case r.Class == timeline.NotSent || r.Class == timeline.Local:
			k.outcome.NotSent++
			continue
		case r.Class != timeline.OK:
			k.outcome.Failed++
		}
		if r.Sent-r.Due > 5*time.Millisecond {
			k.outcome.Late++
		}
		k.outcome.Requests++
	}
}

func (k *keeper) keep(err error) {
	if k.err == nil {
		k.err = err
	}
}

func (k *keeper) close() error {
	if k.file != nil {
		k.keep(k.file.Close())
	}
	return k.err
}
