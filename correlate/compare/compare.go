// Package compare says what changed from one run to another, as far as the error bars of both can tell.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/correlate/wording"
)

// A Diff is what changed from one run, A, to another, B. A difference counts as a change only if the bounds of the two
// do not overlap. Each bound holds the truth with a probability of at least 99 %, so both hold in 49 of 50 cases.
//
// The bounds are the errors of the measurement. A single run of each does not show how much one drain differs from the
// next.
type Diff struct {
	// how the runs differ in themselves, in sentences: what changed may come from that
	NotComparable []string `json:"notComparable"`
	// what else is unlike, and does not change what is compared
	Notes []string `json:"notes,omitzero"`
	// failed requests of every target that both runs judge
	Total Change `json:"total"`
	// of every target that both runs judge, or whose connections one of them held
	Changes []Change      `json:"changes"`
	Causes  []CauseChange `json:"causes"` // by rule
}

// CauseChange counts the windows a rule explains best.
type CauseChange struct {
	Rule string    `json:"rule"`
	A    CauseSide `json:"a"`
	B    CauseSide `json:"b"`
}

// CauseSide is a rule's part in one run.
type CauseSide struct {
	Windows int          `json:"windows"`
	Length  model.Length `json:"length"`        // of the longest of them
	Open    bool         `json:"open,omitzero"` // its start or end was not seen: there is no upper bound
	Text    string       `json:"text,omitzero"` // the cause, of that window
}

// Compare returns what changed from a to b.
func Compare(a, b *model.Timeline) Diff {
	d := Diff{NotComparable: unlike(a, b), Changes: []Change{}, Causes: causeChanges(a, b)}
	var all [2]model.Target
	for i := range a.Targets {
		t := &a.Targets[i]
		if other := target(b, t.Name); t.Kind.Judged() && other != nil && other.Kind.Judged() {
			d.Changes = append(d.Changes, changes(a, b, t, other)...)
			for i, of := range []*model.Target{t, other} {
				all[i].Sent += of.Sent
				all[i].Failed += of.Failed
			}
		}
	}
	d.Total = change(DiffFailed, failedShare(&all[0]), failedShare(&all[1]))
	if nodesA, nodesB := commandNodes(a), commandNodes(b); nodesA != nodesB && sameCommand(a, b) {
		d.Notes = append(d.Notes, fmt.Sprintf("the command names another node: %s in A, %s in B", nodesA, nodesB))
	}
	d.Changes = append(d.Changes, heldChanges(a, b)...)
	return d
}

func target(tl *model.Timeline, name string) *model.Target {
	i := slices.IndexFunc(tl.Targets, func(t model.Target) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &tl.Targets[i]
}

func changes(a, b *model.Timeline, ta, tb *model.Target) []Change {
	list := []Change{
		change(DiffFailed, failedShare(ta), failedShare(tb)),
		change(DiffDowntime, downtimeOf(a, ta), downtimeOf(b, tb)),
		change(DiffLongest, longestOf(a, ta), longestOf(b, tb)),
	}
	la, lb := latencies(a, ta.Name), latencies(b, tb.Name)
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}} {
		list = append(list, change(DiffLatency+q.name, la.quantile(q.q), lb.quantile(q.q)))
	}
	for i := range list {
		list[i].Target = ta.Name
	}
	return list
}

// failedShare returns the Clopper-Pearson interval of the share of requests that fail.
func failedShare(t *model.Target) *Estimate {
	if t.Sent == 0 {
		return nil
	}
	low, high := windows.ShareInterval(t.Failed, t.Sent)
	return &Estimate{Min: low, Max: &high, Failed: t.Failed, Sent: t.Sent}
}

// downtimeOf bounds a target's downtime. Time that was not observed may have been down, and so may as much as lies
// between two requests; a window whose end was not seen has no upper bound.
func downtimeOf(tl *model.Timeline, t *model.Target) *Estimate {
	if t.Sent == 0 {
		return nil
	}
	var sum model.Length
	open := false
	for _, w := range troubles(tl, t.Name) {
		sum.Min += w.Downtime.Min
		sum.Max += w.Downtime.Max
		open = open || w.Open.Start || w.Open.End
	}
	sum.Max = max(sum.Max, t.Resolution)
	for _, u := range gaps(tl, t.Name) {
		sum.Max += u.End - u.Start
	}
	return lengthEstimate(sum, open)
}

