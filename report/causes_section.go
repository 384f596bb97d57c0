package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/report/document"
)

// maxExplained is how many causes are listed with their evidence: those of the windows with most downtime.
const maxExplained = 5

// A finding is a cause with all the windows that have it.
type finding struct {
	model.Cause
	windows []model.Window
}

// findings are the likeliest causes of the windows, each once. The worst are explained in full; of the others only
// the rule is, and the windows.
func findings(tl *model.Timeline) (explained, others []finding) {
	all := gather(tl.Windows, func(a, b model.Cause) bool {
		return a.Rule == b.Rule && a.Text == b.Text && a.Confidence == b.Confidence && a.Rule != "unexplained" // what has no cause has none in common
	})
	byDowntime := slices.SortedStableFunc(slices.Values(all), func(a, b finding) int { return compareDowntime(b.worst(), a.worst()) })
	for _, f := range all {
		if slices.ContainsFunc(byDowntime[:min(len(all), maxExplained)], func(g finding) bool { return g.first().ID == f.first().ID }) {
			explained = append(explained, f)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(tl.Windows), func(w model.Window) bool {
		return slices.ContainsFunc(explained, func(f finding) bool { return f.has(w.ID) })
	})
	return explained, gather(rest, func(a, b model.Cause) bool { return a.Rule == b.Rule })
}

// gather puts windows together whose likeliest causes are the same.
func gather(windows []model.Window, same func(a, b model.Cause) bool) []finding {
	var all []finding
	for _, w := range windows {
		if len(w.Causes) == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(f finding) bool { return same(f.Cause, w.Causes[0]) })
		if i < 0 {
			i = len(all)
			all = append(all, finding{Cause: w.Causes[0]})
		}
		all[i].windows = append(all[i].windows, w)
	}
	return all
}

func (f finding) first() model.Window { return f.windows[0] }

func (f finding) worst() model.Window { return slices.MaxFunc(f.windows, compareDowntime) }

func (f finding) has(id int) bool {
	return slices.ContainsFunc(f.windows, func(w model.Window) bool { return w.ID == id })
}

// text is the cause with how sure it is.
func (f finding) text() string { return fmt.Sprintf("%s [%s]", f.Text, f.Confidence) }

// restText says in a line what windows have in common whose causes are not explained in full.
func (f finding) restText() string {
	switch n := len(f.windows); {
	case f.Rule == "unexplained":
		return "no known cause matches; timeline.json lists what changed"
	case n == 1:
		return f.Rule + ", listed in timeline.json"
	default:
		return f.Rule + " too, each with other figures, listed in timeline.json"
	}
}

// A fix is what to change, and the windows it is for.
type fix struct {
	text    string
	windows []model.Window
}

// fixes are all that is to be changed, each once.
func fixes(tl *model.Timeline) []fix {
	var all []fix
	for _, w := range tl.Windows {
		if len(w.Causes) == 0 || w.Causes[0].Fix == "" {
			continue
		}
		i := slices.IndexFunc(all, func(f fix) bool { return f.text == w.Causes[0].Fix })
		if i < 0 {
			i = len(all)
			all = append(all, fix{text: w.Causes[0].Fix})
		}
		all[i].windows = append(all[i].windows, w)
	}
	return all
}

// windowList names windows by their numbers: "window 3", "windows 1, 4–6", "23 windows, 1 to 61".
func windowList(windows []model.Window) string {
	if len(windows) == 1 {
		return fmt.Sprintf("window %d", windows[0].ID)
	}
	var parts []string
	for i := 0; i < len(windows); {
		last := i
		for last+1 < len(windows) && windows[last+1].ID == windows[last].ID+1 {
			last++
		}
		switch last - i {
		case 0:
			parts = append(parts, fmt.Sprint(windows[i].ID))
		case 1:
			parts = append(parts, fmt.Sprint(windows[i].ID), fmt.Sprint(windows[last].ID))
		default:
			parts = append(parts, fmt.Sprintf("%d–%d", windows[i].ID, windows[last].ID))
		}
		i = last + 1
	}
	if len(parts) > 6 {
		return fmt.Sprintf("%d windows, %d to %d", len(windows), windows[0].ID, windows[len(windows)-1].ID)
	}
	return "windows " + strings.Join(parts, ", ")
}

