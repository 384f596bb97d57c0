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

// leftOut counts the saved runs that are not among the results.
type leftOut struct {
	outdated int // their scenario does something else now
	unjudged int // one without a timeline, for instance
}

// judgeAll has Lapse judge saved runs again, by the scenarios as they are now. A run that is left out is named and
// counted, and the others are judged. The error says how many could not be judged.
func judgeAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, left leftOut, err error) {
	files, err := recordFiles(s.Judge)
	if err != nil {
		return nil, left, err
	}
	for _, file := range files {
		r, err := judgeAgain(ctx, s.Lapse, file, scenarios)
		why, old := errors.AsType[outdated](err)
		switch {
		case ctx.Err() != nil:
			return results, left, ctx.Err()
		case old:
			left.outdated++
			fmt.Fprintf(os.Stderr, "%s was left out: %v\n", file, why)
		case err != nil:
			left.unjudged++
			fmt.Fprintf(os.Stderr, "%s was not judged: %v\n", file, err)
		case r.scenario.Name != "": // it was asked for
			results = append(results, r)
			fmt.Fprint(os.Stderr, r.String())
		}
	}
	if left.unjudged > 0 {
		err = fmt.Errorf("%d of %d saved runs were not judged", left.unjudged, len(files))
	}
	return results, left, err
}

// recordFiles finds the records below a folder: of one run, of a scenario's, of a mode's, of a series, or of several.
func recordFiles(folder string) (files []string, err error) {
	for _, depth := range []string{"", "*", "*/*", "*/*/*", "*/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(folder, depth, recordFile))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// judgeAgain judges one saved run; its error is of a run that makes no sense any more, or of a file.
func judgeAgain(ctx context.Context, lapse, file string, scenarios []Scenario) (r result, err error) {
	if r.record, err = drill.Read[record](file); err != nil {
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
	if r.run, err = drill.Judge(ctx, lapse, dir); err != nil {
		return r, err
	}
	r.judge()
	return r, nil
}

// outdated says why a saved run cannot be judged by the scenario as it is now.
type outdated string

func (o outdated) Error() string { return string(o) }

// doesAs reports whether two scenarios do the same, whatever they expect.
func (s Scenario) doesAs(other Scenario) bool {
	same := func(a, b Step) bool { return a.Text == b.Text }
	return s.Manifest == other.Manifest && s.GoodFor == other.GoodFor && s.Outside.equal(other.Outside) &&
		slices.Equal(s.Flags, other.Flags) && slices.Equal(s.Targets, other.Targets) &&
		maps.Equal(s.Further, other.Further) && slices.EqualFunc(s.Steps, other.Steps, same)
}

// outdated returns such an error if the scenario has changed since. What was not recorded is not expected of the run.
func (r *result) outdated() error {
	played, err := Parse(r.scenario.File, []byte(r.Text))
	if r.scenario.original != "" {
		played = played.fixed()
	}
	taken := func(d Done, s Step) bool { return d.Text == s.Text && !d.Ended.IsZero() }
	switch {
	case err != nil:
		return outdated("only another version can read its scenario: " + err.Error())
	case !played.doesAs(r.scenario):
		return outdated("the scenario does something else now")
	case !slices.EqualFunc(r.Steps, r.scenario.Steps, taken):
		return outdated("it was cut off")
	}
	r.scenario.Expect.Lags = r.scenario.Expect.Lags && played.Expect.Lags
	return nil
}
