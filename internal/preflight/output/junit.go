package output

import (
	"io"
	"slices"

	"lapse/internal/preflight"
	"lapse/internal/preflight/rules"
	"lapse/internal/report/document"
	"lapse/internal/report/junit"
)

// writeJUnit writes a suite for each Service, with a case for each rule and object. A case has failed if the rule found
// something that fails the check, and is skipped if it found less or could not judge. It is an error if nothing is
// known of a Service, or if a file could not be read.
func writeJUnit(w io.Writer, r *preflight.Report, _ document.Screen) error {
	suites := []junit.Suite{}
	if len(r.Problems) > 0 || len(r.Services) == 0 {
		suites = append(suites, reading(r))
	}
	for i := range r.Services {
		suites = append(suites, suiteOf(r, &r.Services[i]))
	}
	for i := range suites {
		suites[i].Timestamp, suites[i].Time = r.At.UTC().Format("2006-01-02T15:04:05"), junit.Seconds(0)
	}
	suites[0].Time = junit.Seconds(r.Took)
	return junit.Write(w, suites...)
}

// reading returns the suite with the problems of files.
func reading(r *preflight.Report) junit.Suite {
	suite := junit.Suite{Name: "lapse preflight: reading"}
	for _, p := range r.Problems {
		whole, text := document.Clean(p.String()), document.Clean(p.Text)
		c := junit.Case{Name: whole, Time: junit.Seconds(0), File: p.Place.Path(), Line: p.Line}
		if p.Warning {
			c.Output = "warning: " + text
		} else {
			c.Error = &junit.Note{Message: text, Type: string(preflight.Unreadable), Text: whole}
		}
		suite.Add(c)
	}
	return suite
}

// suiteOf returns the suite of a Service.
func suiteOf(r *preflight.Report, s *preflight.Result) junit.Suite {
	suite := junit.Suite{Name: "lapse preflight " + s.Title()}
	about := s.Kind + "/" + s.Name
	for _, rule := range slices.Concat([]rules.Rule{preflight.NothingKnown}, s.Rules) {
		title := rule.ID + " " + rule.Name + ": "
		cases := casesOf(r, s, rule.ID, title)
		if cases == nil && rule.ID == preflight.NothingKnown.ID {
			continue
		}
		if cases == nil {
			c := junit.Case{Name: title + about, Time: junit.Seconds(0)}
			i := slices.IndexFunc(s.Unjudged, func(u rules.Unjudged) bool { return u.Rule == rule.ID })
			if i >= 0 {
				c.Skipped = &junit.Note{Message: document.Clean(s.Unjudged[i].Why)}
			}
			cases = []junit.Case{c}
		}
		for _, c := range cases {
			if c.File == "" && s.Place != nil {
				c.File, c.Line = s.Place.Path(), s.Place.Line
			}
			suite.Add(c)
		}
	}
	return suite
}

// casesOf returns a case for each object that a rule has a finding of. Each has one failure at most: many readers show
// only the first.
func casesOf(r *preflight.Report, s *preflight.Result, rule, title string) (cases []junit.Case) {
	index := map[string]int{}
	for _, f := range slices.Concat(s.Findings, s.Accepted) {
		if f.Rule != rule {
			continue
		}
		i, ok := index[f.Object()]
		if !ok {
			i = len(cases)
			index[f.Object()] = i
			cases = append(cases, junit.Case{Name: title + f.Object(), Time: junit.Seconds(0)})
			if f.Place != nil {
				cases[i].File, cases[i].Line = f.Place.Path(), f.Place.Line
			}
		}
		c := &cases[i]
		text := document.Clean(f.Prediction)
		note := junit.Note{Message: text, Type: string(f.Severity), Text: evidence(&f) + "\nfix: " + f.Fix}
		switch {
		case f.Accepted != "":
			c.Output += "accepted: " + f.Accepted + "\n"
		case s.BlindFor != "" && f.Severity == rules.Blind && r.Verdict.FailOn != "none":
			c.Error = &note
		case r.Verdict.FailOn.Fails(f.Severity):
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
