// Command hour disrupts ten Services of the sandbox again and again, announced to nobody, and holds what a guard of
// two Pods makes of it against what was done and what the servers counted.
//
//	hour --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../runs
//	hour --lapse ../bin/lapse --modes '' -minutes 5 -every 20s     a short one, on the sandbox as it is
//	hour --lapse ../bin/lapse --judge ../runs/hour-…               the table again, from what was saved
//
// It exits 1 if a disruption has no run or several, if there is a run without a disruption, if a verdict is wrong, if
// the requests that were answered are not those that the servers counted, or if the memory of a guard grows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const (
	namespace = "hour"
	table     = "hour.md"
)

type settings struct {
	drill.Series
	minutes int
	every   time.Duration
	rest    time.Duration
}

func main() {
	s := settings{Series: drill.Series{Modes: drill.List{"iptables"}, N: 1, Rate: 50}}
	s.Flags(flag.CommandLine, "repetitions in each mode")
	s.OutFlag(flag.CommandLine, table)
	flag.IntVar(&s.minutes, "minutes", 60, "how long Services are disrupted")
	flag.DurationVar(&s.every, "every", time.Minute, "time from one disruption to the next")
	flag.DurationVar(&s.rest, "rest", time.Minute, "how long nothing happens before, without a guard and with it")
	drill.Main("hour", func(ctx context.Context) error { return s.study().Run(ctx, s.Series) })
}

// An hour is one play. It is saved as it is.
type hour struct {
	drill.Conditions
	Number      int
	Nodes       int
	Disruptions []disruption
	Guards      []guard
	Answered    int // requests that the servers have answered, as they count themselves
	Idle        requests
}

// requests are those to the API server per second while nothing happens.
type requests struct{ Without, With float64 }

func (h hour) String() string {
	return fmt.Sprintf("%d disruptions, runs of the guards: %d and %d",
		len(h.Disruptions), len(h.Guards[0].Runs), len(h.Guards[1].Runs))
}

func (s settings) study() drill.Study[hour] {
	return drill.Study[hour]{
		Name: "hour", Table: table, File: "hour.json",
		Plan: func(mode string) (all []hour) {
			for i := range s.N {
				all = append(all, hour{Conditions: drill.Conditions{Mode: mode}, Number: i + 1})
			}
			return all
		},
		Folder:  func(h hour) string { return filepath.Join(h.Mode, fmt.Sprint(h.Number)) },
		Measure: s.measure,
		End: func(ctx context.Context, c *drill.Cluster) error {
			return errors.Join(c.Uncordon(ctx), c.Remove(ctx, drill.GuardNamespace), c.Remove(ctx, namespace))
		},
		Document: document,
		Verdict: func(hours []hour) (err error) {
			for _, h := range hours {
				err = errors.Join(err, errors.Join(h.wrong()...))
			}
			return err
		},
	}
}

// flags are those of the guards. No metric counts the requests to the Pods' own addresses: there are none.
func (s settings) flags() []string {
	return []string{fmt.Sprintf("--rate=%d", s.Rate), "--direct-rate=0"}
}

// measure plays the disruptions, and takes what the guards and the servers say.
func (s settings) measure(ctx context.Context, c *drill.Cluster, h *hour, dir string) error {
	log := openLogs(c)
	defer log.close()
	if err := deploy(ctx, c); err != nil {
		return err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	h.Nodes = len(nodes)
	if h.Idle.Without, err = apiRequests(ctx, c, s.rest); err != nil {
		return err
	}
	h.Begin("lapse gen guard -A -- " + strings.Join(s.flags(), " "))
	guards, err := s.guard(ctx, c)
	if err != nil {
		return err
	}
	measured := func(phase string) error {
		var errs error
		for _, g := range guards {
			errs = errors.Join(errs, g.sample(phase))
		}
		return errs
	}
	if err := measured("start"); err != nil {
		return err
	}
	if h.Idle.With, err = apiRequests(ctx, c, s.rest); err != nil {
		return err
	}
	if err := measured("idle"); err != nil {
		return err
	}
	begins := time.Now()
	for i := 0; time.Since(begins) < time.Duration(s.minutes)*time.Minute; i++ {
		d, err := disturb(ctx, c, i)
		if err != nil {
			return err
		}
		h.Disruptions = append(h.Disruptions, d)
		if err := sleep(ctx, time.Until(begins.Add(time.Duration(i+1)*s.every))); err != nil {
			return err
		}
		if err := measured("disrupted"); err != nil {
			return err
		}
	}
	for _, g := range guards {
		if err := g.settles(ctx, c); err != nil {
			return err
		}
	}
	if h.Answered, err = counted(ctx, c, log, guards); err != nil {
		return err
	}
	for _, g := range guards {
		if err := g.read(dir); err != nil {
			return err
		}
		h.Guards = append(h.Guards, *g)
	}
	return nil
}

// counted returns how many requests the servers have answered. What the guards have counted before and after that is in
// their Answered.
func counted(ctx context.Context, c *drill.Cluster, log *logs, guards []*guard) (int, error) {
	for _, g := range guards {
		if err := g.count(ctx, c, func(n, failed int) { g.Answered.Min, g.Failed = n, failed }); err != nil {
			return 0, err
		}
	}
	answered, err := log.answered(ctx, c)
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, 3*time.Second); err != nil { // until what was answered is counted
		return 0, err
	}
	for _, g := range guards {
		if err := g.count(ctx, c, func(n, _ int) { g.Answered.Max = n }); err != nil {
			return 0, err
		}
	}
	return answered, nil
}

func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
