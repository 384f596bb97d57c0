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

	"lapse/correlate/incidents"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/trend"
	"lapse/dashboard"
	"lapse/internal/history"
	trends "lapse/internal/report/trend"
	"lapse/internal/run/saved"
	"lapse/timeline"
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

// listed returns the runs of dir; ok is false where dir is a run itself, or has neither runs nor a history.
func listed(dir string, load load) (folder dashboard.Folder, ok bool) {
	_, err := os.Stat(filepath.Join(dir, saved.HistoryFile))
	return Folder(dir, load, nil), err == nil || len(saved.Runs(dir)) > 0
}

// A Gone is a run of which only its line is left.
type Gone struct {
	history.Line
	Reason string // of its verdict
	Fix    string // what to do against its cause
}

// Folder returns the runs whose directories are in dir, at each look those that are there then, and those of which only
// a line is left: in dir's history, or among those that gone returns. gone may be nil.
func Folder(dir string, load load, gone func() []Gone) (folder dashboard.Folder) {
	of := &runsOf{dir: dir, gone: gone, known: map[string]judged{}, now: time.Now}
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
	dir  string
	gone func() []Gone
	now  func() time.Time

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

// mostGone is how many runs are listed of which only a line is left, the newest ones.
const mostGone = 3000

// look returns the runs that are there, those of which only a line is left, and what they show together.
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
	var gone []Gone
	if r.gone != nil {
		gone = r.gone()
	}
	if version := r.version(names, gone, now); version != r.last.Version {
		r.last = r.together(names, gone, now)
		r.last.Version = version
	}
	runs := r.last
	runs.Listed = append(slices.Clip(runs.Listed), unjudged...)
	return runs
}

// version differs if what the runs show together may.
func (r *runsOf) version(names []string, gone []Gone, now time.Time) string {
	sum := fnv.New64a()
	for _, name := range names {
		_, judged := r.known[name]
		fmt.Fprintln(sum, name, judged)
	}
	for i := range gone {
		fmt.Fprintln(sum, gone[i].Run)
	}
	for _, name := range []string{saved.HistoryFile, saved.ObservedFile} {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			fmt.Fprintln(sum, info.Size(), info.ModTime())
		}
	}
	return fmt.Sprintf("%x-%s", sum.Sum64(), history.DayOf(now))
}

// together returns the judged runs, those of which only a line is left, and what they show. What cannot be read of the
// history is left out, as what is not observed.
func (r *runsOf) together(names []string, gone []Gone, now time.Time) dashboard.Runs {
	runs := dashboard.Runs{Listed: []dashboard.Listed{}}
	var lines []history.Line
	if f, err := os.Open(filepath.Join(r.dir, saved.HistoryFile)); err == nil {
		lines, _, _ = history.Read(f)
		f.Close()
	}
	here := map[string]string{} // the names of runs, by name and by ID
	for _, name := range names {
		here[name] = name
		if run, ok := r.known[name]; ok {
			runs.Listed, lines = append(runs.Listed, run.listed), append(lines, run.lines...)
			for _, l := range run.lines {
				here[l.Run] = name
			}
		}
	}
	lines = append(lines, others(gone, lines)...)
	left, older := listGone(lines, here, gone)
	runs.Listed, runs.Older = append(runs.Listed, left...), older
	countOnce(runs.Listed, lines, here)
	observed, _ := saved.ReadObserved(r.dir)
	all := trend.Of(lines)
	runs.Days, runs.Trend = trend.Days(lines, observed, now, shownDays), trends.Say(&all)
	return runs
}

// countOnce notes which runs do not count. here has the names of those whose ID is another.
func countOnce(list []dashboard.Listed, lines []history.Line, here map[string]string) {
	instead, listed := map[string]string{}, map[string]bool{} // by name
	for run, by := range trend.Again(lines) {
		instead[cmp.Or(here[run], run)] = cmp.Or(here[by], by)
	}
	for i := range list {
		listed[list[i].Name] = true
	}
	for i := range list {
		if by := instead[list[i].Name]; listed[by] {
			list[i].Again = by
		}
	}
}

