package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
)

// JUnit renders the verdict as JUnit XML, which pipelines collect: one suite for the run, and in it a
// case for each gate, one for the measurement itself, and one for the wrapped command if there was one.
//
// A gate that failed is a failure. A gate that the error bars cannot decide, and a measurement that did not do its work, are
// errors. A run without gates has a skipped case that says so: it cannot have passed anything.
func JUnit(w io.Writer, tl *model.Timeline, _ Options) error {
	suite := junitSuite{
		Name: "lapse " + clean(subject(tl.Run)), Time: junitTime(tl.Run.Duration), Timestamp: tl.T0.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"run", clean(tl.Run.ID)}, {"lapse", clean(tl.Tool.Version)}, {"exitCode", fmt.Sprint(tl.Verdict.ExitCode)}},
	}
	cases := append(gateCases(tl), validCase(tl))
	if c := tl.Run.Command; c != nil {
		cases = append(cases, commandCase(c, lastWords(tl)))
	}
	for _, c := range cases {
		c.Class = suite.Name
		suite.add(c)
	}
	suite.Output = cleanLines(slices.Concat([]string{headline(tl)}, caveats(tl), []string{measured(tl)}))
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
		return []junitCase{{Name: "gates", Time: "0", Skipped: &junitNote{Message: "no gate was set: this run could not fail", Text: clean(headline(tl))}}}
	}
	var cases []junitCase
	for _, g := range tl.Verdict.Gates {
		cases = append(cases, gateCase(tl, g))
	}
	return cases
}

func gateCase(tl *model.Timeline, g model.GateResult) junitCase {
	expr, value := clean(g.Expr), gateValue(g)
	c := junitCase{Name: "gate: " + expr, Time: "0"}
	switch g.Outcome {
	case model.GatePass:
		if why := unproven(tl); why != "" {
			c.Skipped = &junitNote{Message: expr + ": not broken, but " + why, Text: value}
			break
		}
		c.Output = value
	case model.GateFail:
		c.Failure = &junitNote{Message: expr + ": " + value, Type: "gate", Text: story(tl)}
	default:
		c.Error = &junitNote{Message: expr + ": " + value + ": the error bars cannot decide it", Type: "undecided", Text: story(tl)}
	}
	return c
}

// validCase is a case of its own, so that a pipeline does not take little evidence for good evidence.
func validCase(tl *model.Timeline) junitCase {
	figures := clean(strings.Join(validityParts(tl, documentNames(tl)), " · "))
	c := junitCase{Name: "the measurement is valid", Time: "0"}
	switch sound := soundness(tl); {
	case tl.Run.Live:
		c.Error = &junitNote{Message: "the run goes on", Type: "live", Text: figures}
	case tl.Run.Truncated:
		c.Error = &junitNote{Message: clean(tl.Run.Recorded(FormatDuration) + ": " + tl.Run.Aborted), Type: "aborted", Text: figures}
	case tl.Run.Aborted != "":
		c.Error = &junitNote{Message: clean("aborted: " + tl.Run.Aborted), Type: "aborted", Text: figures}
	case sound != "valid":
		c.Error = &junitNote{Message: "measurement: " + sound, Type: "inconclusive", Text: clean(strings.Join(tl.Verdict.Reasons, "; ")) + "\n" + figures}
	default:
		c.Output = figures
	}
	return c
}

// commandCase is there because a command that failed ends lapse with an exit code of its own.
func commandCase(command *model.Command, said []string) junitCase {
	c := junitCase{Name: "the command succeeded", Time: "0", Output: clean(strings.Join(command.Args, " "))}
	switch end := commandEnd(command, false); {
	case end != "":
		c.Failure = &junitNote{Message: clean(strings.TrimSpace(end)), Type: "command", Text: cleanLines(append([]string{c.Output}, said...))}
		c.Output = ""
	case command.Start != nil && command.End != nil:
		c.Time = junitTime(*command.End - *command.Start)
	}
	return c
}

// story tells what failed and why, in a few lines.
func story(tl *model.Timeline) string {
	lines := append([]string{headline(tl)}, caveats(tl)...)
	shown := worst(tl.Windows, maxNoted)
	for _, w := range shown {
		lines = append(lines, fmt.Sprintf("window %d: %s, %s to %s UTC, length %s, %s, seen by %s, %s", w.ID, w.Kind,
			clock(tl, begun(w), w.Open.Start, false), endClock(tl, w), windowLength(w), requestsText(w), w.Target, errorText(w)))
	}
	if more := len(tl.Windows) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %s: see timeline.json", plural(more, "more window")))
	}
	told, others := findings(tl)
	for _, f := range told {
		lines = append(lines, "cause of "+windowList(f.windows)+": "+f.text())
	}
	for _, f := range others {
		lines = append(lines, "cause of "+windowList(f.windows)+": "+f.restText())
	}
	for _, f := range fixes(tl) {
		lines = append(lines, "fix for "+windowList(f.windows)+": "+f.text)
	}
	return cleanLines(lines)
}

// cleanLines makes lines harmless, and one text.
func cleanLines(lines []string) string {
	var out []string
	for _, line := range lines {
		out = append(out, clean(line))
	}
	return strings.Join(out, "\n")
}

// junitTime is a length as JUnit counts it: in seconds.
func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
