package main

import (
	"fmt"
	"slices"
	"strings"
)

// A spread is what several runs gave.
type spread struct{ Median, Min, Max float64 }

// spreadOf sums up values. There must be one.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// format prints the median, and the extremes where they differ, with so many digits after the point.
func (s spread) format(digits int) string {
	median, low, high := decimal(s.Median, digits), decimal(s.Min, digits), decimal(s.Max, digits)
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s..%s)", median, low, high)
}

func decimal(v float64, digits int) string { return fmt.Sprintf("%.*f", digits, v) }

// table renders a Markdown table.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// appendTable returns a table with the rows of another one that has the same columns; that one if there is none yet.
func appendTable(to, other string) string {
	if to == "" {
		return other
	}
	return to + strings.SplitAfterN(other, "\n", 3)[2]
}

// A claim is a target of the project and what came out.
type claim struct {
	Figure, Must string
	Measured     string
	Held         bool
	Tabled       bool   // stands in a table of its own part
	Missing      string // why there is no figure; "" if there is one
}

func (c claim) row() []string {
	switch {
	case c.Missing != "":
		return []string{c.Figure, c.Must, "not measured: " + c.Missing, "–"}
	case c.Held:
		return []string{c.Figure, c.Must, c.Measured, "held"}
	}
	return []string{c.Figure, c.Must, c.Measured, "**missed**"}
}
