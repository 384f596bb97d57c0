package causes

import (
	"slices"
	"strings"

	"lapse/correlate/model"
)

// Explain fills the errors and causes of the run's windows, also of those that are not final, and what ended them.
func Explain(s *Input) {
	v := newIndex(s)
	for i := range s.Run.Windows {
		w := &s.Run.Windows[i]
		w.Errors = v.errorsOf(w)
		v.explain(w)
		w.Ended = v.endOf(w)
	}
	for _, w := range s.Run.HeldWindows() {
		w.Errors = v.errorsOf(&w.Window)
		v.explain(&w.Window)
	}
}

// explain fills a window's causes, and, where the likeliest is no more than close in time, the Pods that failed as it
// did.
func (v *index) explain(w *model.Window) {
	w.Causes = causesOf(&Case{index: v, Window: w})
	if c := w.Causes[0]; c.Rule == unexplained.Name || c.Confidence == model.Low {
		w.Failing = v.failing(w)
	}
}

// errorsOf returns the different texts of the window's target and classes that had been seen by its end.
func (v *index) errorsOf(w *model.Window) (texts []model.ErrorText) {
	for _, e := range v.errors {
		if e.Object.Name != w.Target || w.Classes[e.To] == 0 || e.At.Earliest > w.End.Latest {
			continue
		}
		text, _, _ := strings.Cut(e.Detail, ": current time ") // as crypto/x509 says of an expired certificate
		if !slices.ContainsFunc(texts, func(t model.ErrorText) bool { return t.Class == e.To && t.Text == text }) {
			texts = append(texts, model.ErrorText{Class: e.To, Text: text, First: e.At})
		}
	}
	return texts
}

// causesOf asks every rule about one window. The most confident cause comes first, and each names the others as its
// rivals. Where no rule applies, or none explains most of the failures, the window is unexplained.
func causesOf(c *Case) []model.Cause {
	var found []model.Cause
	var why []string // each reason once
	named := map[string][]string{}
	for i := range rules {
		if only := rules[i].Only; !rules[i].about(c) || only != nil && !only(c) {
			continue
		}
		f := rules[i].find(c)
		if f.applies() {
			found = append(found, f.cause(rules[i].Name))
			continue
		}
		not := f.whyNot()
		if named[not] == nil {
			why = append(why, not)
		}
		named[not] = append(named[not], rules[i].Name)
	}
	for _, not := range why {
		c.rejected = append(c.rejected, doubt(Context, strings.Join(named[not], ", ")+": "+not))
	}
	least := unexplainedFailures(c.Window, found)
	if len(found) > 0 && 2*least <= c.Window.Failed {
		return rank(found)
	}
	c.partly, c.unmatched = len(found) > 0, least
	f := unexplained.find(c)
	return append([]model.Cause{f.cause(unexplained.Name)}, rank(found)...)
}

// unexplainedFailures are those that the cause which explains most cannot have made.
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