// longestOf bounds a target's longest window; a longer one may hide in time that was not observed.
func longestOf(tl *model.Timeline, t *model.Target) *Estimate {
	if t.Sent == 0 {
		return nil
	}
	longest := model.Length{Max: t.Resolution}
	open := false
	for _, w := range troubles(tl, t.Name) {
		longest = model.Length{Min: max(longest.Min, w.Length.Min), Max: max(longest.Max, w.Length.Max)}
		open = open || w.Open.Start || w.Open.End
	}
	for _, u := range gaps(tl, t.Name) {
		longest.Max = max(longest.Max, u.End-u.Start+t.Resolution)
	}
	return lengthEstimate(longest, open)
}

func lengthEstimate(l model.Length, open bool) *Estimate {
	e := &Estimate{Min: float64(l.Min)}
	if !open {
		e.Max = new(float64(l.Max))
	}
	return e
}

// gaps returns a target's unobserved time.
func gaps(tl *model.Timeline, target string) []model.Unobserved {
	return slices.DeleteFunc(slices.Clone(tl.Unobserved), func(u model.Unobserved) bool { return u.Target != target })
}

// troubles returns a target's windows with downtime.
func troubles(tl *model.Timeline, target string) []model.Window {
	return slices.DeleteFunc(slices.Clone(tl.Windows), func(w model.Window) bool {
		return w.Target != target || w.Kind == model.Slow
	})
}

// causeChanges counts windows by the rule that explains each best.
func causeChanges(a, b *model.Timeline) []CauseChange {
	rules := map[string]*CauseChange{}
	count := func(tl *model.Timeline, side func(*CauseChange) *CauseSide) {
		for _, w := range tl.Windows {
			rule, text := model.Unexplained, ""
			if len(w.Causes) > 0 {
				rule, text = w.Causes[0].Rule, w.Causes[0].Text
			}
			if rules[rule] == nil {
				rules[rule] = &CauseChange{Rule: rule}
			}
			s := side(rules[rule])
			if s.Windows++; s.Windows == 1 || w.Length.Max > s.Length.Max {
				s.Length, s.Open, s.Text = w.Length, w.Open.Start || w.Open.End, text
			}
		}
	}
	count(a, func(c *CauseChange) *CauseSide { return &c.A })
	count(b, func(c *CauseChange) *CauseSide { return &c.B })
	list := []CauseChange{}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		list = append(list, *rules[rule])
	}
	slices.SortStableFunc(list, func(x, y CauseChange) int {
		return cmp.Compare(max(y.A.Windows, y.B.Windows), max(x.A.Windows, x.B.Windows))
	})
	return list
}

// unlike lists how two runs differ, apart from what they found.
func unlike(a, b *model.Timeline) []string {
	list := []string{}
	differ := func(what, x, y string) {
		if x != y {
			list = append(list, fmt.Sprintf("%s: %s in A, %s in B", what, cmp.Or(x, "none"), cmp.Or(y, "none")))
		}
	}
	differ("what was measured", subjects(a), subjects(b))
	differ("judged targets", judgedNames(a), judgedNames(b))
	differ("requests per second", ratesOf(a, b), ratesOf(b, a))
	differ("timeout, so what counts as failed", a.Run.Timeout.String(), b.Run.Timeout.String())
	differ("join, so which failures count as one", a.Run.Join.String(), b.Run.Join.String())
	differ("slow, so what counts as late", orDefault(a.Run.Slow), orDefault(b.Run.Slow))
	differ("resolution, so what counts as observed", orDefault(a.Run.Resolution), orDefault(b.Run.Resolution))
	if !sameCommand(a, b) {
		differ("command", commandOf(a), commandOf(b))
	}
	differ("cluster", clusterOf(a), clusterOf(b))
	differ("judged by Lapse", a.Tool.Version, b.Tool.Version)
	if long, short := max(a.Run.Duration, b.Run.Duration), min(a.Run.Duration, b.Run.Duration); long-short > long/4 {
		differ("duration, and a share of all requests is smaller in a longer run", quantity.Span(a.Run.Duration),
			quantity.Span(b.Run.Duration))
	}
	return append(list, append(doubtful("A", a), doubtful("B", b)...)...)
}

