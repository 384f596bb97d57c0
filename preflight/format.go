package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/quantity"
	"lapse/report/document"
	"lapse/report/junit"
	"lapse/timeline"
)

// A Format prints a result.
type Format struct {
	Name, Doc string
	Write     func(io.Writer, *Result, document.Screen) error // what it is printed on matters to people only
}

// Formats lists the formats.
var Formats = []Format{
	{"table", "for people", writeTable},
	{"json", "all of it", writeJSON},
	{"junit", "JUnit XML: a case for each rule", writeJUnit},
	{"sarif", "SARIF 2.1.0, for code scanning", writeSARIF},
}

// FormatNames lists their names.
func FormatNames() string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

func writeJSON(w io.Writer, r *Result, _ document.Screen) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// widest is how wide a table is at most, in columns: findings are prose.
const widest = 110

func writeTable(w io.Writer, r *Result, screen document.Screen) error {
	screen.Width = min(screen.Width, widest)
	p := document.NewPage(screen)
	p.Print(r.document())
	_, err := p.WriteTo(w)
	return err
}

// document is the result for people.
func (r *Result) document() document.Document {
	head := section("", "PREFLIGHT svc/"+r.Service+": "+r.Endpoints+"; "+r.summary())
	if r.Node != "" {
		head.Blocks = append(head.Blocks, document.Note{Text: "to drain: " + r.Node})
	}
	head.Blocks = append(head.Blocks, document.Note{Text: "route lag: " + r.RouteLag})
	sections := []document.Section{head}
	for _, severity := range severities {
		for _, f := range r.Findings {
			if f.Severity == severity {
				sections = append(sections, f.section())
			}
		}
	}
	accepted, unjudged := section("accepted"), section("not judged")
	accepted.Remark = "by the baseline"
	for _, f := range r.Accepted {
		accepted.Blocks = append(accepted.Blocks, document.Note{Text: fmt.Sprintf("%s %s of %s: %s", f.Rule, f.Name, f.Evidence[0].Object, f.Accepted)})
	}
	for _, u := range r.Unjudged { // many end with a command to copy
		unjudged.Blocks = append(unjudged.Blocks, document.Note{Text: fmt.Sprintf("%s %s: %s", u.Rule, u.Name, u.Why), Verbatim: true})
	}
	for _, s := range []document.Section{accepted, unjudged, section("notes", r.Notes...)} {
		if len(s.Blocks) > 0 {
			sections = append(sections, s)
		}
	}
	return document.Document{Sections: sections}
}

// section has each text in lines of its own, below its title.
func section(title string, texts ...string) document.Section {
	s := document.Section{Title: title, Column: 2}
	for _, text := range texts {
		s.Blocks = append(s.Blocks, document.Note{Text: text})
	}
	return s
}

// section is a finding for people.
func (f *Finding) section() document.Section {
	s := document.Section{Title: string(f.Severity), Remark: f.Rule + " " + f.Name, Column: len(WillBlock) + 1}
	s.Blocks = append(s.Blocks, document.Note{Text: f.Prediction})
	for _, e := range f.Evidence {
		s.Blocks = append(s.Blocks, document.Note{Label: "why", Text: e.String()})
	}
	s.Blocks = append(s.Blocks, document.Note{Label: "fix", Text: f.Fix})
	switch {
	case len(f.ConfirmedBy) > 0:
		s.Blocks = append(s.Blocks, document.Note{Label: "run", Text: "a run that confirms it names the cause " + strings.Join(f.causes(), " or ")})
	case f.When == timeline.EvictionAsked:
		s.Blocks = append(s.Blocks, document.Note{Label: "run", Text: "a run that wraps `kubectl drain` confirms it when an eviction is refused"})
	}
	return s
}

// summary counts the findings by severity.
func (r *Result) summary() string {
	var parts []string
	for _, severity := range severities {
		n := 0
		for _, f := range r.Findings {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, severity))
		}
	}
	if parts == nil {
		return fmt.Sprintf("nothing found by %d of %d rules", len(rules)-len(r.Unjudged), len(rules))
	}
	return quantity.Count(len(r.Findings), "finding") + ": " + strings.Join(parts, ", ")
}

// causes are the rules of correlate/causes that confirm it, each once.
func (f *Finding) causes() (rules []string) {
	for _, name := range f.ConfirmedBy {
		if rule, _, _ := strings.Cut(name, "/"); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

func (e Evidence) String() string { return e.Object + ": " + e.Field + " = " + shown(e.Value) }

// longest is how much of a value is shown to people: a command can be a script.
const longest = 160

// shown is a value in one line.
func shown(value string) string {
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + " …"
	}
	return strings.Join(strings.Fields(value), " ")
}

// evidence is all of a finding's in one text.
func (f *Finding) evidence() string {
	var all []string
	for _, e := range f.Evidence {
		all = append(all, e.String())
	}
	return strings.Join(all, "\n")
}

// writeJUnit writes a case for each rule: failed where it found something, skipped where it could not judge.
func writeJUnit(w io.Writer, r *Result, _ document.Screen) error {
	suite := junit.Suite{Name: "lapse preflight svc/" + r.Service}
	for _, rule := range rules {
		c := junit.Case{Name: rule.ID + " " + rule.Name}
		for _, f := range r.Findings {
			if f.Rule == rule.ID && f.Severity.Fails() {
				c.Failures = append(c.Failures, junit.Note{Message: f.Prediction, Type: string(f.Severity), Text: f.evidence() + "\nfix: " + f.Fix})
			}
		}
		for _, f := range r.Accepted {
			if f.Rule == rule.ID {
				c.Output += "accepted: " + f.Accepted + "\n"
			}
		}
		if i := slices.IndexFunc(r.Unjudged, func(u Unjudged) bool { return u.Rule == rule.ID }); i >= 0 {
			c.Skipped = &junit.Note{Message: r.Unjudged[i].Why}
		}
		suite.Add(c)
	}
	return junit.Write(w, suite)
}
