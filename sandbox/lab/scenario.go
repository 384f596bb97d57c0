package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// A Scenario is one way in which a Service loses requests, or does not, with what Lapse has to say of it.
type Scenario struct {
	Name     string
	File     string
	Comment  string // its first line says what it shows
	Manifest string // YAML for kubectl, in the lab's namespace
	Steps    []Step
	Flags    []string // further ones of `lapse run`
	Expect   Expectation
}

// Title is the comment's first line.
func (s Scenario) Title() string {
	title, _, _ := strings.Cut(s.Comment, "\n")
	return title
}

// A Problem is something wrong in a scenario's file.
type Problem struct {
	File string
	Line int
	Text string
}

func (p Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// The sections of a scenario's file.
const (
	manifestSection = "manifest.yaml"
	stepsSection    = "steps"
	lapseSection    = "lapse"
	expectSection   = "expect"
)

// Load reads the scenarios of those names from a folder; all of them if there are no names.
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
	for _, name := range names {
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
	p := &parser{file: file, defined: map[string]bool{proberVar: true}}
	if s.Comment == "" {
		p.wrong(1, "want a comment first: what the scenario shows, and the row of causes.md")
	}
	seen := map[string]int{}
	for _, section := range archive.Files {
		first := lineOf(data, section.Name, seen[section.Name]) + 1
		if seen[section.Name]++; seen[section.Name] > 1 {
			p.wrong(first-1, "a second section %q", section.Name)
			continue
		}
		lines := lines(string(section.Data), first)
		switch section.Name {
		case manifestSection:
			s.Manifest = string(section.Data)
		case stepsSection:
			s.Steps = p.steps(lines)
		case lapseSection:
			for _, l := range lines {
				s.Flags = append(s.Flags, strings.Fields(l.text)...)
			}
		case expectSection:
			s.Expect = p.expectation(lines, s.Steps)
		default:
			p.wrong(first-1, "unknown section %q: want %s, %s, %s or %s", section.Name, manifestSection, stepsSection, lapseSection, expectSection)
		}
	}
	end := strings.Count(string(data), "\n")
	if strings.TrimSpace(s.Manifest) == "" {
		p.wrong(end, "want a section %q: what to deploy", manifestSection)
	}
	if len(s.Steps) == 0 {
		p.wrong(end, "want a section %q with a step", stepsSection)
	}
	if !p.failed(expectSection) && s.Expect.empty() {
		p.wrong(end, "want a section %q with an incident, or `no failure`", expectSection)
	}
	return s, errors.Join(p.problems...)
}

// A line is one line of a section that says something.
type line struct {
	number int
	indent bool
	text   string
}

func lines(text string, first int) (all []line) {
	for i, raw := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(raw)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		all = append(all, line{number: first + i, indent: raw[0] == ' ' || raw[0] == '\t', text: trimmed})
	}
	return all
}

// lineOf is the number of the line that begins a section, after so many of the same name.
func lineOf(data []byte, section string, before int) int {
	for i, l := range strings.Split(string(data), "\n") {
		if strings.TrimSpace(l) != "-- "+section+" --" {
			continue
		}
		if before == 0 {
			return i + 1
		}
		before--
	}
	return 0
}

// A parser collects what is wrong, to tell all of it at once.
type parser struct {
	file     string
	defined  map[string]bool // variables
	problems []error
	sections map[string]bool // in which something was wrong
	section  string
}

func (p *parser) wrong(line int, format string, args ...any) {
	p.problems = append(p.problems, Problem{filepath.Base(p.file), line, fmt.Sprintf(format, args...)})
	if p.sections == nil {
		p.sections = map[string]bool{}
	}
	p.sections[p.section] = true
}

func (p *parser) failed(section string) bool { return p.sections[section] }

// variables checks that each variable of a text was set before.
func (p *parser) variables(l line) {
	for _, name := range variable.FindAllString(l.text, -1) {
		if !p.defined[name[1:]] {
			p.wrong(l.number, "%s is not set: want `let %s = pod of APP` before", name, cmp.Or(name[1:], "NAME"))
		}
	}
}