// doubtful says why a run proves little by itself.
func doubtful(name string, tl *model.Timeline) []string {
	var list []string
	v := &tl.Verdict
	switch {
	case tl.Run.Live:
		list = append(list, name+" goes on")
	case tl.Run.Truncated:
		list = append(list, name+" was "+tl.Run.Recorded(quantity.Span)+": "+tl.Run.Aborted)
	case tl.Run.Aborted != "":
		list = append(list, name+" was aborted: "+tl.Run.Aborted)
	case tl.Run.Command.Trouble() != "":
		list = append(list, fmt.Sprintf("the command of %s did not succeed: %s", name, tl.Run.Command.Trouble()))
	}
	for _, why := range verdict.Unproven(tl) {
		list = append(list, "in "+name+", "+why)
	}
	switch control := v.Validity.Control; {
	case !tl.Measured():
		list = append(list, name+" measured nothing")
	case len(tl.ShortNodes()) > 0:
		list = append(list, "of "+name+", "+wording.Silence(tl.Verdict.Nodes[0]))
	case v.Coverage < model.MinCoverage:
		list = append(list, fmt.Sprintf("only %s of %s was observed", quantity.Coverage(v.Coverage), name))
	case control != "" && control != "ok" && control != "absent":
		list = append(list, fmt.Sprintf("the prober of %s had trouble itself: %s", name, control))
	}
	return list
}

func subjects(tl *model.Timeline) string {
	var names []string
	for _, s := range tl.Run.Services {
		names = append(names, "svc "+s.Namespace+"/"+s.Name)
	}
	names = append(names, tl.Run.URLs...)
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func judgedNames(tl *model.Timeline) string {
	var names []string
	for _, t := range tl.Targets {
		if t.Kind.Judged() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ratesOf returns the rates of the targets that other has too.
func ratesOf(tl, other *model.Timeline) string {
	var list []string
	for _, t := range tl.Targets {
		if t.Kind.Judged() && target(other, t.Name) != nil {
			list = append(list, fmt.Sprintf("%s %g/s", t.Name, t.Rate))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func commandOf(tl *model.Timeline) string {
	if tl.Run.Command == nil {
		return ""
	}
	return strings.Join(tl.Run.Command.Args, " ")
}

// sameCommand reports whether two runs wrapped the same command, but for the nodes it names: after the first drain of
// a node, the Pods that a second one has to move are on another.
func sameCommand(a, b *model.Timeline) bool {
	x, _ := withoutNodes(a)
	y, _ := withoutNodes(b)
	return x == y
}

// commandNodes lists the nodes that the command names.
func commandNodes(tl *model.Timeline) string {
	_, nodes := withoutNodes(tl)
	return strings.Join(nodes, ", ")
}

// withoutNodes returns the command with NODE for each name of a node of the run, and these names.
func withoutNodes(tl *model.Timeline) (command string, nodes []string) {
	known := map[string]bool{}
	for _, p := range tl.Pods {
		known[p.Node] = true
	}
	for _, s := range tl.Sources {
		known[s.Node] = true
	}
	delete(known, "")
	words := strings.Fields(commandOf(tl))
	for i, word := range words {
		kind, name, ok := strings.Cut(word, "/")
		if !ok || !slices.Contains([]string{"node", "nodes", "no"}, kind) {
			kind, name = "", word
		}
		if known[name] {
			nodes = append(nodes, name)
			words[i] = strings.TrimPrefix(kind+"/NODE", "/")
		}
	}
	return strings.Join(words, " "), nodes
}

func clusterOf(tl *model.Timeline) string {
	if tl.Run.Cluster == nil {
		return ""
	}
	return strings.TrimSpace(tl.Run.Cluster.Version + " " + tl.Run.Cluster.ProxyMode)
}

// Known reports whether both runs measured the figure.
func (c Change) Known() bool { return c.A != nil && c.B != nil }

// Length returns an estimated length; open if it has no upper bound.
func (e Estimate) Length() (l model.Length, open bool) {
	l.Min = time.Duration(e.Min)
	if e.Max == nil {
		return l, true
	}
	l.Max = time.Duration(*e.Max)
	return l, false
}

// orDefault prints an option that depends on the target unless it was given.
func orDefault(d time.Duration) string {
	if d == 0 {
		return "default"
	}
	return d.String()
}
