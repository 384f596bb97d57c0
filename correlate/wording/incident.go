package wording

import (
	"cmp"
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says an incident in figures, as a table does.

// An incident is what sentences about one need: its windows, which are in words already, and the rest of the run.
type incident struct {
	*model.Incident
	windows []*model.Window // by the IDs in Incident.Windows
	run     *scene
}

// lasted says how long it took from when the first window began to when the last one ended.
func (in *incident) lasted() string {
	if len(in.windows) == 1 {
		return in.windows[0].Said.Lasted
	}
	length := quantity.Length(model.Length{
		Min: max(0, in.End.Earliest-in.Start.Latest),
		Max: in.End.Latest - in.Start.Earliest,
	}, in.Open)
	if in.Recurs != nil {
		return fmt.Sprintf("%d times in %s", in.Recurs.Times, length)
	}
	return length + " in " + quantity.Count(len(in.Windows), "window")
}

// downtime says how much downtime the worst target had.
func (in *incident) downtime() string {
	switch {
	case in.Failed == 0 && in.Slow == 0:
		return "no request"
	case in.Failed == 0:
		return "none, slow"
	case len(in.windows) == 1:
		return in.windows[0].Said.Downtime
	}
	return quantity.Length(in.Downtime, in.Open)
}

// requests says how many requests failed or were slow of those that an incident is about.
func (in *incident) requests() string {
	var parts []string
	if in.Failed > 0 {
		share := quantity.Percent(float64(in.Failed) / float64(max(1, in.Sent)))
		parts = append(parts, fmt.Sprintf("%d/%d failed  %s", in.Failed, in.Sent, share))
	}
	if in.Slow > 0 || in.Failed == 0 && in.Cut == 0 {
		parts = append(parts, fmt.Sprintf("%d/%d slow", in.Slow, in.Sent))
	}
	if in.Cut > 0 {
		parts = append(parts, quantity.Count(in.Cut, "cut")+" of held connections")
	}
	return strings.Join(parts, ", ")
}

// errors says how its requests failed.
func (in *incident) errors() string {
	switch {
	case in.Failed > 0:
		return Classes(in.Classes)
	case in.Slow > 0 || in.Cut == 0:
		return late
	}
	return "cut"
}

// setOffBy says what set it off.
func (in *incident) setOffBy() string {
	texts := make([]string, len(in.Triggers))
	for i, t := range in.Triggers {
		texts[i] = t.Text
	}
	return cmp.Or(strings.Join(texts, "; "), "not known")
}
