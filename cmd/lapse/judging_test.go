package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lapse/correlate/model"
	"lapse/run"
	"lapse/timeline"
)

// What counts as observed, as slow and as enough is decided by whoever starts the run: the agent is told, and it is kept for a later judgement.
func TestAgentIsToldHowTheRunIsToBeJudged(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  timeline.Options
	}{
		{nil, timeline.Options{MinCoverage: model.MinCoverage}},
		{
			[]string{"--resolution=20ms", "--min-coverage=95%", "--slow=300ms"},
			timeline.Options{Resolution: 20 * time.Millisecond, MinCoverage: 0.95, Slow: 300 * time.Millisecond},
		},
	} {
		parsed := func(flags []string) *run.Options {
			var o run.Options
			cmd := &cobra.Command{}
			runFlags(&o, cmd)
			if err := cmd.ParseFlags(flags); err != nil {
				t.Fatal(err)
			}
			return &o
		}
		here := parsed(append(test.flags, "--duration=1s"))
		if err := here.Check([]string{"svc/web"}, nil); err != nil {
			t.Fatal(err)
		}
		there := parsed(here.AgentArgs("shop")[1:])
		if err := there.CheckNumbers(); err != nil {
			t.Fatal(err)
		}
		for where, o := range map[string]*run.Options{"here": here, "in the cluster": there} {
			got := o.Recorded()
			if got.Resolution != test.want.Resolution || got.MinCoverage != test.want.MinCoverage || got.Slow != test.want.Slow {
				t.Errorf("%v, %s: %+v, want %+v", test.flags, where, got, test.want)
			}
		}
	}
}

func TestCoverageThatNoRunCanMissOrReachIsRefused(t *testing.T) {
	for text, want := range map[string]float64{"99%": 0.99, "0.9": 0.9, "100%": 1, "0": 0, "101%": 0, "-1%": 0, "much": 0, "": 0} {
		if got, err := run.ParseCoverage(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("--min-coverage %q: %v, %v; want %v", text, got, err, want)
		}
	}
}
