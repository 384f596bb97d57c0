package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
)

// A Scenario is one way in which a Service loses requests, or does not, with what Lapse has to say of it.
type Scenario struct {
	Name     string
	File     string
	Comment  string // its first line says what it shows
	Manifest string // YAML for kubectl, in the lab's namespace
	Steps    []Step
	Targets  []string // what `lapse run` measures; svc/web by default
	Flags    []string // further ones of `lapse run`
	Outside  Outside
	Expect   Expectation

	GoodFor time.Duration     // of web's certificate; 0: a day
	Further map[string]string // manifests that steps apply, by the name of their section

	fix      []replacement // what the fix changes in the manifest
	fixCuts  bool          // with the fix held connections may still end without an announcement
	fixAdds  string        // what it adds to it
	original string        // the scenario's name, of one with the fix
}

// fixedSuffix ends the name of a scenario that is played with its fix.
const fixedSuffix = "-fixed"

// hasFix reports whether the scenario says how to avoid what it shows.
func (s Scenario) hasFix() bool { return len(s.fix) > 0 || s.fixAdds != "" }

// fixed returns the same scenario with the fix in place: the same is done, and no request may fail.
func (s Scenario) fixed() Scenario {
	f := s
	f.Name, f.original = s.Name+fixedSuffix, s.Name
	f.Comment = "With the fix: " + s.Comment
	for _, r := range s.fix {
		f.Manifest = r.in(f.Manifest)
	}
	if s.fixAdds != "" {
		f.Manifest += "---\n" + s.fixAdds
	}
	f.Expect = Expectation{NoFailure: true, Cuts: s.fixCuts}
	return f
}

// A replacement puts other lines in the place of the manifest's first line that says old. They are indented as that
// one was.
type replacement struct {
	line int
	old  string
	new  []string
}

func (r replacement) in(manifest string) string {
	all := strings.Split(manifest, "\n")
	i := slices.IndexFunc(all, func(l string) bool { return strings.TrimSpace(l) == r.old })
	if i < 0 {
		return manifest
	}
	indent, _, _ := strings.Cut(all[i], r.old)
	lines := make([]string, len(r.new))
	for j, text := range r.new {
		lines[j] = indent + text
	}
	return strings.Join(slices.Replace(all, i, i+1, lines...), "\n")
}

// Title returns the comment's first line.
func (s Scenario) Title() string {
	title, _, _ := strings.Cut(s.Comment, "\n")
	return title
}

// The sections of a scenario's file.
const (
	manifestSection = "manifest.yaml"
	stepsSection    = "steps"
	lapseSection    = "lapse"
	outsideSection  = "outside"
	expectSection   = "expect"
	goodForSection  = "certificate"
	fixSection      = "fix"
	fixAddsSection  = "fix.yaml"
)

var sections = []string{manifestSection, outsideSection, stepsSection, lapseSection, goodForSection,
	expectSection, fixSection, fixAddsSection}

// Load reads the scenarios of those names from a folder; all of them if there are no names. NAME-fixed is the
// scenario NAME with its fix.
func Load(dir string, names ...string) ([]Scenario, error) {
	if len(names) == 0 {
		files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		}
		slices.Sort(names)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no scenarios in %s", dir)
	}
	var scenarios []Scenario
	var wrong []error
	for _, asked := range names {
		name, wantFixed := strings.CutSuffix(asked, fixedSuffix)
		file := filepath.Join(dir, name+".txtar")
		data, err := os.ReadFile(file)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("no scenario %q: %w", name, err))
			continue
		}
		s, err := Parse(file, data)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if wantFixed && !s.hasFix() {
			wrong = append(wrong, fmt.Errorf("no scenario %q: %s has no section %q",
				asked, filepath.Base(file), fixSection))
			continue
		}
		if wantFixed {
			s = s.fixed()
		}
		scenarios = append(scenarios, s)
	}
	return scenarios, errors.Join(wrong...)
}

// Parse reads a scenario. Its error names every line that is wrong, as a [Problem] each.
func Parse(file string, data []byte) (Scenario, error) {
	archive := txtar.Parse(data)
	s := Scenario{
		Name:    strings.TrimSuffix(filepath.Base(file), ".txtar"),
		File:    file,
		Comment: strings.TrimSpace(string(archive.Comment)),
	}
	p := &parser{file: file, defined: map[string]bool{proberVar: true, namespaceVar: true},
		addresses: map[string]bool{}}
	if s.Comment == "" {
		p.wrong(1, "want a comment first: what the scenario shows, and the row of causes.md")
	}
	for _, section := range archive.Files {
		if !slices.Contains(sections, section.Name) && strings.HasSuffix(section.Name, ".yaml") {
			p.further = append(p.further, section.Name)
		}
	}
	seen := map[string]int{}
	for _, section := range archive.Files {
		first := lineOf(data, section.Name, seen[section.Name]) + 1
		if seen[section.Name]++; seen[section.Name] > 1 {
			p.wrong(first-1, "a second section %q", section.Name)
			continue
		}
		p.read(&s, section, first)
	}
	p.check(s, strings.Count(string(data), "\n"))
	return s, errors.Join(p.problems...)
}

