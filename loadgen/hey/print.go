package hey

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"lapse/correlate/quantity"
)

// String returns the step in a line.
func (s Step) String() string {
	text := fmt.Sprintf("%d workers%s: %s/s, P50 %s", s.Workers, s.remarks(), quantity.Rate(s.Rate),
		quantity.Span(s.P50))
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed: %s", s.Failed, s.Error)
	}
	return text
}

// remarks returns what the columns of a step do not show.
func (s Step) remarks() string {
	text := ""
	if s.PerRequest {
		text = " with a connection for each request"
	}
	if s.Unanswered > 0 {
		text += fmt.Sprintf(" (%d unanswered a second after its end)", s.Unanswered)
	}
	return text
}

const rateText = " RATE      --rate %v for %s: costs at most 1 %% of the least (--rate %v would cost %s), " +
	"and an outage of all requests\n           shorter than %s can go unseen\n"

// Print writes what was found of a URL as a table. For comparison it says what usual, a rate of probes, would cost.
func (c Calibration) Print(w io.Writer, url string, usual float64, unicode bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, " STEPS  closed loop, %s\n", url)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "WORKERS\tREQUESTS/S\tP50\tP99\tFAILED\tCPU OWN\tCPU ALL\t\n")
	for _, s := range slices.Concat(c.Ladder, c.Repeats) {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Workers, quantity.Rate(s.Rate),
			quantity.Span(s.P50), quantity.Span(s.P99), s.Failed, quantity.Percent(s.CPU),
			quantity.Percent(s.Machine), s.remarks())
	}
	table.Flush()
	fmt.Fprintf(&b, "\n CAPACITY  %s on kept connections\n", c.Kept)
	fmt.Fprintf(&b, "           %s with a connection for each request\n", c.PerRequest)
	for _, s := range c.Suggestions {
		fmt.Fprintf(&b, rateText, s.Rate, strings.Join(s.Targets, ", "), usual,
			quantity.Percent(probeCost*usual/s.Rate), quantity.Span(s.DetectionLimit))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, " note      %s\n", n)
	}
	text := b.String()
	if !unicode {
		text = strings.ReplaceAll(text, "µ", "u")
	}
	_, err := io.WriteString(w, text)
	return err
}

func (c Capacity) String() string {
	if c.Steps == 0 {
		return "not known"
	}
	return fmt.Sprintf("%s/s, median of %d steps from %s to %s/s,", quantity.Rate(c.Median), c.Steps,
		quantity.Rate(c.Min), quantity.Rate(c.Max))
}
