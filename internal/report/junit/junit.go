// Package junit writes JUnit XML, which pipelines collect: the elements that its readers agree on.
// https://github.com/testmoapp/junitxml
package junit

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// A Suite has cases, which [Suite.Add] adds and counts.
type Suite struct {
	Name string `xml:"name,attr"`
	counts
	Time       string     `xml:"time,attr,omitempty"`      // see [Seconds]
	Timestamp  string     `xml:"timestamp,attr,omitempty"` // UTC
	Properties []Property `xml:"properties>property"`
	Cases      []Case     `xml:"testcase"`
	Output     string     `xml:"system-out,omitempty"`
}

type counts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
}

// A Property says something of a suite.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// A Case passed unless it has a failure, an error or a reason why it was skipped.
type Case struct {
	Name     string `xml:"name,attr"`
	Class    string `xml:"classname,attr"` // its suite's name
	Time     string `xml:"time,attr,omitempty"`
	File     string `xml:"file,attr,omitempty"` // of the repository that it is about
	Line     int    `xml:"line,attr,omitempty"`
	Failures []Note `xml:"failure"`
	Error    *Note  `xml:"error"`
	Skipped  *Note  `xml:"skipped"`
	Output   string `xml:"system-out,omitempty"`
}

// A Note says why a case did not pass.
type Note struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// Add adds a case to s.
func (s *Suite) Add(c Case) {
	c.Class = s.Name
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case len(c.Failures) > 0:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// Write writes a document with suites of Lapse's. It has the time of the first.
func Write(w io.Writer, suites ...Suite) error {
	document := struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		counts
		Time   string  `xml:"time,attr,omitempty"`
		Suites []Suite `xml:"testsuite"`
	}{Name: "lapse", Suites: suites}
	for _, s := range suites {
		document.Tests += s.Tests
		document.Failures += s.Failures
		document.Errors += s.Errors
		document.Skipped += s.Skipped
	}
	if len(suites) > 0 {
		document.Time = suites[0].Time
	}
	text, err := xml.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	// people read it; in an attribute it counts as a blank
	text = bytes.ReplaceAll(text, []byte("&#xA;"), []byte("\n"))
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

// Seconds is a length of time as JUnit has it.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
