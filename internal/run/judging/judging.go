// Package judging reads how to judge a run: gates, shares of observed time, and formats of the result.
package judging

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/version"
)

// CheckResolution refuses a --resolution that was given and is not greater than 0.
func CheckResolution(d time.Duration, given bool) error {
	if d < 0 || given && d == 0 {
		return exit.Usagef("as in --resolution 50ms; what is less than 3 intervals between requests counts as 3",
			"resolution %v: must be greater than 0", d)
	}
	return nil
}

// ParseCoverage reads a --min-coverage.
func ParseCoverage(text string) (float64, error) {
	share, problem := verdict.ParseRatio(text)
	switch {
	case problem != "":
		return 0, exit.Usagef("as in --min-coverage 99%", "min-coverage: %s", problem)
	case share == 0:
		return 0, exit.Usagef("as in --min-coverage 90%",
			"min-coverage %s: a run that observed nothing proves nothing", text)
	}
	return share, nil
}

// ParseNodeCoverage reads a --min-node-coverage; nil if it is empty. 0 accepts nodes that observed nothing.
func ParseNodeCoverage(text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	share, problem := verdict.ParseRatio(text)
	if problem != "" {
		return nil, exit.Usagef("as in --min-node-coverage 90%, or 0 to accept silent nodes",
			"min-node-coverage: %s", problem)
	}
	return &share, nil
}

// JoinHint says how to keep windows apart.
const JoinHint = "--join 1ns keeps every run of failures separate"

// ParseGates reads the expressions of --fail-if.
func ParseGates(exprs []string) ([]verdict.Gate, error) {
	var gates []verdict.Gate
	for _, expr := range exprs {
		g, err := verdict.ParseGate(expr)
		if err != nil {
			return nil, exit.AsUsage(fmt.Errorf("--fail-if %w", err))
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// FormatNames returns the names of formats, for people.
func FormatNames(formats []report.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// CheckFormat returns a usage error if none of formats has this name.
func CheckFormat(formats []report.Format, format string) error {
	if _, ok := report.FormatNamed(formats, format); !ok {
		return exit.Usagef("one of: "+FormatNames(formats), "unknown output format %q", format)
	}
	return nil
}

// Tool returns the name and version of the judge.
func Tool() model.Tool { return model.Tool{Name: "lapse", Version: version.Version} }
