package preflight

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

// A Format prints a result.
type Format struct {
	Name, Doc string
	Write     func(io.Writer, *Result) error
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

func writeJSON(w io.Writer, r *Result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

func writeTable(w io.Writer, r *Result) error {
	p := &printer{w: w}
	p.line("PREFLIGHT svc/%s: %s; %s", r.Service, r.Endpoints, r.summary())
	if r.Node != "" {
		p.line("to drain: %s", r.Node)
	}
	p.line("route lag: %s", r.RouteLag)
	for _, severity := range severities {
		for _, f := range r.Findings {
			if f.Severity == severity {
				p.finding(f)
			}
		}
	}
	if len(r.Accepted) > 0 {
		p.line("\nACCEPTED by the baseline")
		for _, f := range r.Accepted {
			p.line("  %s %s of %s: %s", f.Rule, f.Name, f.Evidence[0].Object, f.Accepted)
		}
	}
	if len(r.Unjudged) > 0 {
		p.line("\nNOT JUDGED")
		for _, u := range r.Unjudged {
			p.line("  %s %s: %s", u.Rule, u.Name, u.Why)
		}
	}
	if len(r.Notes) > 0 {
		p.line("\nNOTES")
		for _, n := range r.Notes {
			p.line("  %s", n)
		}
	}
	return p.err
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

// A printer writes lines without what a terminal would obey, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err != nil {
		return
	}
	_, p.err = io.WriteString(p.w, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, fmt.Sprintf(format+"\n", args...)))
}

func (p *printer) finding(f Finding) {
	p.line("\n%-10s %s %s", strings.ToUpper(string(f.Severity)), f.Rule, f.Name)
	p.wrapped("", f.Prediction)
	for _, e := range f.Evidence {
		p.wrapped("why  ", e.String())
	}
	p.wrapped("fix  ", f.Fix)
	switch {
	case len(f.ConfirmedBy) > 0:
		p.wrapped("run  ", "a run that confirms it names the cause "+strings.Join(f.causes(), " or "))
	case f.When == timeline.EvictionAsked:
		p.wrapped("run  ", "a run that wraps `kubectl drain` confirms it when an eviction is refused")
	}
}

// wrapped writes words within 110 columns, under a lead.
func (p *printer) wrapped(lead, text string) {
	const indent, width = "           ", 110
	line := indent + lead
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && len(line)+1+len(word) > width {
			p.line("%s", line)
			line, empty = indent+strings.Repeat(" ", len(lead)), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	p.line("%s", line)
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

// The elements of JUnit XML that its readers agree on, as in report/junit.go.
type (
	suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []aCase  `xml:"testcase"`
	}
	aCase struct {
		Name     string `xml:"name,attr"`
		Class    string `xml:"classname,attr"`
		Failures []note `xml:"failure"`
		Skipped  *note  `xml:"skipped"`
		Output   string `xml:"system-out,omitempty"`
	}
	note struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a case for each rule: failed where it found something, skipped where it could not judge.
func writeJUnit(w io.Writer, r *Result) error {
	all := suite{Name: "lapse preflight svc/" + r.Service, Tests: len(rules)}
	for _, rule := range rules {
		c := aCase{Name: rule.ID + " " + rule.Name, Class: all.Name}
		for _, f := range r.Findings {
			if f.Rule == rule.ID && f.Severity.Fails() {
				c.Failures = append(c.Failures, note{f.Prediction, string(f.Severity), f.evidence() + "\nfix: " + f.Fix})
			}
		}
		for _, f := range r.Accepted {
			if f.Rule == rule.ID {
				c.Output += "accepted: " + f.Accepted + "\n"
			}
		}
		if i := slices.IndexFunc(r.Unjudged, func(u Unjudged) bool { return u.Rule == rule.ID }); i >= 0 {
			c.Skipped = &note{Message: r.Unjudged[i].Why}
			all.Skipped++
		}
		if len(c.Failures) > 0 {
			all.Failures++
		}
		all.Cases = append(all.Cases, c)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
