package causes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// nearBy is how far from a window's onset a change is still worth mentioning when no rule applies.
const nearBy = 2 * time.Second

// maxNear caps how many changes an unexplained window lists near its onset, and maxNearEnd near its end.
const (
	maxNear    = 10
	maxNearEnd = 5
)

// unexplained is the answer where no rule applies, or none to most of the failures: what changed about the time, and
// why each rule does not apply.
var unexplained = Rule{
	Name: "unexplained",
	Doc:  "No rule applies. What changed near the time is listed, and why each rule does not apply.",
	Looks: `The text says which Pods failed the same way at their own addresses: then look at the Pods, and not at the way to
them. The evidence lists which Pods failed at their own addresses, what changed near the window's onset (the nearest
first) and near its end, and why each rule does not apply. It also comes first where a rule explains only the smaller
part of the failures. A run on a URL watches no cluster: nearly every window is unexplained there.`,
	Fix:  "Watch the cluster as well: --watch svc/NAME.",
	Test: testUnexplained,
	Held: testUnexplained,
}

func testUnexplained(c *Case) Finding {
	v, w := c.index, c.Window
	alike := failedAlike(v, w)
	alike.so += v.unselected(w)
	f := Finding{Against: c.rejected}
	unmatched := "no known cause matches"
	if c.partly {
		unmatched += fmt.Sprintf(" %d of %d failures", c.unmatched, w.Failed)
	}
	if onset := v.onset(w); onset.Latest-onset.Earliest > nearBy {
		f.Text = unmatched + ", and its onset is not known to within " + quantity.Span(nearBy) + alike.so
		f.For = context(append(alike.evidence, nearEnd(v, w, 0)...)...)
		return f
	}
	near, more := nearOnset(v, w, alike.uids)
	f.Text = unmatched + ", and nothing changed within " + quantity.Span(nearBy) + " of its onset"
	if len(near) > 0 {
		f.Text = fmt.Sprintf("%s: %s within %s of its onset", unmatched, quantity.Count(len(near)+more, "change"), quantity.Span(nearBy))
	}
	f.Text += alike.so
	f.For = context(append(append(alike.evidence, near...), nearEnd(v, w, w.Start.Latest+nearBy)...)...)
	return f
}

// alike are the Pods whose own addresses failed during the window.
type alike struct {
	uids     map[string]bool  // of those that failed at its onset
	evidence []model.Evidence // the Pod whose failures are most like the window's first
	so       string           // which Pods failed as most requests of the window did; "" if none
}

func failedAlike(v *index, w *model.Window) alike {
	found := alike{uids: map[string]bool{}, evidence: []model.Evidence{}}
	type pod struct {
		*model.Pod
		like     int
		at       time.Duration
		evidence model.Evidence
	}
	var pods []pod
	for _, p := range v.pods(w) {
		name := v.directName(w, p)
		trouble := v.outageNear(name, w.Span())
		if trouble == nil || !p.ReadyWithin(0, trouble.End.Latest) {
			continue
		}
		found.uids[p.UID] = trouble.Span().Overlaps(v.onset(w))
		pods = append(pods, pod{p, likeness(w, trouble), trouble.Start.Latest, model.Evidence{
			Target: name, At: &trouble.Start,
			Text: fmt.Sprintf("%s failed at its own address as well: %s", p.Name, quantity.ClassCounts(trouble.Classes)),
		}})
	}
	slices.SortStableFunc(pods, func(a, b pod) int { return cmp.Compare(b.like, a.like) })
	var so []string
	for _, p := range pods {
		if 2*p.like >= w.Failed && w.Failed > 0 && !p.TerminatingBy(p.at) && !slices.Contains(so, p.Name) {
			so = append(so, p.Name)
		}
	}
	switch {
	case len(so) == 1:
		found.so = "; " + so[0] + " failed the same way at its own address"
	case len(so) > 1:
		found.so = "; " + namedOf(so) + " failed the same way at their own addresses"
	}
	for _, p := range pods[:min(len(pods), maxNear)] {
		found.evidence = append(found.evidence, p.evidence)
	}
	return found
}

// likeness is how many failures of the window are of the classes of another.
func likeness(w, other *model.Window) int {
	n := 0
	for class, failed := range w.Classes {
		if other.Classes[class] > 0 {
			n += failed
		}
	}
	return n
}

// nearOnset lists the changes whose brackets come near the window's onset, and counts those beyond
// the cap: those of the Pods that failed first, and then the nearest first.
func nearOnset(v *index, w *model.Window, failing map[string]bool) (near []model.Evidence, more int) {
	onset := v.onset(w)
	changes := v.changesNear(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest + nearBy})
	slices.SortStableFunc(changes, func(a, b *model.Event) int {
		if of := changeOfOther(a, failing) - changeOfOther(b, failing); of != 0 {
			return of
		}
		return cmp.Compare(onset.Distance(a.Seen), onset.Distance(b.Seen))
	})
	shown := min(len(changes), maxNear)
	for _, e := range changes[:shown] {
		near = append(near, model.Evidence{Event: e.ID, At: new(e.At), Text: describe(e)})
	}
	return near, len(changes) - shown
}

// changeOfOther is 0 for a change of one of these Pods, else 1.
func changeOfOther(e *model.Event, pods map[string]bool) int {
	if e.Object != nil && pods[e.Object.UID] {
		return 0
	}
	return 1
}

// nearEnd lists the changes seen nearest to the window's end, of those seen after an instant.
func nearEnd(v *index, w *model.Window, after time.Duration) []model.Evidence {
	if w.Open.End {
		return nil
	}
	changes := slices.DeleteFunc(v.changesNear(w, model.Instant{Earliest: w.End.Earliest - nearBy, Latest: w.End.Latest + nearBy}), func(e *model.Event) bool { return e.Seen <= after })
	slices.SortStableFunc(changes, func(a, b *model.Event) int { return cmp.Compare(w.End.Distance(a.Seen), w.End.Distance(b.Seen)) })
	var near []model.Evidence
	for _, e := range changes[:min(len(changes), maxNearEnd)] {
		near = append(near, model.Evidence{Event: e.ID, At: new(e.At), Text: "near its end: " + describe(e)})
	}
	return near
}

// describe says in a few words what an event was.
func describe(e *model.Event) string {
	if e.Kind == timeline.SnapshotTaken && e.Object != nil {
		return fmt.Sprintf("%s %s %s (%s)", e.Object.Kind, e.Object.Name, e.To, e.Detail)
	}
	text := string(e.Kind)
	if e.Object != nil && e.Object.Name != "" {
		text += " " + e.Object.Name
	}
	switch {
	case e.From != "" && e.To != "":
		text += " " + e.From + " → " + e.To
	case e.To != "":
		text += " " + e.To
	}
	if e.Kind == timeline.NodeTaint {
		text += " (" + e.Detail + ")"
	}
	return text
}
