package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// A Problem is something wrong in a scenario's file.
type Problem struct {
	File string
	Line int
	Text string
}

func (p Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// A parser collects what is wrong, to tell all of it at once.
type parser struct {
	file      string
	defined   map[string]bool // variables
	addresses map[string]bool // those of them that are a Pod's address
	further   []string        // sections that steps can apply
	problems  []error
	sections  map[string]bool // in which something was wrong
	section   string
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

// lineOf returns the number of the line that begins a section, after this many sections of the same name.
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
