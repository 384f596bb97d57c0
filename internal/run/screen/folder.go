package screen

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/dashboard"
	"lapse/internal/history"
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
	var reading sync.Mutex
	known := map[string]dashboard.Listed{} // judged runs do not change
	folder.Runs = func() (runs []dashboard.Listed) {
		reading.Lock()
		defer reading.Unlock()
		before := known
		known = map[string]dashboard.Listed{}
		for _, name := range saved.Runs(dir) {
			l, ok := before[name]
			if !ok {
				l, ok = line(name, filepath.Join(dir, name))
			}
			if runs = append(runs, l); ok {
				known[name] = l
			}
		}
		return runs
	}
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

// compared returns two runs, judged.
func compared(a, b string, load load) (dashboard.Folder, error) {
	names := []string{named(a), named(b)}
	if names[0] == names[1] {
		names = []string{"1-" + names[0], "2-" + names[1]}
	}
	var runs []dashboard.Listed
	folder := dashboard.Folder{Compared: names, Runs: func() []dashboard.Listed { return runs }}
	judged := map[string]*model.Timeline{}
	for i, path := range []string{a, b} {
		tl, err := load(path)
		if err != nil {
			return folder, err
		}
		runs, judged[names[i]] = append(runs, dashboard.Listed{Name: names[i]}), tl
	}
	folder.Open = func(name string) (*dashboard.Store, dashboard.Options, error) {
		store, options := opened(judged[name])
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

// line reads what a list says of a run from its timeline.json: not all runs of a folder are judged anew for that. ok is
// false if it is not judged yet.
func line(name, path string) (l dashboard.Listed, ok bool) {
	l = dashboard.Listed{Name: name, Word: "not judged"}
	text, err := os.ReadFile(filepath.Join(path, saved.TimelineFile))
	if err != nil {
		return l, false
	}
	tl := new(model.Timeline)
	if json.Unmarshal(text, tl) != nil {
		return l, true
	}
	l.Began, l.Failed, l.Sent = tl.T0, tl.Verdict.Failed, tl.Verdict.Sent
	l.Result, l.Headline = string(tl.Verdict.Result), tl.Said.Headline
	l.Word = cmp.Or(tl.Said.Word, strings.ToUpper(l.Result))
	if l.Failed > 0 {
		l.Down = quantity.Length(tl.Verdict.Downtime.Total, tl.Verdict.Downtime.Open)
	}
	longest := time.Duration(-1)
	for i := range tl.Incidents {
		in := &tl.Incidents[i]
		if len(in.Causes) > 0 && in.Downtime.Max > longest {
			longest, l.Cause = in.Downtime.Max, in.Causes[0].Rule
		}
	}
	l.Service, l.SetOff = setOff(history.Of(tl, ""))
	return l, true
}

// setOff returns the Services of a run, and what ended their Pods, as in "drain of node1".
func setOff(lines []history.Line) (services, by string) {
	var names, triggers []string
	for _, of := range lines {
		if of.Service != "" {
			names = append(names, of.Service)
		}
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
	return strings.Join(names, ", "), strings.Join(triggers, ", ")
}
