package correlate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// explain fills the errors and causes of the run's windows, also of those that are not final.
func explain(s *scene) {
	v := newView(s)
	for i := range s.run.Windows {
		w := &s.run.Windows[i]
		w.Errors = v.errorsOf(w)
		w.Causes = causesOf(v, w)
	}
}

// errorsOf are the texts of the window's target and classes that had been seen by its end.
func (v *view) errorsOf(w *Window) (texts []ErrorText) {
	for _, e := range v.errors {
		if e.Object.Name == w.Target && w.Classes[e.To] > 0 && e.At.Earliest <= w.End.Latest {
			texts = append(texts, ErrorText{Class: e.To, Text: e.Detail, First: e.At})
		}
	}
	return texts
}

// causesOf asks every rule about one window. The causes come with the most confident first, each
// naming the others as its rivals; if no rule speaks the window is unexplained.
func causesOf(v *view, w *Window) []Cause {
	var causes []Cause
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
		return []Cause{unexplained(v, w, silent)}
	}
	if least := unexplainedFailures(w, causes); 2*least > w.Failed {
		rest := unexplained(v, w, silent)
		rest.Text = fmt.Sprintf("no rule fits %d of %d failures%s", least, w.Failed, strings.TrimPrefix(rest.Text, "no rule fits"))
		return append([]Cause{rest}, rank(causes)...)
	}
	return rank(causes)
}

// unexplainedFailures are those that the cause which explains most cannot have made.
func unexplainedFailures(w *Window, causes []Cause) int {
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
func rank(causes []Cause) []Cause {
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(grade(b.Confidence), grade(a.Confidence)) })
	if len(causes) > 1 && causes[1].Confidence == High {
		for i := range causes {
			causes[i].Confidence = lower(causes[i].Confidence, Medium)
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

func rivalry(rival Cause, ahead bool) string {
	if ahead {
		return fmt.Sprintf("%s ranks higher [%s]", rival.Rule, rival.Confidence)
	}
	return fmt.Sprintf("%s fits too, but ranks lower [%s]: %s", rival.Rule, rival.Confidence, rival.Text)
}

// grade orders confidences.
func grade(c Confidence) int { return slices.Index([]Confidence{Low, Medium, High}, c) }

// lower is the less confident of the two.
func lower(a, b Confidence) Confidence {
	if grade(a) < grade(b) {
		return a
	}
	return b
}
