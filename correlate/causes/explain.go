package causes

import (
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
)

// Explain fills the errors and causes of the run's windows, also of those that are not final, and what ended them.
func Explain(s *evidence.Input) {
	v := evidence.New(s)
	for i := range s.Run.Windows {
		w := &s.Run.Windows[i]
		w.Errors = v.Traffic.ErrorsOf(w)
		explain(v, w)
		w.Ended = endOf(v, w)
	}
	for _, w := range s.Run.HeldWindows() {
		w.Errors = v.Traffic.ErrorsOf(&w.Window)
		explain(v, &w.Window)
	}
}

// explain fills a window's causes, and, where the likeliest is no more than close in time, the Pods that failed as it
// did.
func explain(v *evidence.Evidence, w *model.Window) {
	w.Causes = causesOf(&rule.Case{Evidence: v, Window: w})
	if c := w.Causes[0]; c.Rule == unexplained.Name || c.Confidence == model.Low {
		w.Failing = v.Addresses.Failing(w)
	}
}

// causesOf asks every rule about one window. The most confident cause comes first, and each names the others as its
// rivals. Where no rule applies, or none explains most of the failures, the window is unexplained.
func causesOf(c *rule.Case) []model.Cause {
	var found []model.Cause
	var why []string // each reason once
	named := map[string][]string{}
	for i := range rules {
		if only := rules[i].Only; !rules[i].About(c) || only != nil && !only(c) {
			continue
		}
		f := rules[i].Find(c)
		if f.Applies() {
			found = append(found, f.CauseOf(rules[i].Name))
			continue
		}
		not := f.WhyNot()
		if named[not] == nil {
			why = append(why, not)
		}
		named[not] = append(named[not], rules[i].Name)
	}
	for _, not := range why {
		c.Rejected = append(c.Rejected, evidence.Context.Doubt(strings.Join(named[not], ", ")+": "+not))
	}
	least := unexplainedFailures(c.Window, found)
	if len(found) > 0 && 2*least <= c.Window.Failed {
		return rank(found)
	}
	c.Partly, c.Unmatched = len(found) > 0, least
	f := unexplained.Find(c)
	return append([]model.Cause{f.CauseOf(unexplained.Name)}, rank(found)...)
}

// unexplainedFailures returns how many failures the cause that explains most of them leaves unexplained.
func unexplainedFailures(w *model.Window, found []model.Cause) int {
	least := w.Failed
	for _, c := range found {
		if c.Explains == 0 {
			return 0
		}
		least = min(least, w.Failed-c.Explains)
	}
	return least
}
