package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// maxNear caps how many changes an unexplained window lists near its onset, and maxNearEnd near its end.
const (
	maxNear    = 10
	maxNearEnd = 5
)

// unexplained is the answer where no rule applies, or none to most of the failures: what is known, what changed about
// the time, and why each rule does not apply.
var unexplained = rule.Rule{
	Name: model.Unexplained,
	Doc:  "No rule applies. What is known is listed, and why each rule does not apply.",
	Test: testUnexplained,
	Held: testUnexplained,
}

func testUnexplained(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	f := rule.Finding{Against: c.Rejected, Text: "no known cause matches"}
	if c.Partly {
		f.Text += fmt.Sprintf(" %d of %d failures", c.Unmatched, w.Failed)
	}
	failing := v.Addresses.FailingPods(w)
	uids := map[string]bool{}
	for _, one := range failing {
		uids[one.Pod.UID] = one.Outage.Span().Overlaps(v.Traffic.Onset(w))
	}
	for _, one := range failing[:min(len(failing), maxNear)] {
		f.For = append(f.For, evidence.Context.Target(one.Target, &one.Outage.Start,
			fmt.Sprintf("%s failed at its own address as well: %s", one.Pod.Name,
				quantity.ClassCounts(one.Outage.Classes))))
	}
	from := time.Duration(0)
	if onset := v.Traffic.Onset(w); onset.Latest-onset.Earliest > nearBy {
		f.Text += ", and its onset is not known to within " + quantity.Span(nearBy)
	} else {
		near := nearOnset(v, w, uids)
		if len(near) == 0 {
			f.Text += ", and nothing changed within " + quantity.Span(nearBy) + " of its onset"
		}
		f.For = append(f.For, evidence.Mention(near...)...)
		from = w.Start.Latest + nearBy
	}
	var next []string
	last := "look at the servers' own logs from " + second(v, v.Traffic.Onset(w).Latest) + " on"
	facts := known(v, w)
	if len(facts) > 0 && facts[0].reason != "" && !c.Partly {
		f.Reason, f.Text = facts[0].reason, facts[0].text
		next, facts = append(next, facts[0].next), facts[1:]
	}
	for _, known := range facts {
		f.Text += "; " + known.text
		if known.next != "" {
			next = append(next, known.next)
		}
		last = cmp.Or(known.last, last)
	}
	f.Fix = cmp.Or(strings.Join(next, "; "), last)
	f.For = append(f.For, evidence.Mention(nearEnd(v, w, from)...)...)
	return f
}

// nearOnset lists the changes whose brackets come near the window's onset: those of the Pods that failed first, and
// then the nearest first.
func nearOnset(v *evidence.Evidence, w *model.Window, failing map[string]bool) (near []model.Evidence) {
	onset := v.Traffic.Onset(w)
	changes := v.Changes.Near(w, model.Instant{Earliest: onset.Earliest - nearBy, Latest: onset.Latest + nearBy})
	slices.SortStableFunc(changes, func(a, b *model.Event) int {
		if of := changeOfOther(a, failing) - changeOfOther(b, failing); of != 0 {
			return of
		}
		return cmp.Compare(onset.Distance(a.Seen), onset.Distance(b.Seen))
	})
	for _, e := range changes[:min(len(changes), maxNear)] {
		near = append(near, model.Evidence{Event: e.ID, At: new(e.At), Text: evidence.Describe(e)})
	}
	return near
}

// changeOfOther returns 0 for a change of one of these Pods, else 1.
func changeOfOther(e *model.Event, pods map[string]bool) int {
	if pods[e.Object.UID] {
		return 0
	}
	return 1
}

// nearEnd lists the changes seen nearest to the window's end, of those seen after an instant.
func nearEnd(v *evidence.Evidence, w *model.Window, after time.Duration) []model.Evidence {
	if w.Open.End {
		return nil
	}
	changes := slices.DeleteFunc(v.Changes.Near(w, model.Instant{Earliest: w.End.Earliest - nearBy,
		Latest: w.End.Latest + nearBy}), func(e *model.Event) bool {
		return e.Seen <= after
	})
	slices.SortStableFunc(changes, func(a, b *model.Event) int {
		return cmp.Compare(w.End.Distance(a.Seen), w.End.Distance(b.Seen))
	})
	var near []model.Evidence
	for _, e := range changes[:min(len(changes), maxNearEnd)] {
		near = append(near, model.Evidence{Event: e.ID, At: new(e.At), Text: "near its end: " + evidence.Describe(e)})
	}
	return near
}
