package causes

import (
	"cmp"
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// cause returns what a finding of a rule says, with the confidence that follows from its signs.
func (f *Finding) cause(rule string) model.Cause {
	c := model.Cause{
		Rule: rule, Reason: f.Reason, Confidence: f.confidence(), Text: f.Text, Fix: f.Fix,
		Evidence: []model.Evidence{}, Rivals: []string{}, Explains: f.Explains, Measures: f.Measures,
	}
	for _, s := range f.For {
		c.Evidence = append(c.Evidence, s.Evidence)
	}
	for _, s := range slices.Concat(f.Missing, f.Against) {
		c.Rivals = append(c.Rivals, s.Text)
	}
	return c
}

// confidence returns what the strongest sign for the cause supports, or high if two were seen in different places, as
// far as the signs against it and the missing ones leave that.
func (f *Finding) confidence() model.Confidence {
	strongest, places := evidence.Context, map[string]bool{}
	for _, s := range f.For {
		strongest = max(strongest, s.Strength)
		if s.Strength > evidence.Context {
			places[s.Place()] = true
		}
	}
	c := model.Low
	switch {
	case strongest == evidence.Measured, len(places) > 1:
		c = model.High
	case strongest == evidence.Watched:
		c = model.Medium
	}
	for _, s := range f.Against {
		c = lower(c, [...]model.Confidence{evidence.Context: model.High, evidence.Close: model.Medium,
			evidence.Watched: model.Low, evidence.Measured: model.Low}[s.Strength])
	}
	for _, s := range f.Missing {
		c = lower(c, [...]model.Confidence{evidence.Context: model.High, evidence.Close: model.Low,
			evidence.Watched: model.Low, evidence.Measured: model.Medium}[s.Strength])
	}
	return c
}

// explains says how many of a window's failures the cause can have made, and counts it as a doubt if these are not
// all. What can have made none is not the cause.
func (f *Finding) explains(w *model.Window, n int) {
	switch {
	case w.Kind == model.Slow || n >= w.Failed:
		return
	case n == 0:
		f.Explains = -1
		return
	}
	f.Explains = n
	strength := evidence.Close
	if 2*n < w.Failed {
		strength = evidence.Watched
	}
	f.against(strength.Doubt(fmt.Sprintf("it explains at most %d of %d failures; the rest have another cause", n,
		w.Failed)))
}

// rank sorts causes by confidence and makes each name the others. High means that no rival fits as
// well: where two claim it, neither keeps it.
func rank(causes []model.Cause) []model.Cause {
	slices.SortStableFunc(causes, func(a, b model.Cause) int {
		return cmp.Compare(Grade(b.Confidence), Grade(a.Confidence))
	})
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

// Grade orders confidences: low is 0, high is 2. What is no confidence has -1.
func Grade(c model.Confidence) int {
	return slices.Index([]model.Confidence{model.Low, model.Medium, model.High}, c)
}

// lower returns the less confident of the two.
func lower(a, b model.Confidence) model.Confidence {
	if Grade(a) < Grade(b) {
		return a
	}
	return b
}
