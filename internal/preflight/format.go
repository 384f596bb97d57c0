package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// A Format prints a report.
type Format struct {
	Name, Doc string
	Write     func(io.Writer, *Report, document.Screen) error // what it is printed on matters to people only
}

// Formats lists the formats.
var Formats = []Format{
	{"table", "for people", writeTable},
	{"json", "all of it", writeJSON},
	{"junit", "JUnit XML: a case for each rule and object", writeJUnit},
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

func writeJSON(w io.Writer, r *Report, _ document.Screen) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// widest is how wide a table is at most, in columns: findings are prose.
const widest = 110

func writeTable(w io.Writer, r *Report, screen document.Screen) error {
	screen.Width = min(screen.Width, widest)
	p := document.NewPage(screen)
	p.Print(r.document())
	_, err := p.WriteTo(w)
	return err
}

// document is the report for people. Each finding is told once, also where several Services have it.
func (r *Report) document() document.Document {
	var sections []document.Section
	told := map[string]string{} // which Service has told a finding
	var clean []string
	for i := range r.Services {
		s := &r.Services[i]
		if len(r.Services) > 1 && len(s.Findings) == 0 {
			clean = append(clean, s.title())
			continue
		}
		sections = append(sections, s.sections(told)...)
	}
	if len(r.Services) > 1 && len(clean) > 0 {
		sections = append(sections, section("no findings", strings.Join(clean, ", ")))
	}
	warnings := section("warnings")
	for _, p := range r.Problems {
		if p.Warning {
			warnings.Blocks = append(warnings.Blocks, document.Note{Text: p.String()})
		}
	}
	notes := slices.Clone(r.Notes)
	for i := range r.Services {
		for _, note := range r.Services[i].Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	for _, s := range []document.Section{r.accepted(), r.unjudged(), warnings, section("notes", notes...)} {
		if len(s.Blocks) > 0 {
			sections = append(sections, s)
		}
	}
	if len(r.Services) != 1 || r.Verdict.Result == Unreadable || r.Verdict.Result == Unknown {
		sections = append(sections, document.Section{Title: "summary", Column: 2, Blocks: []document.Block{document.Note{Text: r.Verdict.Summary, Verbatim: true}}})
	}
	return document.Document{Sections: sections}
}

// sections are what is said of one Service.
func (r *Result) sections(told map[string]string) []document.Section {
	head := section("", "PREFLIGHT "+r.title()+": "+r.Endpoints+"; "+r.summary())
	if r.Node != "" {
		head.Blocks = append(head.Blocks, document.Note{Text: "to drain: " + r.Node})
	}
	if len(told) == 0 {
		head.Blocks = append(head.Blocks, document.Note{Text: "route lag: " + r.RouteLag})
	}
	sections := []document.Section{head}
	again := section("")
	for i := range r.Findings {
		f := &r.Findings[i]
		key := f.fingerprint(r.namespace) + f.Prediction
		if of, ok := told[key]; ok {
			again.Blocks = append(again.Blocks, document.Note{Text: fmt.Sprintf("%s %s of %s: as for %s", f.Rule, f.Name, f.object(), of)})
			continue
		}
		told[key] = r.title()
		sections = append(sections, f.section())
	}
	if again.Tight = true; len(again.Blocks) > 0 {
		sections = slices.Insert(sections, 1, again)
	}
	return sections
}

// accepted lists what is accepted, with the reasons.
func (r *Report) accepted() document.Section {
	s := section("accepted")
	var lines []string
	for i := range r.Services {
		for _, f := range r.Services[i].Accepted {
			line := fmt.Sprintf("%s %s of %s: %s", f.Rule, f.Name, f.object(), f.Accepted)
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
				s.Blocks = append(s.Blocks, document.Note{Text: line})
			}
		}
	}
	return s
}

// unjudged lists the rules that could not judge, those with the same reason in one line.
func (r *Report) unjudged() document.Section {
	s := section("not judged")
	var whys []string
	ids := map[string][]string{}
	for i := range r.Services {
		for _, u := range r.Services[i].Unjudged {
			if u.Why == r.Services[i].blindFor { // a finding says it
				continue
			}
			if ids[u.Why] == nil {
				whys = append(whys, u.Why)
			}
			if !slices.Contains(ids[u.Why], u.Rule) {
				ids[u.Why] = append(ids[u.Why], u.Rule)
			}
		}
	}
	for _, why := range whys { // many end with a command to copy
		slices.Sort(ids[why])
		s.Blocks = append(s.Blocks, document.Note{Text: strings.Join(ids[why], ", ") + ": " + why, Verbatim: true})
	}
	return s
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
	if f.Place != nil {
		s.Remark += "   " + f.Place.String()
	}
	s.Blocks = append(s.Blocks, document.Note{Text: f.Prediction})
	for i, e := range f.Evidence {
		if e.Object == "cluster" { // the head of the report says it
			continue
		}
		text := e.String()
		if i < len(f.at) && f.at[i].Line > 0 && f.at[i] != *f.Place {
			text += " (" + f.at[i].String() + ")"
		}
		s.Blocks = append(s.Blocks, document.Note{Label: "why", Text: text})
	}
	s.Blocks = append(s.Blocks, document.Note{Label: "fix", Text: f.Fix})
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
		return fmt.Sprintf("no findings; %s judged, %d could not", quantity.Count(len(r.rules)-len(r.Unjudged), "rule"), len(r.Unjudged))
	}
	return quantity.Count(len(r.Findings), "finding") + ": " + strings.Join(parts, ", ")
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

// evidence is all of a finding's in one text, with its lines in the files.
func (f *Finding) evidence() string {
	var all []string
	for i, e := range f.Evidence {
		text := e.String()
		if i < len(f.at) && f.at[i].Line > 0 {
			text += " (" + f.at[i].String() + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}
