package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/report/document"
)

var junitFormat = Format{Name: "junit", Doc: "JUnit XML: a case for each gate, each incident, the measurement and the command", Ext: "xml", Write: judgedBy(JUnit)}

// JUnit renders the verdict as JUnit XML, which pipelines collect: one suite for the run, and in it a
// case for each gate, one for each incident, one for the measurement itself, and one for the wrapped command if there was one.
//
// A gate that failed is a failure. A gate that the error bars cannot decide, and a measurement that did not do its work, are
// errors. A run without gates has a skipped case that says so: it cannot have passed anything.
func JUnit(w io.Writer, tl *model.Timeline, _ Options) error {
	suite := junitSuite{
		Name: "lapse " + document.Clean(subject(tl.Run)), Time: junitTime(tl.Run.Duration), Timestamp: tl.T0.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"run", document.Clean(tl.Run.ID)}, {"lapse", document.Clean(tl.Tool.Version)}, {"exitCode", fmt.Sprint(tl.Verdict.ExitCode)}},
	}
	cases := slices.Concat(gateCases(tl), incidentCases(tl), []junitCase{validCase(tl)})
	if c := tl.Run.Command; c != nil {
		cases = append(cases, commandCase(c, lastWords(tl)))
	}
	for _, c := range cases {
		c.Class = suite.Name
		suite.add(c)
	}
	suite.Output = cleanLines(slices.Concat([]string{headline(tl)}, caveats(tl), []string{measured(tl)}, preflightLines(tl)))
	doc := junitSuites{Name: "lapse", junitCounts: suite.junitCounts, Time: suite.Time, Suites: []junitSuite{suite}}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte("&#xA;"), []byte("\n")) // to be read by people; no attribute has any
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

// The elements of JUnit XML that its readers agree on.
// https://github.com/testmoapp/junitxml
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		junitCounts
		Time   string       `xml:"time,attr"`
		Suites []junitSuite `xml:"testsuite"`
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"` // UTC
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Output     string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Time    string     `xml:"time,attr"`
		Failure *junitNote `xml:"failure"`
		Error   *junitNote `xml:"error"`
		Skipped *junitNote `xml:"skipped"`
		Output  string     `xml:"system-out,omitempty"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func gateCases(tl *model.Timeline) []junitCase {
	if len(tl.Verdict.Gates) == 0 {
		return []junitCase{{Name: "gates", Time: "0", Skipped: &junitNote{Message: "no gate was set: this run could not fail", Text: document.Clean(headline(tl))}}}
	}
	var cases []junitCase
	for _, g := range tl.Verdict.Gates {
		cases = append(cases, gateCase(tl, g))
	}
	return cases
}

func gateCase(tl *model.Timeline, g model.GateResult) junitCase {
	expr, value := document.Clean(g.Expr), gateValue(g)
	c := junitCase{Name: "gate: " + expr, Time: "0"}
	switch g.Outcome {
	case model.GatePass:
		if why := unproven(tl); why != "" {
			c.Skipped = &junitNote{Message: expr + ": not broken, but " + why, Text: value}
			break
		}
		c.Output = value
	case model.GateFail:
		c.Failure = &junitNote{Message: expr + ": " + value, Type: "gate", Text: document.Clean(headline(tl))}
	default:
		c.Error = &junitNote{Message: expr + ": " + value + ": the error bars cannot decide it", Type: "undecided", Text: document.Clean(headline(tl))}
	}
	return c
}

// validCase is a case of its own, so that a pipeline does not take little evidence for good evidence.
func validCase(tl *model.Timeline) junitCase {
	figures := document.Clean(strings.Join(validityParts(tl, targetNames(tl, documentNames)), " · "))
	c := junitCase{Name: "the measurement is valid", Time: "0"}
	switch sound := soundness(tl); {
	case tl.Run.Live:
		c.Error = &junitNote{Message: "the run goes on", Type: "live", Text: figures}
	case tl.Run.Truncated:
		c.Error = &junitNote{Message: document.Clean(tl.Run.Recorded(quantity.Span) + ": " + tl.Run.Aborted), Type: "aborted", Text: figures}
	case tl.Run.Aborted != "":
		c.Error = &junitNote{Message: document.Clean("aborted: " + tl.Run.Aborted), Type: "aborted", Text: figures}
	case sound != "valid":
		c.Error = &junitNote{Message: "measurement: " + sound, Type: "inconclusive", Text: document.Clean(strings.Join(tl.Verdict.Reasons, "; ")) + "\n" + figures}
	default:
		c.Output = figures
	}
	return c
}

// commandCase is there because a command that failed ends lapse with an exit code of its own.
func commandCase(command *model.Command, said []string) junitCase {
	c := junitCase{Name: "the command succeeded", Time: "0", Output: document.Clean(strings.Join(command.Args, " "))}
	switch end := commandEnd(command, false); {
	case end != "":
		c.Failure = &junitNote{Message: document.Clean(strings.TrimSpace(end)), Type: "command", Text: cleanLines(append([]string{c.Output}, said...))}
		c.Output = ""
	case command.Start != nil && command.End != nil:
		c.Time = junitTime(*command.End - *command.Start)
	}
	return c
}

// incidentCases tell each incident once. It is a failure where the run failed a gate. Else no gate forbids it: then it is
// skipped, which pipelines show with its text.
func incidentCases(tl *model.Timeline) []junitCase {
	v := &view{Timeline: tl, names: targetNames(tl, documentNames)}
	s := incidentsSection(v)
	if len(s.Blocks) == 0 {
		return nil
	}
	t := s.Blocks[0].(document.Table)
	var cases []junitCase
	for i, in := range mostHarmful(tl.Incidents)[:len(t.Rows)] {
		row := t.Rows[i]
		message := document.Clean(fmt.Sprintf("%s; %s; %s UTC; cause: %s", incidentRequests(in), incidentErrors(in), row.Cells[1].Text, incidentRules(in)))
		n := &junitNote{Message: message, Type: "incident", Text: rowText(t, row)}
		c := junitCase{Name: document.Clean(fmt.Sprintf("incident %d, set off by: %s", in.ID, triggerText(in))), Time: "0"}
		switch {
		case slices.ContainsFunc(tl.Verdict.Gates, func(g model.GateResult) bool { return g.Outcome == model.GateFail }):
			c.Failure = n
		case len(tl.Verdict.Gates) == 0:
			c.Skipped = &junitNote{Message: "no gate was set: " + message, Text: n.Text}
		default:
			c.Skipped = &junitNote{Message: "no gate failed: " + message, Text: n.Text}
		}
		cases = append(cases, c)
	}
	return cases
}

func incidentRules(in model.Incident) string {
	rules := make([]string, len(in.Causes))
	for i, c := range in.Causes {
		rules[i] = c.Rule
	}
	return cmp.Or(strings.Join(rules, ", "), "not known")
}

// rowText is a row of a table in lines: each cell behind its column's title, and its notes.
func rowText(t document.Table, row document.Row) string {
	var lines []string
	for i, c := range row.Cells[1:] {
		lines = append(lines, t.Columns[i+1].Title+": "+cmp.Or(c.Exact, c.Text))
	}
	for _, n := range row.Notes {
		lines = append(lines, n.Label+": "+n.Text)
	}
	return cleanLines(lines)
}

// cleanLines makes lines harmless, and one text.
func cleanLines(lines []string) string {
	var out []string
	for _, line := range lines {
		out = append(out, document.Clean(line))
	}
	return strings.Join(out, "\n")
}

// junitTime is a length as JUnit counts it: in seconds.
func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
