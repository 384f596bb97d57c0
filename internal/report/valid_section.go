package report

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// validitySection says how good the measurement itself was.
func validitySection(v *view) document.Section {
	return document.Section{Title: "valid", Blocks: []document.Block{
		document.Note{Text: strings.Join(validityParts(v.Timeline, v.names), " · ")},
	}}
}

// validityParts returns the prober's figures, and what is to be said of single targets under their names in a report.
func validityParts(tl *model.Timeline, names map[string]string) []string {
	var parts []string
	for _, l := range tl.Said.Prober {
		parts = append(parts, l.Text)
		if l.Kind == model.LineStalled {
			parts[len(parts)-1] += slower(tl, names)
		}
	}
	for _, t := range tl.Judged() {
		if 10*t.NewConnections > t.OK {
			parts = append(parts, fmt.Sprintf("%s: %d of %s came over a new connection",
				names[t.Name], t.NewConnections, quantity.Count(t.OK, "good answer")))
		}
		parts = append(parts, skipped(tl, t.FailedAddresses, names[t.Name])...)
	}
	return parts
}

// slower goes on with the targets that were sent less than was asked for; "" if there are none.
func slower(tl *model.Timeline, names map[string]string) string {
	var rates []string
	for _, t := range tl.Judged() {
		if t.AchievedRate < 0.98*t.Rate {
			rates = append(rates, fmt.Sprintf(
				"%s sent %s/s of %s/s", names[t.Name], quantity.Number(t.AchievedRate), quantity.Number(t.Rate),
			))
		}
	}
	if len(rates) == 0 {
		return ""
	}
	return ", " + listed(rates)
}

// maxAddresses is how many of a target's addresses that failed alike are named.
const maxAddresses = 3

// skipped lists the addresses that failed before another one answered, those that failed alike together.
func skipped(tl *model.Timeline, addresses []model.FailedAddress, target string) []string {
	least := ""
	if tl.Run.Live || tl.Run.Aborted != "" {
		least = "at least "
	}
	var parts []string
	for len(addresses) > 0 {
		class := addresses[0].Class
		var alike, others []model.FailedAddress
		for _, a := range addresses {
			if a.Class == class {
				alike = append(alike, a)
			} else {
				others = append(others, a)
			}
		}
		addresses = others
		var names []string
		for _, a := range alike[:min(len(alike), maxAddresses)] {
			names = append(names, a.Addr)
		}
		if more := len(alike) - maxAddresses; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		parts = append(parts, fmt.Sprintf("%s: %s failed (%s) before another address answered, for %s%s",
			target, strings.Join(names, ", "), class, least,
			quantity.Count(sum(alike, func(a model.FailedAddress) int { return a.Connections }), "connection")))
	}
	return parts
}