// others returns the lines that say more than lines do: another guard may have measured the same.
func others(gone []Gone, lines []history.Line) (more []history.Line) {
	for i := range gone {
		g := &gone[i].Line
		if !slices.ContainsFunc(lines, func(l history.Line) bool { return l.Run == g.Run || l.Covers(g) }) {
			more = append(more, *g)
		}
	}
	return more
}

// listGone lists the runs that are not here, at most [mostGone], and returns how many older ones there are. Of two
// lines of one run and Service the later one counts.
func listGone(lines []history.Line, here map[string]string, gone []Gone) (list []dashboard.Listed, older int) {
	of := map[string][]history.Line{} // by run
	for _, l := range lines {
		if here[l.Run] != "" {
			continue
		}
		same := func(o history.Line) bool { return o.Service == l.Service }
		if i := slices.IndexFunc(of[l.Run], same); i >= 0 {
			of[l.Run][i] = l
		} else {
			of[l.Run] = append(of[l.Run], l)
		}
	}
	for run, lines := range of {
		l := listedAs(run, lines)
		if l.Gone = true; len(lines) == 1 && l.Failed > 0 {
			l.Down = quantity.Length(lines[0].Downtime.Total, lines[0].Downtime.Open)
		}
		if i := slices.IndexFunc(gone, func(g Gone) bool { return g.Run == run }); i >= 0 {
			l.Headline, l.Fix = gone[i].Reason, gone[i].Fix
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b dashboard.Listed) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Name, b.Name))
	})
	n := min(len(list), mostGone)
	return list[:n], len(list) - n
}

// listedAs returns what the lines of a run say of it.
func listedAs(name string, lines []history.Line) dashboard.Listed {
	first, most := &lines[0], -1
	l := dashboard.Listed{
		Name: name, Began: first.T0, Ended: first.T0.Add(first.Duration), Result: string(first.Verdict),
		Word: strings.ToUpper(string(first.Verdict)), Outcome: string(trend.OutcomeOf(lines...)), SetOff: setOff(lines),
	}
	for i := range lines {
		of := &lines[i]
		l.Failed, l.Sent = l.Failed+of.Failed, l.Sent+of.Sent
		if len(of.Causes) > 0 && of.Causes[0].Failed > most {
			l.Cause, most = of.Causes[0].Rule, of.Causes[0].Failed
		}
		if name := cmp.Or(of.Service, strings.Join(of.URLs, " ")); name != "" {
			l.Services = append(l.Services, name)
		}
		for _, template := range of.Release.Templates {
			if !slices.Contains(l.Release, template) {
				l.Release = append(l.Release, template)
			}
		}
	}
	return l
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

// named returns the name of a run in a page's address, from which a browser leaves out "." and "..".
func named(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return strings.NewReplacer(",", "_", "/", "_").Replace(filepath.Base(path))
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
	run.listed = dashboard.Listed{Name: name, Word: dashboard.NotJudged}
	text, err := os.ReadFile(filepath.Join(path, saved.TimelineFile))
	if err != nil {
		return run, false
	}
	tl := new(model.Timeline)
	if json.Unmarshal(text, tl) != nil {
		return run, true
	}
	run.lines = history.Of(tl, "")
	run.listed = listedAs(name, run.lines)
	l := &run.listed
	l.Failed, l.Sent, l.Headline = tl.Verdict.Failed, tl.Verdict.Sent, tl.Said.Headline
	l.Word = cmp.Or(tl.Said.Word, l.Word)
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
	return run, true
}

// setOff returns what ended the Pods of a run, as in "drain of node1".
func setOff(lines []history.Line) string {
	var triggers []string
	for _, of := range lines {
		for _, t := range of.Triggers {
			_, name, _ := strings.Cut(t.Object, "/")
			text := incidents.Text(model.Trigger{Kind: t.Kind, Object: timeline.Object{Name: name}})
			if !slices.Contains(triggers, text) {
				triggers = append(triggers, text)
			}
		}
	}
	return strings.Join(triggers, ", ")
}
