package incidents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file finds failures without a known cause that happen again and again in the same way: what a server does by
// itself, such as a worker that is recycled, has no change in the cluster.

// fewestTimes is how often something must happen to count as recurring.
const fewestTimes = 3

// strayShare is the largest share of an incident's failures that windows with other signs may have.
const strayShare = 0.25

// recurring unites sets with the same sign, if they have enough windows.
func recurring(sets []set) []set {
	times := map[string]int{}
	for _, s := range sets {
		times[s.sign()] += len(s.begins())
	}
	var merged []set
	at := map[string]int{} // by sign, the place of the set that takes the others in
	for _, s := range sets {
		sign := s.sign()
		if sign == "" || times[sign] < fewestTimes {
			merged = append(merged, s)
			continue
		}
		if i, known := at[sign]; known {
			merged[i] = merged[i].with(s)
			continue
		}
		at[sign] = len(merged)
		s.recurs = true
		merged = append(merged, s)
	}
	return merged
}

// nameless reports whether a window has failures without a known cause.
func nameless(w *model.Window) bool {
	return w.Kind != model.Slow && len(w.Causes) > 0 && w.Causes[0].Rule == model.Unexplained
}

// sign returns the target and the class of most failures that no rule explains. It returns "" if a change set the
// windows off, or if too many of the failures are another target's or have a known cause.
func (s set) sign() string {
	if len(s.triggers) > 0 {
		return ""
	}
	all := 0
	failed, classes := map[string]int{}, map[string]int{}
	for _, w := range s.windows {
		all += w.Failed
		if nameless(w) {
			failed[w.Target] += w.Failed
			for class, n := range w.Classes {
				classes[w.Target+" "+class] += n
			}
		}
	}
	target := mostOf(failed)
	if target == "" || float64(all-failed[target]) > strayShare*float64(all) {
		return ""
	}
	maps.DeleteFunc(classes, func(class string, _ int) bool { return !strings.HasPrefix(class, target+" ") })
	return mostOf(classes)
}

// mostOf returns the key with the highest count, "" if there is none.
func mostOf(counts map[string]int) (most string) {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] > counts[most] {
			most = key
		}
	}
	return most
}

// begins returns when the windows without a cause began, sorted: those of the target that has most of them, each in the
// middle of its start bracket.
func (s set) begins() []time.Duration {
	of := map[string][]time.Duration{}
	var most string
	for _, w := range s.windows {
		if !nameless(w) {
			continue
		}
		of[w.Target] = append(of[w.Target], w.Start.Earliest+(w.Start.Latest-w.Start.Earliest)/2)
		if len(of[w.Target]) > len(of[most]) {
			most = w.Target
		}
	}
	slices.Sort(of[most])
	return of[most]
}

// typical returns the cause whose text most of the windows without a cause have.
func (s set) typical() model.Cause {
	texts := map[string]int{}
	for _, w := range s.windows {
		if nameless(w) {
			texts[w.Causes[0].Text]++
		}
	}
	text := mostOf(texts)
	i := slices.IndexFunc(s.windows, func(w *model.Window) bool { return nameless(w) && w.Causes[0].Text == text })
	return s.windows[i].Causes[0]
}

// recurrence returns how often windows happened, and how far apart; nil if they do not recur.
func (s set) recurrence() *model.Recurrence {
	begins := s.begins()
	if !s.recurs || len(begins) < fewestTimes {
		return nil
	}
	r := &model.Recurrence{Times: len(begins), Apart: model.Length{Min: model.Never}}
	var apart []time.Duration
	for i := range begins[1:] {
		apart = append(apart, begins[i+1]-begins[i])
	}
	slices.Sort(apart)
	r.Apart = model.Length{Min: apart[0], Max: apart[len(apart)-1]}
	if median := apart[len(apart)/2]; len(apart) >= fewestTimes && r.Apart.Max-r.Apart.Min <= median/2 {
		r.Period = median
	}
	return r
}

// recurrenceText returns the recurrence in words: "again and again, 13 times, every 6.0 s, and nothing changed in the
// cluster meanwhile".
func recurrenceText(r *model.Recurrence, quiet bool) string {
	text := fmt.Sprintf(
		"again and again, %d times, %s to %s apart", r.Times, quantity.Span(r.Apart.Min), quantity.Span(r.Apart.Max),
	)
	if r.Period > 0 {
		text = fmt.Sprintf("again and again, %d times, every %s", r.Times, quantity.Span(r.Period))
	}
	if quiet {
		text += ", and nothing changed in the cluster meanwhile"
	}
	return text
}

// quiet reports whether the cluster was watched, and nothing changed in it while an incident lasted.
func (s scope) quiet(in *model.Incident) bool {
	if len(s.tl.Pods) == 0 {
		return false
	}
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.At.Earliest > in.End.Latest || e.At.Latest < in.Start.Earliest || !e.At.Bounded() {
			continue
		}
		switch {
		case e.Kind == timeline.EndpointChanged, e.Kind == timeline.ServiceChanged,
			strings.HasPrefix(string(e.Kind), "pod-"),
			strings.HasPrefix(string(e.Kind), "node-") && e.Kind != timeline.NodeChecked,
			e.Kind == timeline.SnapshotTaken && slices.Contains(
				[]string{timeline.SnapshotChanged, timeline.SnapshotCreated, timeline.SnapshotDeleted}, e.To),
			e.Kind == timeline.WatchGap:
			return false
		}
	}
	return true
}
