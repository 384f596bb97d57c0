package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/trend"
	"lapse/dashboard"
	"lapse/internal/history"
	trends "lapse/internal/report/trend"
	"lapse/internal/run/saved"
)

// A load judges the saved run at a path.
type load = func(path string) (*model.Timeline, error)

// Several returns the runs of a folder, or the two runs at paths; ok is false where paths are one run.
func Several(paths []string, load load) (folder dashboard.Folder, ok bool, _ error) {
	if len(paths) == 2 {
		folder, err := compared(paths[0], paths[1], load)
		return folder, true, err
	}
	folder, ok = listed(paths[0], load)
	return folder, ok, nil
}

// listed returns the runs whose directories are in dir; ok is false where dir is a run itself, or has none.
func listed(dir string, load load) (folder dashboard.Folder, ok bool) {
	return Folder(dir, load), len(saved.Runs(dir)) > 0
}

// Folder returns the runs whose directories are in dir, at each look those that are there then.
func Folder(dir string, load load) (folder dashboard.Folder) {
	of := &runsOf{dir: dir, known: map[string]judged{}, now: time.Now}
	folder.Runs = of.look
	folder.Open = func(name string) (*dashboard.Store, dashboard.Options, error) {
		tl, err := load(filepath.Join(dir, name))
		if err != nil {
			return nil, dashboard.Options{}, err
		}
		store, options := opened(tl)
		return store, options, nil
	}
	return folder
}

// runsOf are the runs of a directory, and what was read of them.
type runsOf struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	known map[string]judged // judged runs do not change
	last  dashboard.Runs
}

// A judged run has a place in the list, and lines of history.
type judged struct {
	listed dashboard.Listed
	lines  []history.Line
}

// shownDays is how many days are shown of each Service.
const shownDays = 30

// look returns the runs that are there, and what they show together with those that only the history has.
func (r *runsOf) look() dashboard.Runs {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, now := saved.Runs(r.dir), r.now()
	before := r.known
	r.known = map[string]judged{}
	var unjudged []dashboard.Listed
	for _, name := range names {
		run, ok := before[name]
		if !ok {
			run, ok = read(name, filepath.Join(r.dir, name))
		}
		if ok {
			r.known[name] = run
		} else {
			unjudged = append(unjudged, run.listed)
		}
	}
	if version := r.version(names, now); version != r.last.Version {
		r.last = r.together(names, now)
		r.last.Version = version
	}
	runs := r.last
	runs.Listed = append(slices.Clip(runs.Listed), unjudged...)
	return runs
}

// version differs if what the runs show together may.
func (r *runsOf) version(names []string, now time.Time) string {
	sum := fnv.New64a()
	for _, name := range names {
		_, judged := r.known[name]
		fmt.Fprintln(sum, name, judged)
	}
	for _, name := range []string{saved.HistoryFile, saved.ObservedFile} {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			fmt.Fprintln(sum, info.Size(), info.ModTime())
		}
	}
	return fmt.Sprintf("%x-%s", sum.Sum64(), history.DayOf(now))
}

// together returns the judged runs, and what they show. What cannot be read of the history is left out, as what is not
// observed.
func (r *runsOf) together(names []string, now time.Time) dashboard.Runs {
	runs := dashboard.Runs{Listed: []dashboard.Listed{}}
	var lines []history.Line
	if f, err := os.Open(filepath.Join(r.dir, saved.HistoryFile)); err == nil {
		lines, _, _ = history.Read(f)
		f.Close()
	}
	for _, name := range names {
		if run, ok := r.known[name]; ok {
			runs.Listed, lines = append(runs.Listed, run.listed), append(lines, run.lines...)
		}
	}
	observed, _ := saved.ReadObserved(r.dir)
	all := trend.Of(lines)
	runs.Days, runs.Trend = trend.Days(lines, observed, now, shownDays), trends.Say(&all)
	return runs
}

// compared returns two runs, judged.
func compared(a, b string, load load) (dashboard.Folder, error) {
	names := []string{named(a), named(b)}
	if names[0] == names[1] {
		names = []string{"1-" + names[0], "2-" + names[1]}
	}
	var runs []dashboard.Listed
	folder := dashboard.Folder{Compared: names, Runs: func() dashboard.Runs { return dashboard.Runs{Listed: runs} }}
	of := map[string]*model.Timeline{}
	for i, path := range []string{a, b} {
		tl, err := load(path)
		if err != nil {
			return folder, err
		}
		runs, of[names[i]] = append(runs, dashboard.Listed{Name: names[i]}), tl
	}
	folder.Open = func(name string) (*dashboard.Store, dashboard.Options, error) {
		store, options := opened(of[name])
		return store, options, nil
	}
	return folder, nil
}

// named returns the name of a run in a page's address.
func named(path string) string {
	return strings.NewReplacer(",", "_", "/", "_").Replace(filepath.Base(filepath.Clean(path)))
}

// opened returns what the page of an ended run shows.
func opened(tl *model.Timeline) (*dashboard.Store, dashboard.Options) {
	p := NewPage()
	p.Show(tl, tl.Run.Duration)
	return p.store, p.options()
}

// read reads what is said of a run from its timeline.json: not all runs of a folder are judged anew for that. ok is
// false if it is not judged yet.
func read(name, path string) (run judged, ok bool) {
	run.listed = dashboard.Listed{Name: name, Word: "not judged"}
	text, err := os.ReadFile(filepath.Join(path, saved.TimelineFile))
	if err != nil {
		return run, false
	}
	tl := new(model.Timeline)
	if json.Unmarshal(text, tl) != nil {
		return run, true
	}
	run.lines = history.Of(tl, "")
	l := &run.listed
	l.Began, l.Failed, l.Sent = tl.T0, tl.Verdict.Failed, tl.Verdict.Sent
	l.Result, l.Headline = string(tl.Verdict.Result), tl.Said.Headline
	l.Outcome = string(trend.OutcomeOf(run.lines...))
	l.Word = cmp.Or(tl.Said.Word, strings.ToUpper(l.Result))
	if l.Failed > 0 {
		l.Down = quantity.Length(tl.Verdict.Downtime.Total, tl.Verdict.Downtime.Open)
	}
	longest := time.Duration(-1)
	for i := range tl.Incidents {
		in := &tl.Incidents[i]
		if len(in.Causes) > 0 && in.Downtime.Max > longest {
			longest, l.Cause, l.Fix = in.Downtime.Max, in.Causes[0].Rule, in.Causes[0].Fix
		}
	}
	for _, line := range run.lines {
		if line.Service != "" {
			l.Services = append(l.Services, line.Service)
		}
		l.Release = append(l.Release, line.Release.Templates...)
	}
	if l.Services == nil && len(tl.Run.URLs) > 0 {
		l.Services = []string{strings.Join(tl.Run.URLs, " ")}
	}
	l.SetOff = setOff(run.lines)
	return run, true
}

// setOff returns what ended the Pods of a run, as in "drain of node1".
func setOff(lines []history.Line) string {
	var triggers []string
	for _, of := range lines {
		for _, t := range of.Triggers {
			text := string(t.Kind)
			if _, object, ok := strings.Cut(t.Object, "/"); ok {
				text += " of " + object
			}
			if !slices.Contains(triggers, text) {
				triggers = append(triggers, text)
			}
		}
	}
	return strings.Join(triggers, ", ")
}
