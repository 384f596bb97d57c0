package drill

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Column of a table has a heading, and a cell for each row.
type Column[T any] struct {
	Head string
	Cell func(row T) string
}

// Table returns a Markdown table of rows.
func Table[T any](columns []Column[T], rows []T) string {
	var b strings.Builder
	line := func(cell func(Column[T]) string) {
		b.WriteString("|")
		for _, c := range columns {
			b.WriteString(strings.TrimRight(" "+cell(c), " ") + " |")
		}
		b.WriteString("\n")
	}
	line(func(c Column[T]) string { return c.Head })
	b.WriteString("|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range rows {
		line(func(c Column[T]) string { return c.Cell(row) })
	}
	return b.String()
}

// Median returns the middle value, or the mean of the middle two. There must be at least one.
func Median[T ~int64 | ~float64](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// Spread returns minimum, median and maximum as text.
func Spread(values []float64, digits int) string {
	if len(values) == 0 {
		return "–"
	}
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	return f(slices.Min(values)) + " / " + f(Median(values)) + " / " + f(slices.Max(values))
}

// Millis returns a length in milliseconds.
func Millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// Middle returns the middle of the bounds.
func (l Length) Middle() time.Duration { return (l.Min + l.Max) / 2 }
