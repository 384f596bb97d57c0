package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"lapse/sandbox/drill"
)

// table is the file for the table.
const table = "causes.md"

type settings struct {
	drill.Series
	scenarios string
	names     []string
	checkOnly bool
	fixed     bool // play scenarios with their fix
	together  int  // how many are played side by side, where they touch nothing that others share
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == awaitVerb {
		os.Exit(await(os.Args[2], os.Stdout))
	}
	var s settings
	s.Modes, s.N, s.Rate = drill.List{""}, 1, 100
	s.Flags(flag.CommandLine, "runs of each scenario in each mode")
	s.OutFlag(flag.CommandLine, table)
	flag.StringVar(&s.scenarios, "scenarios", "lab/scenarios", "folder of the scenarios")
	flag.BoolVar(&s.fixed, "fixed", false, "play each scenario that has a fix with it: no request may fail")
	flag.IntVar(&s.together, "together", 3, "how many scenarios are played side by side, of those that touch only "+
		"what is in their own namespace")
	flag.BoolVar(&s.checkOnly, "check", false, "read the scenarios only")
	drill.Main("lab", func(ctx context.Context) error {
		s.names = flag.Args()
		return lab(ctx, s)
	})
}

func lab(ctx context.Context, s settings) error {
	if s.together < 1 {
		return fmt.Errorf("-together %d: want 1 (one after the other) or more", s.together)
	}
	scenarios, err := Load(s.scenarios, s.names...)
	if err != nil {
		return err
	}
	if s.checkOnly {
		fmt.Printf("%d scenarios, %d with a fix\n", len(scenarios), len(withFix(scenarios)))
		return nil
	}
	collect := measureAll
	switch {
	case s.Judge != "":
		collect, scenarios = judgeAll, append(scenarios, withFix(scenarios)...)
	case s.fixed:
		scenarios = withFix(scenarios)
	}
	results, left, err := collect(ctx, s, scenarios)
	if len(results) == 0 {
		return cmp.Or(err, errors.New("no runs"))
	}
	err = errors.Join(err, publish(s, results, left))
	failed := 0
	for _, r := range results {
		if !r.ok() {
			failed++
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d runs are not as their scenario expects", failed, len(results)))
	}
	return err
}

// withFix returns the scenarios that have a fix, with the fix applied.
func withFix(scenarios []Scenario) (fixed []Scenario) {
	for _, s := range scenarios {
		if s.hasFix() {
			fixed = append(fixed, s.fixed())
		}
	}
	return fixed
}

// A result is one run of a scenario, judged.
type result struct {
	record
	scenario Scenario
	run      drill.Run
	recorder string // the version of Lapse that recorded the run
	names    []named
	checks   []check

	err   error // the scenario could not be played
	voids int   // runs before this one that were void
}

func (r result) ok() bool {
	return r.err == nil && !slices.ContainsFunc(r.checks, func(c check) bool { return !c.ok })
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, run %d (%s): ", r.scenario.Name, r.Mode, r.Number, r.run.Dir)
	if r.err != nil {
		fmt.Fprintf(&b, "could not be played: %v\n", r.err)
		return b.String()
	}
	fmt.Fprintf(&b, "coverage %.1f %%, load %s\n", 100*r.run.Timeline.Verdict.Coverage, r.LoadAvg)
	for _, c := range r.checks {
		fmt.Fprintln(&b, "  ", c)
	}
	return b.String()
}

// judge holds what Lapse says now against the scenario.
func (r *result) judge() { r.names, r.checks = judge(r.scenario, r.record, r.run.Timeline) }
