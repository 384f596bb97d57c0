package rule

import (
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// CauseOf returns what a finding of a rule says, with the confidence that follows from its signs.
func (f *Finding) CauseOf(rule string) model.Cause {
	c := model.Cause{
		Rule: rule, Reason: f.Reason, Confidence: f.confidence(), Text: f.Text, Fix: f.Fix,
		Evidence: []model.Evidence{}, Rivals: []string{}, Explains: f.Explains, Measures: f.Measures,
		Sleep: f.Sleep,
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
		c = Lower(c, [...]model.Confidence{evidence.Context: model.High, evidence.Close: model.Medium,
			evidence.Watched: model.Low, evidence.Measured: model.Low}[s.Strength])
	}
	for _, s := range f.Missing {
		c = Lower(c, [...]model.Confidence{evidence.Context: model.High, evidence.Close: model.Low,
			evidence.Watched: model.Low, evidence.Measured: model.Medium}[s.Strength])
	}
	return c
}

// ExplainsAtMost says how many of a window's failures the cause can have made, and counts it as a doubt if these are
// not all. What can have made none is not the cause.
func (f *Finding) ExplainsAtMost(w *model.Window, n int) {
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
	f.Oppose(strength.Doubt(fmt.Sprintf("it explains at most %d of %d failures; the rest have another cause", n,
		w.Failed)))
}

// Grade orders confidences: low is 0, high is 2. What is no confidence has -1.
func Grade(c model.Confidence) int {
	return slices.Index([]model.Confidence{model.Low, model.Medium, model.High}, c)
}

// Lower returns the less confident of the two.
func Lower(a, b model.Confidence) model.Confidence {
	if Grade(a) < Grade(b) {
		return a
	}
	return b
}
