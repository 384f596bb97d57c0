package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
)

// Explain fills the errors and causes of the run's windows, also of those that are not final.
func Explain(s *Input) {
	v := newIndex(s)
	for i := range s.Run.Windows {
		w := &s.Run.Windows[i]
		w.Errors = v.errorsOf(w)
		w.Causes = causesOf(v, w)
	}
}

// errorsOf are the texts of the window's target and classes that had been seen by its end.
func (v *index) errorsOf(w *model.Window) (texts []model.ErrorText) {
	for _, e := range v.errors {
		if e.Object.Name == w.Target && w.Classes[e.To] > 0 && e.At.Earliest <= w.End.Latest {
			texts = append(texts, model.ErrorText{Class: e.To, Text: e.Detail, First: e.At})
		}
	}
	return texts
}

// causesOf asks every rule about one window. The causes come with the most confident first, each
// naming the others as its rivals; if no rule speaks the window is unexplained.
func causesOf(v *index, w *model.Window) []model.Cause {
	var causes []model.Cause
	var silent []string
	for _, rule := range rules {
		cause, why := rule.judge(v, w)
		if cause == nil {
			silent = append(silent, rule.name+": "+why)
			continue
		}
		cause.Rule = rule.name
		causes = append(causes, *cause)
	}
	if len(causes) == 0 {
		return []model.Cause{unexplained(v, w, silent)}
	}
	if least := unexplainedFailures(w, causes); 2*least > w.Failed {
		rest := unexplained(v, w, silent)
		rest.Text = fmt.Sprintf("no rule fits %d of %d failures%s", least, w.Failed, strings.TrimPrefix(rest.Text, "no rule fits"))
		return append([]model.Cause{rest}, rank(causes)...)
	}
	return rank(causes)
}

// unexplainedFailures are those that the cause which explains most cannot have made.
func unexplainedFailures(w *model.Window, causes []model.Cause) int {
	least := w.Failed
	for _, c := range causes {
		if c.Explains == 0 {
			return 0
		}
		least = min(least, w.Failed-c.Explains)
	}
	return least
}

// rank sorts causes by confidence and makes each name the others. High means that no rival fits as
// well: where two claim it, neither keeps it.
func rank(causes []model.Cause) []model.Cause {
	slices.SortStableFunc(causes, func(a, b model.Cause) int { return cmp.Compare(Grade(b.Confidence), Grade(a.Confidence)) })
	if len(causes) > 1 && causes[1].Confidence == model.High {
		for i := range causes {
			causes[i].Confidence = lower(causes[i].Confidence, model.Medium)
		}
	}
	for i := range causes {
		causes[i].Rivals = append([]string{}, causes[i].Rivals...)
		for j, rival := range causes {
			if i != j {
				causes[i].Rivals = append(causes[i].Rivals, rivalry(rival, j < i))
			}
		}
	}
	return causes
}

func rivalry(rival model.Cause, ahead bool) string {
	if ahead {
		return fmt.Sprintf("%s ranks higher [%s]", rival.Rule, rival.Confidence)
	}
	return fmt.Sprintf("%s fits too, but ranks lower [%s]: %s", rival.Rule, rival.Confidence, rival.Text)
}

// Grade orders confidences.
func Grade(c model.Confidence) int {
	return slices.Index([]model.Confidence{model.Low, model.Medium, model.High}, c)
}

// lower is the less confident of the two.
func lower(a, b model.Confidence) model.Confidence {
	if Grade(a) < Grade(b) {
		return a
	}
	return b
}
