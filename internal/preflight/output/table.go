package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/quantity"
	"lapse/internal/preflight"
	"lapse/internal/preflight/rules"
	"lapse/internal/report/document"
)

// widest is how wide a table is at most, in columns: findings are prose.
const widest = 110

func writeTable(w io.Writer, r *preflight.Report, screen document.Screen) error {
	screen.Width = min(screen.Width, widest)
	p := document.NewPage(screen)
	p.Print(table(r))
	_, err := p.WriteTo(w)
	return err
}

// table returns the report for people. Each finding is printed once, also if several Services have it.
func table(r *preflight.Report) document.Document {
	var sections []document.Section
	told := map[string]string{} // the Service under which a finding was printed
	var clean []string
	for i := range r.Services {
		s := &r.Services[i]
		if len(r.Services) > 1 && len(s.Findings) == 0 {
			clean = append(clean, s.Title())
			continue
		}
		sections = append(sections, ofService(s, told)...)
	}
	if len(r.Services) > 1 && len(clean) > 0 {
		sections = append(sections, section("no findings", strings.Join(clean, ", ")))
	}
	for _, s := range []document.Section{accepted(r), unjudged(r), warnings(r), notes(r)} {
		if len(s.Blocks) > 0 {
			sections = append(sections, s)
		}
	}
	result := r.Verdict.Result
	if len(r.Services) != 1 || result == preflight.Unreadable || result == preflight.Unknown {
		s := section("summary")
		s.Blocks = []document.Block{document.Note{Text: r.Verdict.Summary, Verbatim: true}}
		sections = append(sections, s)
	}
	return document.Document{Sections: sections}
}

// ofService returns what is said of one Service.
func ofService(r *preflight.Result, told map[string]string) []document.Section {
	head := section("", "PREFLIGHT "+r.Title()+": "+r.Endpoints+"; "+summary(r))
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
		key := f.Fingerprint(r.Namespace) + f.Prediction
		if of, ok := told[key]; ok {
			text := fmt.Sprintf("%s %s of %s: as for %s", f.Rule, f.Name, f.Object(), of)
			again.Blocks = append(again.Blocks, document.Note{Text: text})
			continue
		}
		told[key] = r.Title()
		sections = append(sections, ofFinding(f))
	}
	if again.Tight = true; len(again.Blocks) > 0 {
		sections = slices.Insert(sections, 1, again)
	}
	return sections
}

// ofFinding returns a finding for people.
func ofFinding(f *preflight.Finding) document.Section {
	s := document.Section{
		Title:  string(f.Severity),
		Remark: f.Rule + " " + f.Name,
		Column: len(rules.WillBlock) + 1,
	}
	if f.Place != nil {
		s.Remark += "   " + f.Place.String()
	}
	s.Blocks = append(s.Blocks, document.Note{Text: f.Prediction})
	for i, e := range f.Evidence {
		if e.Object == "cluster" { // the head of the report says it
			continue
		}
		text := e.String()
		if i < len(f.At) && f.At[i].Line > 0 && f.At[i] != *f.Place {
			text += " (" + f.At[i].String() + ")"
		}
		s.Blocks = append(s.Blocks, document.Note{Label: "why", Text: text})
	}
	s.Blocks = append(s.Blocks, document.Note{Label: "fix", Text: f.Fix})
	return s
}

// accepted lists what is accepted, with the reasons.
func accepted(r *preflight.Report) document.Section {
	var lines []string
	for i := range r.Services {
		for _, f := range r.Services[i].Accepted {
			line := fmt.Sprintf("%s %s of %s: %s", f.Rule, f.Name, f.Object(), f.Accepted)
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return section("accepted", lines...)
}

// unjudged lists the rules that could not judge, those with the same reason in one line.
func unjudged(r *preflight.Report) document.Section {
	s := section("not judged")
	var whys []string
	ids := map[string][]string{}
	for i := range r.Services {
		for _, u := range r.Services[i].Unjudged {
			if u.Why == r.Services[i].BlindFor { // the finding of LP00 says it
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
		text := strings.Join(ids[why], ", ") + ": " + why
		s.Blocks = append(s.Blocks, document.Note{Text: text, Verbatim: true})
	}
	return s
}

// warnings lists the problems that do not fail the check.
func warnings(r *preflight.Report) document.Section {
	var lines []string
	for _, p := range r.Problems {
		if p.Warning {
			lines = append(lines, p.String())
		}
	}
	return section("warnings", lines...)
}

// notes lists the notes of the files and of all Services, each once.
func notes(r *preflight.Report) document.Section {
	lines := slices.Clone(r.Notes)
	for i := range r.Services {
		for _, note := range r.Services[i].Notes {
			if !slices.Contains(lines, note) {
				lines = append(lines, note)
			}
		}
	}
	return section("notes", lines...)
}

// section returns a section with a note for each text.
func section(title string, texts ...string) document.Section {
	s := document.Section{Title: title, Column: 2}
	for _, text := range texts {
		s.Blocks = append(s.Blocks, document.Note{Text: text})
	}
	return s
}

// summary counts the findings by severity.
func summary(r *preflight.Result) string {
	var parts []string
	for _, severity := range rules.Severities {
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
		judged := quantity.Count(len(r.Rules)-len(r.Unjudged), "rule")
		return fmt.Sprintf("no findings; %s judged, %d could not", judged, len(r.Unjudged))
	}
	return quantity.Count(len(r.Findings), "finding") + ": " + strings.Join(parts, ", ")
}
