package publish

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// few is up to how many targets a run is sent whole. Of a run with more, the state holds a [Group] for what differs
// in nothing but the node it is measured from, and the targets themselves are asked for: see [details].
const few = 200

// A Group are the judged targets that send the same to the same Service, each from another node; one alone is a group
// of itself.
type Group struct {
	ID       timeline.TargetID   `json:"id"`   // of its first target
	Name     string              `json:"name"` // what they have in common: "web new"
	Kind     timeline.TargetKind `json:"kind"`
	Service  string              `json:"service,omitzero"`
	PortName string              `json:"portName,omitzero"`
	Targets  int                 `json:"targets"` // how many they are

	Rate         float64 `json:"rate"`         // asked for, of all together, requests per second
	AchievedRate float64 `json:"achievedRate"` // of all together
	Sent         int     `json:"sent"`
	Failed       int     `json:"failed"`
	NotSent      int     `json:"notSent"`
	Late         int     `json:"late"`

	Coverage float64 `json:"coverage"` // the least of one target
	// from when the first of them was measured (Earliest) to when the last one was (Latest)
	Measured model.Instant `json:"measured"`

	// each window of one meets a window of every other one in time, and all were observed all along
	Agree   bool     `json:"agree"`
	Failing []string `json:"failing"` // names of the targets that have windows
	// when one of them at least was not observed; rising, and apart from each other
	Unobserved []Span `json:"unobserved"`
}

// A Span is a stretch of a run.
type Span struct {
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
}

// A Together is what several targets show in one row: a stretch of slots from Start on.
type Together struct {
	Start int `json:"start"`
	// the highest share of failed requests of one target; −1 where none was measured
	Share []float64 `json:"share"`
	// slots in a part of which one of them was unobserved, each with how many slots after it are too; slots count from
	// the beginning of the run
	Gap model.SparseCounts `json:"gap"`
	// failed requests of all of them by class; slots count from the beginning of the run
	Classes map[string]model.SparseCounts `json:"classes,omitzero"`
}

// unknownClass names failures of which a timeline does not tell the class, as the page does.
const unknownClass = "class not recorded"

// A grouped are the members of a group, by node.
type grouped struct {
	Group
	members []*model.Target
}

// groupsOf puts the judged targets of a run together, in the order of their first ones.
func groupsOf(tl *model.Timeline) []*grouped {
	zones := map[string]string{}
	for _, s := range tl.Sources {
		zones[s.Name] = s.Zone
	}
	var groups []*grouped
	by, taken := map[[4]string]*grouped{}, map[string]bool{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if !t.Kind.Judged() {
			continue
		}
		name := common(t)
		key := [4]string{t.Service, t.PortName, string(t.Kind), name}
		g := by[key]
		if g == nil {
			for taken[name] {
				name += " of " + t.Service + " " + t.PortName
			}
			taken[name] = true
			g = &grouped{Group: Group{
				ID: t.ID, Name: name, Kind: t.Kind, Service: t.Service, PortName: t.PortName,
				Coverage: 1, Failing: []string{}, Unobserved: []Span{},
			}}
			by[key], groups = g, append(groups, g)
		}
		g.members = append(g.members, t)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.members, func(a, b *model.Target) int {
			return cmp.Or(
				cmp.Compare(zones[a.Source], zones[b.Source]), cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID),
			)
		})
		g.sum()
	}
	return groups
}

// common is a target's name without the node that it is measured from.
func common(t *model.Target) string {
	if at := strings.LastIndex(t.Name, " from "+t.Node); t.Node != "" && at > 0 {
		return t.Name[:at]
	}
	return t.Name
}

// sum adds up the members.
func (g *grouped) sum() {
	g.Targets = len(g.members)
	for i, t := range g.members {
		g.Rate += t.Rate
		g.AchievedRate += t.AchievedRate
		g.Sent += t.Sent
		g.Failed += t.Failed
		g.NotSent += t.NotSent
		g.Late += t.Late
		g.Coverage = min(g.Coverage, t.Coverage)
		g.Measured.Latest = max(g.Measured.Latest, t.Measured.Latest)
		if i == 0 || t.Measured.Earliest < g.Measured.Earliest {
			g.Measured.Earliest = t.Measured.Earliest
		}
	}
}

// judge adds what the run's windows and its unobserved time say of each group.
func judge(groups []*grouped, tl *model.Timeline) {
	of := map[string]*grouped{}
	for _, g := range groups {
		for _, t := range g.members {
			of[t.Name] = g
		}
	}
	windows := map[string][]model.Window{}
	for _, w := range tl.Windows {
		g := of[w.Target]
		if g == nil {
			continue
		}
		if windows[w.Target] == nil {
			g.Failing = append(g.Failing, w.Target)
		}
		windows[w.Target] = append(windows[w.Target], w)
	}
	for _, u := range tl.Unobserved {
		if g := of[u.Target]; g != nil {
			g.Unobserved = append(g.Unobserved, Span{u.Start, u.End})
		}
	}
	for _, g := range groups {
		g.Agree = len(g.Unobserved) == 0 && g.meet(windows)
		g.Unobserved = joined(g.Unobserved)
	}
}

