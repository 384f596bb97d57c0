package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
)

// maxGaps is how many stretches of unobserved time are listed, the longest ones.
const maxGaps = 5

// unobservedSection has when nothing was measured, the longest gaps only.
func unobservedSection(v *view) document.Section {
	gaps := sharedGaps(v.Unobserved, v.names)
	if len(gaps) == 0 {
		return document.Section{}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	n := min(len(gaps), maxGaps)
	shown, rest := gaps[:n], gaps[n:]
	slices.SortStableFunc(shown, func(a, b gap) int { return cmp.Compare(a.Start, b.Start) })
	t := document.Table{Item: "gap", Headless: true, Columns: []document.Column{
		{Title: "from (UTC)"}, {Title: "for"}, {Title: "target"}, {Title: "reason"},
	}}
	for _, g := range shown {
		t.Rows = append(t.Rows, document.Row{Cells: []document.Cell{
			{Text: wallClock(v.Timeline, g.Start, "15:04:05.000")},
			{Text: quantity.Span(g.End - g.Start), Tone: document.Bold},
			{Text: strings.Join(g.targets, ", "), Verbatim: true}, {Text: g.Reason, Verbatim: true},
		}})
	}
	if len(rest) > 0 {
		total := sum(rest, func(g gap) time.Duration { return g.End - g.Start })
		t.More = fmt.Sprintf("and %s, %s in all", quantity.Count(len(rest), "shorter gap"), quantity.Span(total))
	}
	return document.Section{
		Title: "unobserved", Remark: "neither up nor down: not measured", Blocks: []document.Block{t},
	}
}

// A gap is unobserved time, with every target that shares it.
type gap struct {
	model.Unobserved
	targets []string
}

func sharedGaps(list []model.Unobserved, names map[string]string) []gap {
	var gaps []gap
	place := map[model.Unobserved]int{}
	for _, u := range list {
		name := cmp.Or(names[u.Target], u.Target)
		u.Target, u.Reason = "", wording.Unobserved(u.Reason)
		i, known := place[u]
		if !known {
			i = len(gaps)
			place[u] = i
			gaps = append(gaps, gap{Unobserved: u})
		}
		gaps[i].targets = append(gaps[i].targets, name)
	}
	return gaps
}
