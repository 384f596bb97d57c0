package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"lapse/sandbox/drill"
)

// judgeAll has Lapse judge saved runs again, by the scenarios as they are now. Runs of which that makes no sense are
// left out.
func judgeAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, leftOut int, err error) {
	var files []string
	for _, depth := range []string{"", "*", "*/*", "*/*/*", "*/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(s.Judge, depth, recordFile))
		if err != nil {
			return nil, 0, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		r, err := judgeAgain(ctx, s.Lapse, file, scenarios)
		if why, ok := errors.AsType[outdated](err); ok {
			leftOut++
			fmt.Fprintf(os.Stderr, "%s was left out: %v\n", file, why)
			continue
		}
		if err != nil {
			return results, leftOut, err
		}
		if r.scenario.Name == "" {
			continue // it was not asked for
		}
		results = append(results, r)
		fmt.Fprint(os.Stderr, r.String())
	}
	return results, leftOut, nil
}

// judgeAgain judges one saved run; its error is of a run that makes no sense any more, or of a file.
func judgeAgain(ctx context.Context, lapse, file string, scenarios []Scenario) (r result, err error) {
	if r.record, err = readRecord(file); err != nil {
		return r, err
	}
	i := slices.IndexFunc(scenarios, func(c Scenario) bool { return c.Name == r.Scenario })
	if i < 0 {
		return r, nil
	}
	r.scenario = scenarios[i]
	if err := r.outdated(); err != nil {
		return r, err
	}
	dir := filepath.Join(filepath.Dir(file), "run")
	recorded, err := drill.ReadTimeline(dir)
	if err != nil {
		return r, err
	}
	r.recorder = recorded.Tool.Version
	if r.run, r.err = drill.Judge(ctx, lapse, dir); r.err == nil {
		r.judge()
	}
	return r, nil
}

// outdated is why a saved run cannot be judged by the scenario as it is now.
type outdated string

func (o outdated) Error() string { return string(o) }

// outdated returns such an error if the scenario has changed since. What was not recorded is not expected of the run.
func (r *result) outdated() error {
	played, err := Parse(r.scenario.File, []byte(r.Text))
	if r.scenario.original != "" {
		played = played.fixed()
	}
	same := func(a, b Step) bool { return a.Text == b.Text }
	taken := func(d Done, s Step) bool { return d.Text == s.Text && !d.Ended.IsZero() }
	switch {
	case err != nil:
		return outdated("only another version can read its scenario: " + err.Error())
	case played.Manifest != r.scenario.Manifest || played.GoodFor != r.scenario.GoodFor || !slices.Equal(played.Flags, r.scenario.Flags) || !slices.Equal(played.Targets, r.scenario.Targets) || !played.Outside.equal(r.scenario.Outside) || !maps.Equal(played.Further, r.scenario.Further) || !slices.EqualFunc(played.Steps, r.scenario.Steps, same):
		return outdated("the scenario does something else now")
	case !slices.EqualFunc(r.Steps, r.scenario.Steps, taken):
		return outdated("it was cut off")
	}
	r.scenario.Expect.Lags = r.scenario.Expect.Lags && played.Expect.Lags
	return nil
}
