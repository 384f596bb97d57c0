// Package output prints a report of preflight: for people, as JSON, as JUnit XML and as SARIF.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"lapse/internal/preflight"
	"lapse/internal/report/document"
)

// A Format prints a report.
type Format struct {
	Name, Doc string
	Write     func(io.Writer, *preflight.Report, document.Screen) error // only the table depends on the screen
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

func writeJSON(w io.Writer, r *preflight.Report, _ document.Screen) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// evidence returns all of a finding's evidence in one text, with its lines in the files.
func evidence(f *preflight.Finding) string {
	var all []string
	for i, e := range f.Evidence {
		text := e.String()
		if i < len(f.At) && f.At[i].Line > 0 {
			text += " (" + f.At[i].String() + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}
