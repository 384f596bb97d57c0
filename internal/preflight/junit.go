package preflight

import (
	"io"
	"slices"

	"lapse/internal/report/document"
	"lapse/internal/report/junit"
)

// writeJUnit writes a suite for each Service, with a case for each rule and object: failed where the rule found
// something that fails the check, skipped where it found less or could not judge. A Service of which nothing is known,
// and what could not be read, is an error.
func writeJUnit(w io.Writer, r *Report, _ document.Screen) error {
	suites := []junit.Suite{}
	if len(r.Problems) > 0 || len(r.Services) == 0 {
		suites = append(suites, r.reading())
	}
	for i := range r.Services {
		suites = append(suites, r.suite(&r.Services[i]))
	}
	for i := range suites {
		suites[i].Timestamp, suites[i].Time = r.At.UTC().Format("2006-01-02T15:04:05"), junit.Seconds(0)
	}
	suites[0].Time = junit.Seconds(r.Took)
	return junit.Write(w, suites...)
}

// reading is the suite of what was to be read.
func (r *Report) reading() junit.Suite {
	suite := junit.Suite{Name: "lapse preflight: reading"}
	for _, p := range r.Problems {
		c := junit.Case{Name: document.Clean(p.String()), Time: junit.Seconds(0), File: p.Place.path(), Line: p.Line}
		if p.Warning {
			c.Output = "warning: " + document.Clean(p.Text)
		} else {
			c.Error = &junit.Note{Message: document.Clean(p.Text), Type: string(Unreadable), Text: document.Clean(p.String())}
		}
		suite.Add(c)
	}
	return suite
}

// suite has the cases of a Service.
func (r *Report) suite(s *Result) junit.Suite {
	suite := junit.Suite{Name: "lapse preflight " + s.title()}
	about := s.kind + "/" + s.name
	for _, rule := range slices.Concat([]Rule{nothingKnown}, s.rules) {
		title := rule.ID + " " + rule.Name + ": "
		whys := slices.Collect(func(yield func(string) bool) {
			for _, u := range s.Unjudged {
				if u.Rule == rule.ID && !yield(u.Why) {
					return
				}
			}
		})
		cases := r.cases(s, rule.ID, title)
		if cases == nil && rule.ID == nothingKnown.ID {
			continue
		}
		if cases == nil {
			c := junit.Case{Name: title + about, Time: junit.Seconds(0)}
			if len(whys) > 0 {
				c.Skipped = &junit.Note{Message: document.Clean(whys[0])}
			}
			cases = []junit.Case{c}
		}
		for _, c := range cases {
			if c.File == "" && s.Place != nil {
				c.File, c.Line = s.Place.path(), s.Place.Line
			}
			suite.Add(c)
		}
	}
	return suite
}

// cases are those of the objects that a rule found something of. Each has one failure at most: many readers show only
// the first.
func (r *Report) cases(s *Result, rule, title string) (cases []junit.Case) {
	index := map[string]int{}
	for _, f := range slices.Concat(s.Findings, s.Accepted) {
		if f.Rule != rule {
			continue
		}
		i, ok := index[f.object()]
		if !ok {
			i = len(cases)
			index[f.object()] = i
			cases = append(cases, junit.Case{Name: title + f.object(), Time: junit.Seconds(0)})
			if f.Place != nil {
				cases[i].File, cases[i].Line = f.Place.path(), f.Place.Line
			}
		}
		c := &cases[i]
		text := document.Clean(f.Prediction)
		note := junit.Note{Message: text, Type: string(f.Severity), Text: f.evidence() + "\nfix: " + f.Fix}
		switch {
		case f.Accepted != "":
			c.Output += "accepted: " + f.Accepted + "\n"
		case s.blindFor != "" && f.Severity == Blind && r.Verdict.FailOn != "none":
			c.Error = &note
		case r.Verdict.FailOn.fails(f.Severity):
			if len(c.Failures) > 0 {
				c.Failures[0].Text += "\n\n" + text + "\n" + note.Text
				continue
			}
			c.Failures, c.Skipped = []junit.Note{note}, nil
		case len(c.Failures) == 0 && c.Error == nil:
			note.Message = "does not fail the check: " + note.Message
			c.Skipped = &note
		}
	}
	return cases
}
