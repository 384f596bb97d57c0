package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Expectation is what Lapse must say, and must not.
type Expectation struct {
	Incidents []Incident
	NoFailure bool // no request fails, and no incident
	Cuts      bool // of NoFailure: held connections may end without an announcement
	NoOther   bool // no further incident
	Allow     []string
	Never     []string // rules that no incident may name
	Exits     []Exit
	Scores    []Score
	Lags      bool // the lags of stale routes that it names are held against the nodes' rules
}

func (e Expectation) empty() bool { return len(e.Incidents) == 0 && !e.NoFailure }

// An Incident is one that Lapse must find.
type Incident struct {
	Line       int
	Rules      []string // the right name; a further one only where it says the same
	Confidence string   // the least: low, medium or high
	Begins     *Near
	Ends       *Near
	Failed     *Range
	Cut        *Range   // held connections
	Also       []string // rules that it names as well, anywhere
	Says       []string // what its text or its fix contains
	SetOffBy   []string // what the words for the changes that set it off contain
}

// Near is an instant at most Within after a step.
type Near struct {
	Step   int // its index
	Within time.Duration
}

// Range is an inclusive range of counts; Max -1 is without bound.
type Range struct{ Min, Max int }

func (r Range) String() string {
	if r.Max < 0 {
		return fmt.Sprintf("%d or more", r.Min)
	}
	return fmt.Sprintf("%d to %d", r.Min, r.Max)
}

func (r Range) has(n int) bool { return n >= r.Min && (r.Max < 0 || n <= r.Max) }

// An Exit is a fact of the truth: how a container of a Pod ended. Without it the scenario has not provoked what it is
// about.
type Exit struct {
	Pod  string
	Code int
}

// A Score is what the run must say of a prediction: of one of the rule's, if it has several.
type Score struct{ Rule, Outcome string }

// allowCuts is the line that allows them.
const allowCuts = "allow cuts"

var scoreOutcomes = []string{"confirmed", "refuted", "not-tested"}

var confidences = []string{"low", "medium", "high"}

// expectation reads the section of that name. Lines that are indented say more of the incident above.
func (p *parser) expectation(lines []line, steps []Step) (e Expectation) {
	p.section = expectSection
	for _, l := range lines {
		p.variables(l)
		w := words(strings.Fields(l.text))
		switch {
		case l.indent && len(e.Incidents) == 0:
			p.wrong(l.number, "want `incident RULE` above an indented line")
		case l.indent:
			p.detail(l, w, &e.Incidents[len(e.Incidents)-1], steps)
		case w[0] == "incident":
			p.incident(l, w[1:], &e)
		case l.text == noFailure:
			e.NoFailure = true
		case l.text == "no other incident":
			e.NoOther = true
		case l.text == allowCuts:
			e.Cuts = true
		case l.text == "lags hold":
			e.Lags = true
		case w[0] == "allow" && len(w) > 1:
			e.Allow = append(e.Allow, rules(w[1:])...)
		case w[0] == "never" && len(w) > 1:
			e.Never = append(e.Never, rules(w[1:])...)
		case w[0] == "predicted" && len(w) == 3:
			if !slices.Contains(scoreOutcomes, w[2]) {
				p.wrong(l.number, "%q: want %s", w[2], strings.Join(scoreOutcomes, ", "))
			}
			e.Scores = append(e.Scores, Score{w[1], w[2]})
		case w[0] == "provoked" && len(w) == 4 && w[2] == "exits":
			code, err := strconv.Atoi(w[3])
			if err != nil {
				p.wrong(l.number, "%q is no exit code", w[3])
			}
			e.Exits = append(e.Exits, Exit{w[1], code})
		default:
			p.wrong(l.number, "%q: want `incident RULE`, `no failure`, `no other incident`, `allow RULE`, "+
				"`never RULE`, `lags hold`, `predicted LP01 confirmed` or `provoked POD exits CODE`", l.text)
		}
	}
	if e.NoFailure && len(e.Incidents) > 0 {
		p.wrong(e.Incidents[0].Line, "an incident, and `no failure`: want one of them")
	}
	for _, rule := range e.Never {
		if slices.ContainsFunc(e.Incidents, func(i Incident) bool { return slices.Contains(i.Rules, rule) }) {
			p.wrong(lines[0].number, "%s is wanted, and never wanted", rule)
		}
	}
	return e
}

