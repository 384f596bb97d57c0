package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Trial is one run of a [Study].
type Trial interface {
	String() string // a line to print when the trial is over
	When() time.Time
}

// Conditions says how and on what a trial ran. Trials embed it.
type Conditions struct {
	Mode    string // kube-proxy's
	Began   time.Time
	Machine string
	Command string
}

// Begin notes that a command begins now.
func (c *Conditions) Begin(command string) {
	c.Began, c.Machine, c.Command = time.Now().UTC(), Machine(), command
}

// When returns when the trial began.
func (c Conditions) When() time.Time { return c.Began }

// A Study plays trials on the sandbox, in each of kube-proxy's modes, and makes a table of them.
type Study[T Trial] struct {
	Name  string // of the program: the trials go to RUNS/NAME-TIME
	Table string // the table's file
	File  string // in each trial's folder: what T exports, as JSON. "": it is not saved, and saved runs are not judged

	Plan    func(mode string) []T                       // the trials in a mode, in their order
	Folder  func(trial T) string                        // the trial's, below that of all: two names deep
	Begin   func(ctx context.Context, c *Cluster) error // before the trials of a mode; nil: nothing to do
	Measure func(ctx context.Context, c *Cluster, trial *T, dir string) error
	End     func(ctx context.Context, c *Cluster) error // after the trials of a mode; nil: nothing to do

	// Judge judges the recording of a saved trial; nil: what is saved is all.
	Judge func(ctx context.Context, trial *T, dir string) error

	Document func(trials []T) string // trials is not empty, and sorted by when they began
	Verdict  func(trials []T) error  // what does not hold; nil if all does
}

// Run measures, or judges saved runs, and publishes the table. It does so too of the trials before one that failed.
func (s Study[T]) Run(ctx context.Context, series Series) error {
	collect := s.measure
	if series.Judge != "" {
		collect = s.judge
	}
	trials, err := collect(ctx, series)
	if len(trials) == 0 {
		return cmp.Or(err, errors.New("no runs"))
	}
	slices.SortStableFunc(trials, func(a, b T) int { return a.When().Compare(b.When()) })
	return errors.Join(err, series.Publish(s.Table, s.Document(trials)), s.Verdict(trials))
}

func (s Study[T]) measure(ctx context.Context, series Series) (trials []T, err error) {
	base := series.Base(s.Name)
	for _, mode := range series.Modes {
		c, err := series.Open(ctx, mode, os.Stderr)
		if err != nil {
			return trials, err
		}
		if s.Begin != nil {
			if err := s.Begin(ctx, c); err != nil {
				return trials, err
			}
		}
		for _, trial := range s.Plan(c.ProxyMode()) {
			dir := filepath.Join(base, s.Folder(trial))
			err := s.Measure(ctx, c, &trial, dir)
			if err == nil && s.File != "" {
				err = Save(dir, s.File, trial)
			}
			if err != nil {
				return trials, fmt.Errorf("%s: %w", s.Folder(trial), err)
			}
			trials = append(trials, trial)
			fmt.Fprintln(os.Stderr, trial)
		}
		if s.End != nil {
			if err := s.End(ctx, c); err != nil {
				return trials, err
			}
		}
	}
	return trials, nil
}

func (s Study[T]) judge(ctx context.Context, series Series) (trials []T, err error) {
	if s.File == "" {
		return nil, errors.New("-judge: the truth of these runs is not saved, so they cannot be judged again")
	}
	files, err := filepath.Glob(filepath.Join(series.Judge, "*", "*", s.File))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		trial, err := Read[T](file)
		if err == nil && s.Judge != nil {
			err = s.Judge(ctx, &trial, filepath.Dir(file))
		}
		if err != nil {
			return trials, err
		}
		trials = append(trials, trial)
		fmt.Fprintln(os.Stderr, trial)
	}
	return trials, nil
}

// Group returns the trials of each key, in the order in which the keys first occur.
func Group[T any, K comparable](trials []T, key func(T) K) (groups [][]T) {
	place := map[K]int{}
	for _, t := range trials {
		k := key(t)
		i, known := place[k]
		if !known {
			i, place[k] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}
