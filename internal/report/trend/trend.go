// Package trend writes what many runs show together: for people, as JSON, for benchstat, and as the lines of a history.
package trend

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"lapse/correlate/trend"
	"lapse/internal/history"
	"lapse/internal/report/document"
)

// Runs are runs, and what they show together.
type Runs struct {
	Lines []history.Line
	Trend trend.Trend
}

// Options say how a table is written.
type Options struct {
	document.Screen
	Verbose bool // all pools and releases
}

// A Format writes runs.
type Format struct {
	Name, Doc string
	Write     func(io.Writer, Runs, Options) error
}

// Formats are all formats.
var Formats = []Format{
	{"table", "for people", writeTable},
	{"json", "all of it; lengths are nanoseconds, shares from 0 to 1", writeJSON},
	{"benchfmt", "for benchstat: a result for each run", writeBenchmarks},
	{"ndjson", "a line of history for each run and Service", writeLines},
}

// Names lists their names.
func Names() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// Named returns the format with a name.
func Named(name string) (Format, bool) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return Formats[i], true
}

func writeJSON(w io.Writer, runs Runs, _ Options) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Said string `json:"said"` // whether it is enough to say something
		trend.Trend
	}{headline(&runs.Trend), runs.Trend})
}

func writeLines(w io.Writer, runs Runs, _ Options) error { return history.Write(w, runs.Lines...) }
