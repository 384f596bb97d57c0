package screen

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
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

// listed returns the runs whose directories are in dir; none where dir is a run itself, or has none.
func listed(dir string, load load) (folder dashboard.Folder, ok bool) {
	for _, name := range saved.Runs(dir) {
		folder.Runs = append(folder.Runs, line(name, filepath.Join(dir, name)))
	}
	folder.Open = func(name string) (*dashboard.Store, dashboard.Options, error) {
		tl, err := load(filepath.Join(dir, name))
		if err != nil {
			return nil, dashboard.Options{}, err
		}
		store, options := opened(tl)
		return store, options, nil
	}
	return folder, len(folder.Runs) > 0
}

// compared returns two runs, judged.
func compared(a, b string, load load) (dashboard.Folder, error) {
	names := []string{named(a), named(b)}
	if names[0] == names[1] {
		names = []string{"1-" + names[0], "2-" + names[1]}
	}
	folder := dashboard.Folder{Compared: names}
	judged := map[string]*model.Timeline{}
	for i, path := range []string{a, b} {
		tl, err := load(path)
		if err != nil {
			return folder, err
		}
		folder.Runs, judged[names[i]] = append(folder.Runs, dashboard.Listed{Name: names[i]}), tl
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

// line reads what a list says of a run from its timeline.json: not all runs of a folder are judged anew for that.
func line(name, path string) dashboard.Listed {
	l := dashboard.Listed{Name: name, Word: "not judged"}
	var tl struct {
		T0      time.Time     `json:"t0"`
		Verdict model.Verdict `json:"verdict"`
		Said    model.Said    `json:"said"`

		Incidents []struct {
			Downtime model.Length          `json:"downtime"`
			Causes   []model.IncidentCause `json:"causes"`
		} `json:"incidents"`
	}
	text, err := os.ReadFile(filepath.Join(path, saved.TimelineFile))
	if err != nil || json.Unmarshal(text, &tl) != nil {
		return l
	}
	l.Began, l.Failed, l.Sent = tl.T0, tl.Verdict.Failed, tl.Verdict.Sent
	l.Result, l.Headline = string(tl.Verdict.Result), tl.Said.Headline
	l.Word = cmp.Or(tl.Said.Word, strings.ToUpper(l.Result))
	longest := time.Duration(-1)
	for _, in := range tl.Incidents {
		if len(in.Causes) > 0 && in.Downtime.Max > longest {
			longest, l.Cause = in.Downtime.Max, in.Causes[0].Rule
		}
	}
	return l
}