// causesSection says why the windows opened, each cause once, with its evidence and rivals.
func causesSection(v *view) document.Section {
	explained, others := findings(v.Timeline)
	if len(explained) == 0 || !v.detailed() {
		return document.Section{}
	}
	s := document.Section{Title: "causes"}
	if slices.ContainsFunc(explained, func(f finding) bool { return len(f.Evidence) > 0 }) {
		s.Remark = "T is the first failure of the first window named; instants in a text are seconds after the run began"
	}
	listed := map[string]string{} // the windows that rivals were listed with
	for _, f := range explained {
		n := document.Note{Label: windowList(f.windows), Text: f.text(), Tone: document.Bold, Details: evidence(f.first(), f.Evidence)}
		if end := f.first().Ended; end != nil && !slices.ContainsFunc(f.Evidence, func(e model.Evidence) bool { return e.Event == end.Event }) {
			n.Details = append(n.Details, document.Note{Label: "end", At: sinceStart(f.first(), end.At), Text: end.Text})
		}
		n.Details = append(n.Details, rivalsOf(f, listed)...)
		s.Blocks = append(s.Blocks, n)
	}
	for _, f := range others {
		s.Blocks = append(s.Blocks, document.Note{Label: windowList(f.windows), Text: f.restText()})
	}
	if len(v.Incidents) > 0 { // which have the fixes
		return s
	}
	for _, f := range fixes(v.Timeline) {
		s.Blocks = append(s.Blocks, document.Note{Label: "fix for " + windowList(f.windows), Text: f.text, Tone: document.Green})
	}
	return s
}

// rivalsOf lists the rivals of a cause, or refers to the windows that the same ones were listed with.
func rivalsOf(f finding, listed map[string]string) (notes []document.Note) {
	key := strings.Join(f.Rivals, "\n")
	if first := listed[key]; first != "" && len(f.Rivals) > 1 {
		return []document.Note{{Label: "rival", Text: "those of " + first, Tone: document.Dim}}
	}
	listed[key] = windowList(f.windows)
	for _, rival := range f.Rivals {
		notes = append(notes, document.Note{Label: "rival", Text: rival, Tone: document.Dim})
	}
	return notes
}

// evidence are the facts a cause rests on, each at its distance from the window's start.
func evidence(w model.Window, facts []model.Evidence) []document.Note {
	facts = slices.SortedStableFunc(slices.Values(facts), func(a, b model.Evidence) int { return cmp.Compare(when(a), when(b)) })
	var notes []document.Note
	for _, fact := range facts {
		notes = append(notes, document.Note{Label: "why", At: sinceStart(w, fact.At), Text: fact.Text})
	}
	return notes
}

// when orders evidence: what has no instant comes last.
func when(fact model.Evidence) time.Duration {
	if fact.At == nil {
		return 1<<63 - 1
	}
	return fact.At.Latest
}

// vague is from when on an instant is known so badly that only its later bound is worth reading.
const vague = 200 * time.Millisecond

// sinceStart is an instant's distance from T, when the window's first failure was known: "T−83 ms ±2", "≤ T−83 ms".
func sinceStart(w model.Window, at *model.Instant) string {
	switch {
	case at == nil:
		return ""
	case at.Earliest <= model.Unbounded:
		return "before"
	}
	offset := model.Instant{Earliest: at.Earliest - w.Start.Latest, Latest: at.Latest - w.Start.Latest}
	if offset.Latest-offset.Earliest > vague {
		return "≤ T" + quantity.Offset(model.Instant{Earliest: offset.Latest, Latest: offset.Latest})
	}
	return "T" + quantity.Offset(offset)
}
