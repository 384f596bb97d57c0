// Package source is a process that measures for a run: the machine that a run is started on, the Job's Pod, a prober
// on another node, or the workstation in addition to the Job. Each sends requests on its own clock, asks its own
// control target, and hands over what it measured.
package source

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"lapse/internal/run/facts"
	"lapse/loadgen"
	"lapse/timeline"
)

// MostControl is the highest rate of a control target, in requests per second.
const MostControl = 100.0

// controlConnections is how many connections a control target keeps. While these wait it opens others, as any target
// does: more would only take memory, of each of many Services.
const controlConnections = 2

// A Config says who measures, and how.
type Config struct {
	ID     timeline.SourceID
	Clock  timeline.Clock
	Pacing loadgen.Pacing
	Thread *loadgen.Thread     // paces it among others; nil: one of its own
	Sink   func(timeline.Fact) // default: a queue, which [Source.Measure] hands on
	Logger *slog.Logger
}

// A Source sends the requests of one process. Make one with [New]; end it with [Source.Run] or [Source.Measure], or
// with [Source.Close] if neither is called.
type Source struct {
	Config
	Facts *facts.Queue // measured and not handed over yet; other facts of this process can be put here

	prober       *loadgen.Prober
	controlURL   string // of the control server; empty: not started
	closeControl context.CancelFunc
}

// New returns a source without targets.
func New(c Config) *Source {
	s := &Source{Config: c, Facts: facts.NewQueue(), closeControl: func() {}}
	if s.Sink == nil {
		s.Sink = s.Facts.Put
	}
	s.prober = loadgen.New(loadgen.Config{
		Clock: s.Clock, Source: s.ID, Sink: s.Sink, Logger: s.Logger, Pacing: s.Pacing, Thread: s.Thread,
	})
	return s
}

// Start begins to measure a target. A target of kind control is asked at this process's own control server. The event
// says that the target is measured, and names no source.
func (s *Source) Start(p loadgen.Probe) (timeline.Event, error) {
	p.Source = s.ID
	if p.Kind == timeline.Control {
		if err := s.serveControl(); err != nil {
			return timeline.Event{}, err
		}
		p.URL, p.Connections = s.controlURL, controlConnections
	}
	began := TargetIs(p.Name, "", "measuring", s.Clock.Now())
	if err := s.prober.Start(p); err != nil {
		return timeline.Event{}, fmt.Errorf("measure %s: %w", p.Name, err)
	}
	return began, nil
}

// StartAll begins to measure all targets, or none.
func (s *Source) StartAll(probes []loadgen.Probe) error {
	var began []timeline.Event
	for _, p := range probes {
		event, err := s.Start(p)
		if err != nil {
			s.Close()
			return err
		}
		event.Source = s.ID
		began = append(began, event)
	}
	for _, event := range began {
		s.Sink(event)
	}
	return nil
}

// serveControl starts the control server, unless it runs.
func (s *Source) serveControl() error {
	if s.controlURL != "" {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	address, err := loadgen.ServeControl(ctx)
	if err != nil {
		stop()
		return err
	}
	s.controlURL, s.closeControl = "http://"+address.String()+"/", stop
	return nil
}

// Stop ends a target. Requests in flight are awaited.
func (s *Source) Stop(id timeline.TargetID) { s.prober.Stop(id) }

// SetRate changes the rate of a target, in requests per second.
func (s *Source) SetRate(id timeline.TargetID, rate float64) { s.prober.SetRate(id, rate) }

// Forget is that of [loadgen.Prober].
func (s *Source) Forget(id timeline.TargetID) { s.prober.Forget(id) }

// Abandon stops waiting for responses.
func (s *Source) Abandon() { s.prober.Abandon() }

// Run sends requests until ctx ends, and waits for the last responses. The control server ends last: it answers every
// request.
func (s *Source) Run(ctx context.Context) error {
	defer s.Close()
	return s.prober.Run(ctx)
}

// Close ends the control server.
func (s *Source) Close() { s.closeControl() }

// Measure sends requests until ctx ends, and hands over what was measured each 250 ms. The last time is after the
// last response. An error of hand ends both, and is returned.
func (s *Source) Measure(ctx context.Context, hand Hand) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := s.Run(ctx); err != nil {
			s.Logger.Error("probing failed", "error", err)
		}
	}()
	err := HandOver(over, s.Facts, Always, hand)
	stop()
	<-over
	return err
}

// TargetIs returns the event of a target that begins or ends.
func TargetIs(name, from, to string, now time.Duration) timeline.Event {
	return timeline.Event{
		Seen: now, Kind: timeline.TargetChanged, From: from, To: to,
		Object: timeline.Object{Kind: "Target", Name: name},
	}
}

// RateIs returns the event of a target that is asked at another rate, in requests per second.
func RateIs(name string, from, to float64, now time.Duration) timeline.Event {
	perSecond := func(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) }
	return timeline.Event{
		Seen: now, Kind: timeline.RateChanged, From: perSecond(from), To: perSecond(to),
		Object: timeline.Object{Kind: "Target", Name: name},
	}
}