// meet reports whether each window of a member lies in time with a window of every other one.
func (g *grouped) meet(windows map[string][]model.Window) bool {
	for _, name := range g.Failing {
		for _, w := range windows[name] {
			for _, other := range g.members {
				if !slices.ContainsFunc(windows[other.Name], func(o model.Window) bool {
					return w.Start.Earliest <= o.End.Latest && o.Start.Earliest <= w.End.Latest
				}) {
					return false
				}
			}
		}
	}
	return true
}

// joined puts stretches that meet together.
func joined(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	all := []Span{}
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.Start <= all[last].End {
			all[last].End = max(all[last].End, s.End)
			continue
		}
		all = append(all, s)
	}
	return all
}

// A worst is what several series show together, slot by slot from the beginning of the run.
type worst struct {
	share   []float64 // −1: none was measured
	gap     []bool
	classes map[string][]int
}

// add takes another series in.
func (w *worst) add(s model.BucketSeries) {
	end := s.Start + len(s.Sent)
	for len(w.share) < end {
		w.share, w.gap = append(w.share, -1), append(w.gap, false)
	}
	unknown := map[int]int{}
	for i, sent := range s.Sent {
		slot := s.Start + i
		w.gap[slot] = w.gap[slot] || s.Unobserved[i] > 0
		if sent > 0 {
			w.share[slot] = max(w.share[slot], math.Ceil(float64(s.Failed[i])/float64(sent)*1e4)/1e4)
		}
		if s.Failed[i] > 0 {
			unknown[slot] = s.Failed[i]
		}
	}
	for class, pairs := range s.Classes {
		for i := 0; i+1 < len(pairs); i += 2 {
			w.fail(class, pairs[i], pairs[i+1])
			unknown[pairs[i]] -= pairs[i+1]
		}
	}
	for slot, n := range unknown {
		if n > 0 {
			w.fail(unknownClass, slot, n)
		}
	}
}

func (w *worst) fail(class string, slot, n int) {
	if w.classes == nil {
		w.classes = map[string][]int{}
	}
	for len(w.classes[class]) <= slot {
		w.classes[class] = append(w.classes[class], 0)
	}
	w.classes[class][slot] += n
}

// part are the slots from one to another, as they are sent.
func (w *worst) part(from, to int) Together {
	t := Together{Start: from, Share: w.share[from:to], Gap: model.SparseCounts{}}
	for i := from; i < to; i++ {
		if !w.gap[i] {
			continue
		}
		first := i
		for i+1 < to && w.gap[i+1] {
			i++
		}
		t.Gap = append(t.Gap, first, i-first)
	}
	for class, counts := range w.classes {
		var pairs model.SparseCounts
		for slot := from; slot < min(to, len(counts)); slot++ {
			if counts[slot] > 0 {
				pairs = append(pairs, slot, counts[slot])
			}
		}
		if pairs == nil {
			continue
		}
		if t.Classes == nil {
			t.Classes = map[string]model.SparseCounts{}
		}
		t.Classes[class] = pairs
	}
	return t
}

// notMeasured is when nothing was measured from a node: none of its targets that open a connection for each request
// was observed then.
func notMeasured(tl *model.Timeline) map[string][]Span {
	blank := map[string][]Span{}
	for _, u := range tl.Unobserved {
		blank[u.Target] = append(blank[u.Target], Span{u.Start, u.End})
	}
	of := map[string][]Span{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if t.Kind != timeline.New || t.Node == "" {
			continue
		}
		own := append(slices.Clone(blank[t.Name]),
			Span{math.MinInt64, t.Measured.Earliest - 1}, Span{t.Measured.Latest + 1, math.MaxInt64})
		known, seen := of[t.Node]
		if !seen {
			of[t.Node] = joined(own)
			continue
		}
		of[t.Node] = shared(known, joined(own))
	}
	for node, spans := range of {
		within := []Span{}
		for _, s := range spans {
			if s = (Span{max(s.Start, 0), min(s.End, tl.Run.Duration)}); s.Start <= s.End {
				within = append(within, s)
			}
		}
		if of[node] = within; len(within) == 0 {
			delete(of, node) // measured all along
		}
	}
	return of
}

// shared is what two lists of rising stretches have in common.
func shared(a, b []Span) []Span {
	both := []Span{}
	for len(a) > 0 && len(b) > 0 {
		if s := (Span{max(a[0].Start, b[0].Start), min(a[0].End, b[0].End)}); s.Start <= s.End {
			both = append(both, s)
		}
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}
