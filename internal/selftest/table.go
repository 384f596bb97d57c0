package selftest

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	r.writeClasses(&b)
	r.writeEdges(&b)
	r.writePromises(&b)
	r.writeWrong(&b)
	r.writeWords(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

var resultWords = map[model.Result]string{model.Pass: "PASS", model.Fail: "FAIL", model.Inconclusive: "INCONCLUSIVE"}

func (r *Report) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "%-13s lapse selftest --protocol %s --seed %d --rate %v --duration %v   coverage %s   exit %d\n",
		resultWords[r.Result], r.Protocol, r.Seed, r.Rate, r.Duration, quantity.Coverage(r.Coverage), r.ExitCode)
	if r.Coverage < MinCoverage {
		fmt.Fprintf(b, "              Less than %s of the time was observed on this busy machine: "+
			"nothing below is proven or disproven.\n", quantity.Coverage(MinCoverage))
	}
}

// table prints rows of cells that end with a tab, in columns.
func table(b *strings.Builder, rows func(w io.Writer)) {
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	rows(w)
	_ = w.Flush() // a Builder does not fail
}

func (r *Report) writeClasses(b *strings.Builder) {
	table(b, func(w io.Writer) {
		fmt.Fprint(w, "OUTAGES\tPLANNED\tLENGTHS\t")
		for _, l := range r.Limits {
			fmt.Fprintf(w, "FOUND %s\t", l.Target)
		}
		fmt.Fprint(w, "TOO SHORT\tUNOBSERVED\tFAILED\tBY THE SERVER\n")
		for _, row := range r.Classes {
			fmt.Fprintf(w, "%s\t%d\t%s\t", row.Class, row.Outages, lengthsText(row.Shortest, row.Longest))
			var all FateCount
			for _, f := range row.Fates {
				all.sum(f)
				if row.Class == Goodbye {
					fmt.Fprint(w, "-\t")
				} else {
					fmt.Fprintf(w, "%d/%d\t", f.Found, f.Found+f.Missed+f.Between)
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", count(all.Short), count(all.Unobserved), row.failed(), row.byServer())
		}
	})
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

// byServer returns what the server counted.
func (row ClassRow) byServer() string {
	s := fmt.Sprint(row.Most)
	switch {
	case row.Class == Goodbye:
		return "no outage: nothing may show"
	case row.Compared == 0:
		return "- (not observed)"
	case row.Least < 0:
		s = "not counted"
	case row.Least != row.Most:
		s = fmt.Sprintf("%d to %d", row.Least, row.Most)
	}
	if row.Compared < row.Outages {
		s += fmt.Sprintf(" (of %d outages)", row.Compared)
	}
	return s
}

func (r *Report) writeEdges(b *strings.Builder) {
	table(b, func(w io.Writer) {
		fmt.Fprint(w, "p50 / max\tSTART OFF BY\tBRACKET\tEND OFF BY\tBRACKET\tEXACT HOLD\tSTAT. HOLD\n")
		for _, row := range r.Edges {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Class,
				row.Start.Error, row.Start.Width, row.End.Error, row.End.Width, row.Exact, row.Statistical)
		}
	})
}

// String returns how many of all hold.
func (h Held) String() string {
	if h.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", h.Held, h.Total)
}

// String returns the median and the largest.
func (s *Spread) String() string {
	if s == nil {
		return "-"
	}
	return quantity.Span(s.P50) + " / " + quantity.Span(s.Max)
}

var marks = map[Outcome]string{Kept: "v", Broken: "x", Undecided: "?"}

func (r *Report) writePromises(b *strings.Builder) {
	b.WriteString("\nPROMISES  v kept  x broken  ? undecided\n")
	for _, p := range r.Promises {
		fmt.Fprintf(b, "  %s %s\n      %s\n", marks[p.Outcome], p.Text, p.Found)
	}
}

// writeWrong lists the first things that were wrong.
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
			fmt.Fprintf(b, " not in %.6f to %.6f, %s",
				w.Bracket.Earliest.Seconds(), w.Bracket.Latest.Seconds(), w.Basis)
		}
		b.WriteByte('\n')
	}
}

// writeWords answers the question in words.
func (r *Report) writeWords(b *strings.Builder) {
	b.WriteString("\nHOW WRONG CAN A NUMBER BE, on this machine at this rate?\n")
	for _, l := range r.Limits {
		fmt.Fprintf(b, "  %s: a request every %s. %s\n      The run itself says that it may miss one of up to %s.\n",
			l.Target, quantity.Span(l.Interval), l.words(), quantity.Span(l.Resolution))
	}
	for _, off := range r.Off {
		median, worst := quantity.Span(off.Error.P50), quantity.Span(off.Error.Max)
		widest := quantity.Span(off.Width.Max)
		fmt.Fprintf(b, "  Edges %s:\n      %s from the middle of their bracket at the median, %s at worst; "+
			"widest bracket %s.\n", off.Where, median, worst, widest)
	}
	b.WriteString("  Over a network add its round trip. " +
		"Not tested: a fault whose failures are further apart than --join.\n")
}

func (l Limit) words() string {
	switch {
	case l.AlwaysFrom == 0:
		return "No outage of every request was observed and found."
	case l.LongestLost > 0:
		return fmt.Sprintf("Outages of every request were found from %s on; the longest one not seen took %s.",
			quantity.Span(l.AlwaysFrom), quantity.Span(l.LongestLost))
	}
	return fmt.Sprintf("Every outage of every request was found, the shortest of %s.", quantity.Span(l.AlwaysFrom))
}

func lengthsText(shortest, longest time.Duration) string {
	if shortest == longest {
		return quantity.Span(shortest)
	}
	return quantity.Span(shortest) + " to " + quantity.Span(longest)
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