// rules splits "a, b" and "a or b".
func rules(w words) (names []string) {
	for _, word := range w {
		if name := strings.Trim(word, ","); name != "" && name != "or" {
			names = append(names, name)
		}
	}
	return names
}

// incident reads `incident RULE [or RULE] [LEAST CONFIDENCE]`.
func (p *parser) incident(l line, w words, e *Expectation) {
	i := Incident{Line: l.number, Confidence: "medium"}
	if n := len(w); n > 1 && slices.Contains(confidences, w[n-1]) {
		i.Confidence, w = w[n-1], w[:n-1]
	}
	if i.Rules = rules(w); len(i.Rules) == 0 {
		p.wrong(l.number, "%q: want `incident RULE [or RULE] [low|medium|high]`", l.text)
	}
	e.Incidents = append(e.Incidents, i)
}

func (p *parser) detail(l line, w words, i *Incident, steps []Step) {
	switch {
	case (w[0] == "begins" || w[0] == "ends") && len(w) > 4 && w[1] == "within" && w[3] == "of":
		near, err := nearStep(w[2], w[4:].rest(), steps)
		if err != nil {
			p.wrong(l.number, "%v", err)
			return
		}
		if w[0] == "begins" {
			i.Begins = &near
		} else {
			i.Ends = &near
		}
	case w[0] == "failed" && len(w) == 2:
		r, err := parseRange(w[1])
		if err != nil {
			p.wrong(l.number, "%v", err)
		}
		i.Failed = &r
	case w[0] == "cut" && len(w) == 2:
		r, err := parseRange(w[1])
		if err != nil {
			p.wrong(l.number, "%v", err)
		}
		i.Cut = &r
	case w[0] == "also" && len(w) > 1:
		i.Also = append(i.Also, rules(w[1:])...)
	case w[0] == "says" && len(w) > 1:
		i.Says = append(i.Says, w[1:].rest())
	case len(w) > 3 && w[:3].rest() == "set off by":
		i.SetOffBy = append(i.SetOffBy, w[3:].rest())
	default:
		p.wrong(l.number, "%q: want `begins within 2s of STEP`, `ends within 2s of STEP`, `failed 10..200`, "+
			"`cut 10..200`, `also RULE`, `says TEXT` or `set off by TEXT`", l.text)
	}
}

func nearStep(within, text string, steps []Step) (Near, error) {
	d, err := time.ParseDuration(within)
	if err != nil || d <= 0 {
		return Near{}, fmt.Errorf("%q: want a length of time, such as 2s", within)
	}
	found := -1
	for i, s := range steps {
		switch {
		case s.Text == text && found >= 0:
			return Near{}, fmt.Errorf("two steps are %q: want one of its own words", text)
		case s.Text == text:
			found = i
		}
	}
	if found < 0 {
		return Near{}, fmt.Errorf("no step is %q", text)
	}
	return Near{found, d}, nil
}

func parseRange(text string) (Range, error) {
	low, high, ok := strings.Cut(text, "..")
	minimum, err := strconv.Atoi(low)
	maximum, err2 := -1, error(nil)
	switch {
	case !ok:
		maximum = minimum
	case high != "":
		maximum, err2 = strconv.Atoi(high)
	}
	if err != nil || err2 != nil || minimum < 0 || high != "" && maximum < minimum {
		return Range{}, fmt.Errorf("%q: want a number of requests, such as 12, 10..200, or 10.. for that or more",
			text)
	}
	return Range{minimum, maximum}, nil
}
