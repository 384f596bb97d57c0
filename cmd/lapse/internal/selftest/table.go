package selftest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lapse/correlate/model"
)

// WriteTable prints the report for people, in at most 110 columns.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.head(&b)
	r.writeClasses(&b)
	r.writeEdges(&b)
	r.writePromises(&b)
	r.writeWrong(&b)
	r.writeWords(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

var resultWords = map[model.Result]string{model.Pass: "PASS", model.Fail: "FAIL", model.Inconclusive: "INCONCLUSIVE"}

func (r *Report) head(b *strings.Builder) {
	fmt.Fprintf(b, "%-13s lapse selftest --seed %d --rate %v --duration %v   coverage %.2f %%   exit %d\n",
		resultWords[r.Result], r.Seed, r.Rate, r.Duration, 100*r.Coverage, r.ExitCode)
	if r.Coverage < MinCoverage {
		fmt.Fprintf(b, "              The machine let us observe less than %.1f %% of the time: what follows neither proves nor disproves.\n", 100*MinCoverage)
	}
}

func (r *Report) writeClasses(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-10s %7s  %-16s", "OUTAGES", "PLANNED", "LENGTHS")
	for _, l := range r.Limits {
		fmt.Fprintf(b, " %-12s", "FOUND "+l.Target)
	}
	fmt.Fprintf(b, " %-9s %-10s %-8s %s\n", "TOO SHORT", "UNOBSERVED", "FAILED", "BY THE SERVER'S BOOKS")
	for _, row := range r.Classes {
		row.write(b)
	}
}

func (row ClassRow) write(b *strings.Builder) {
	fmt.Fprintf(b, "%-10s %7d  %-16s", row.Class, row.Outages, span(row.Shortest, row.Longest))
	short, unobserved := 0, 0
	for _, f := range row.Fates {
		found := "-"
		if row.Class != Goodbye {
			found = fmt.Sprintf("%d/%d", f.Found, f.Found+f.Missed+f.Between)
		}
		fmt.Fprintf(b, " %-12s", found)
		short += f.Short
		unobserved += f.Unobserved
	}
	fmt.Fprintf(b, " %9s %10s  %-8s %s\n", count(short), count(unobserved), row.failed(), row.books())
}

func (row ClassRow) failed() string {
	switch {
	case row.Compared == 0:
		return "-"
	case row.Class == Slow:
		return fmt.Sprintf("%d slow", row.Failed)
	}
	return fmt.Sprint(row.Failed)
}

// books says what the server counts.
func (row ClassRow) books() string {
	s := fmt.Sprint(row.Most)
	switch {
	case row.Class == Goodbye:
		return "no outage: nothing may show"
	case row.Compared == 0:
		return "- (not observed)"
	case row.Least < 0:
		s = "reached nobody"
	case row.Least != row.Most:
		s = fmt.Sprintf("%d to %d", row.Least, row.Most)
	}
	if row.Compared < row.Outages {
		s += fmt.Sprintf(" (of %d outages)", row.Compared)
	}
	return s
}

func (r *Report) writeEdges(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-10s %-17s %-17s %-17s %-17s %s\n", "BRACKETS", "START OFF BY", "BRACKET'S WIDTH", "END OFF BY", "BRACKET'S WIDTH", "HOLD THE TRUTH")
	fmt.Fprintf(b, "%-10s %-17s %-17s %-17s %-17s %-9s %s\n", "", "p50 / max", "p50 / max", "p50 / max", "p50 / max", "exact", "statistical")
	for _, row := range r.Edges {
		fmt.Fprintf(b, "%-10s %-17s %-17s %-17s %-17s %-9s %s\n", row.Class,
			row.Start.Error, row.Start.Width, row.End.Error, row.End.Width, row.Exact, row.Statistical)
	}
}

// String is the held of all.
func (h Held) String() string {
	if h.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", h.Held, h.Total)
}

// String is the median and the largest.
func (s *Spread) String() string {
	if s == nil {
		return "-"
	}
	return short(s.P50) + " / " + short(s.Max)
}

var marks = map[Outcome]string{Kept: "v", Broken: "x", Undecided: "?"}

func (r *Report) writePromises(b *strings.Builder) {
	b.WriteString("\nPROMISES  v kept  x broken  ? undecided\n")
	for _, p := range r.Promises {
		fmt.Fprintf(b, "  %s %s\n      %s\n", marks[p.Outcome], p.Text, p.Found)
	}
}

// writeWrong lists what was wrong, the first of it.
func (r *Report) writeWrong(b *strings.Builder) {
	const most = 10
	for i, w := range r.Wrong {
		if i == most {
			fmt.Fprintf(b, "  … and %d more: -o json has them\n", len(r.Wrong)-most)
			return
		}
		if i == 0 {
			b.WriteString("\nWRONG  seconds from the run's zero\n")
		}
		fmt.Fprintf(b, "  %-7s %-9s %-22s %.6f", w.Target, w.Class, w.What, w.At.Seconds())
		if w.Basis != "" {
			fmt.Fprintf(b, " not in %.6f to %.6f, %s", w.Bracket.Earliest.Seconds(), w.Bracket.Latest.Seconds(), w.Basis)
		}
		if w.Detail != "" {
			b.WriteString(" " + w.Detail)
		}
		fmt.Fprintf(b, " (join %v)\n", w.Join)
	}
}

// writeWords answers the question in words.
func (r *Report) writeWords(b *strings.Builder) {
	b.WriteString("\nHOW WRONG CAN A NUMBER BE, on this machine at this rate?\n")
	for _, l := range r.Limits {
		fmt.Fprintf(b, "  %s: a request every %s. %s\n      The run itself says that one of up to %s may escape it.\n", l.Target, short(l.Interval), l.words(), short(l.Resolution))
	}
	exact := func(row EdgeRow) (Side, bool) { return row.ExactSide, row.Class.total() }
	few := func(row EdgeRow) (Side, bool) { return row.StatisticalSide, row.Class.total() }
	share := func(row EdgeRow) (Side, bool) { return row.StatisticalSide, row.Class == Random }
	r.writeWorst(b, "Where every request failed, 8 or more, an edge lay", " from the middle\n      of its bracket", exact)
	r.writeWorst(b, "Where fewer failed, of which maybe a share of requests did:", "", few)
	r.writeWorst(b, "Where a share failed at random:", "", share)
	b.WriteString("  Over a network add its round trip. Not tested: a fault whose failures are further apart than --join.\n")
}

func (l Limit) words() string {
	switch {
	case l.AlwaysFrom == 0:
		return "No outage of every request was observed and found."
	case l.LongestLost > 0:
		return fmt.Sprintf("Outages of every request were found from %s on; the longest one not seen took %s.", short(l.AlwaysFrom), short(l.LongestLost))
	}
	return fmt.Sprintf("Every outage of every request was found, the shortest of %s.", short(l.AlwaysFrom))
}

// writeWorst says how far edges lay from the middle of their brackets, in the classes of which sides has something.
func (r *Report) writeWorst(b *strings.Builder, where, from string, sides func(EdgeRow) (Side, bool)) {
	var worst Side
	for _, row := range r.Edges {
		if side, ok := sides(row); ok {
			worst.Error, worst.Width = worst.Error.or(side.Error), worst.Width.or(side.Width)
		}
	}
	if worst.Width != nil {
		fmt.Fprintf(b, "  %s typically %s, at worst %s%s; no bracket was wider than %s.\n",
			where, short(worst.Error.P50), short(worst.Error.Max), from, short(worst.Width.Max))
	}
}

// or is the larger of two spreads; one of them may be nil.
func (s *Spread) or(other *Spread) *Spread {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	return &Spread{P50: max(s.P50, other.P50), Max: max(s.Max, other.Max)}
}

func span(shortest, longest time.Duration) string {
	if shortest == longest {
		return short(shortest)
	}
	return short(shortest) + "-" + short(longest)
}

// short writes a length with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3gs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3gms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%dµs", d.Microseconds())
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