// read reads a section, whose text begins at a line.
func (p *parser) read(s *Scenario, section txtar.File, first int) {
	lines := lines(string(section.Data), first)
	switch section.Name {
	case manifestSection:
		s.Manifest = string(section.Data)
	case stepsSection:
		s.Steps = p.steps(lines)
	case lapseSection:
		s.Targets, s.Flags = lapseCommand(lines)
	case outsideSection:
		s.Outside = p.outside(lines)
	case expectSection:
		s.Expect = p.expectation(lines, s.Steps)
	case goodForSection:
		s.GoodFor = p.goodFor(lines)
	case fixSection:
		s.fix, s.fixCuts = p.replacements(lines)
	case fixAddsSection:
		s.fixAdds = string(section.Data)
	default:
		if !slices.Contains(p.further, section.Name) {
			p.wrong(first-1, "unknown section %q: want %s, or NAME.yaml with what a step applies",
				section.Name, strings.Join(sections, ", "))
		}
		if s.Further == nil {
			s.Further = map[string]string{}
		}
		s.Further[section.Name] = string(section.Data)
	}
}

// lapseCommand reads what `lapse run` measures, and its flags.
func lapseCommand(lines []line) (targets, flags []string) {
	for _, l := range lines {
		w := strings.Fields(l.text)
		first := slices.IndexFunc(w, func(word string) bool { return strings.HasPrefix(word, "-") })
		if first < 0 {
			first = len(w)
		}
		targets, flags = append(targets, w[:first]...), append(flags, w[first:]...)
	}
	return targets, flags
}

// check looks for what is wrong in the scenario as a whole, whose file has its last line at end.
func (p *parser) check(s Scenario, end int) {
	for _, r := range s.fix {
		if r.in(s.Manifest) == s.Manifest {
			p.wrong(r.line, "the manifest has no line %q, or it stays as it is", r.old)
		}
	}
	if strings.TrimSpace(s.Manifest) == "" {
		p.wrong(end, "want a section %q: what to deploy", manifestSection)
	}
	for _, name := range variable.FindAllString(strings.Join(slices.Concat(s.Targets, s.Flags), " "), -1) {
		if name[1:] != caVar && name[1:] != namespaceVar && !slices.Contains(s.Outside.variables(), name[1:]) {
			p.wrong(end, "%s is not set: want a section %q with what it is the address of", name, outsideSection)
		}
	}
	if !s.oneProber() && slices.ContainsFunc(s.Steps,
		func(step Step) bool { return strings.Contains(step.Text, "$"+proberVar) }) {
		p.wrong(end, "$%s: Lapse does not measure from one node", proberVar)
	}
	if len(s.Steps) == 0 {
		p.wrong(end, "want a section %q with a step", stepsSection)
	}
	if !p.failed(expectSection) && s.Expect.empty() {
		p.wrong(end, "want a section %q with an incident, or `no failure`", expectSection)
	}
}

// goodFor reads `good for 75s`.
func (p *parser) goodFor(lines []line) time.Duration {
	p.section = goodForSection
	if len(lines) == 0 {
		return 0
	}
	text, ok := strings.CutPrefix(lines[0].text, "good for ")
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d <= 0 || len(lines) > 1 {
		p.wrong(lines[0].number, "%q: want one line, `good for 75s`", lines[0].text)
	}
	return d
}

// replacements reads `replace LINE` and, below it, `with LINE` for each line that comes in its place. `allow cuts` says
// that held connections may end without an announcement.
func (p *parser) replacements(lines []line) (all []replacement, cuts bool) {
	p.section = fixSection
	for _, l := range lines {
		verb, text, _ := strings.Cut(l.text, " ")
		switch {
		case verb == "replace" && text != "":
			all = append(all, replacement{line: l.number, old: strings.TrimSpace(text)})
		case verb == "with" && text != "" && len(all) > 0:
			last := &all[len(all)-1]
			last.new = append(last.new, text)
		case l.text == allowCuts:
			cuts = true
		default:
			p.wrong(l.number, "%q: want `replace LINE`, and `with LINE` below it, or `%s`", l.text, allowCuts)
		}
	}
	return all, cuts
}
