package report

import (
	"strconv"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// shownLonger are the lengths that the table of a [model.KeepServing] has a column for.
var shownLonger = map[time.Duration]bool{
	100 * time.Millisecond: true, 200 * time.Millisecond: true, 500 * time.Millisecond: true,
	time.Second: true, 2 * time.Second: true, 5 * time.Second: true, 10 * time.Second: true,
}

// keepServingSection says what a longer preStop sleep would have left of the failures.
func keepServingSection(v *view) document.Section {
	k := v.KeepServing
	if k == nil {
		return document.Section{}
	}
	t := document.Table{
		Item: "length", Columns: []document.Column{{Title: "longer by"}, {Title: "as it was", Right: true}},
	}
	row := document.Row{Cells: []document.Cell{{Text: "still failed"}, {Text: strconv.Itoa(k.Failed)}}}
	for i, left := range k.Left {
		if !shownLonger[left.Longer] && i < len(k.Left)-1 {
			continue
		}
		t.Columns = append(t.Columns, document.Column{Title: quantity.Span(left.Longer), Right: true, Verbatim: true})
		row.Cells = append(row.Cells, document.Cell{Text: leftText(left)})
	}
	if k.Others > 0 {
		row.Notes = append(row.Notes, document.Note{
			Text: quantity.Count(k.Others, "other failure") + " it is not known to mend", Tone: document.Dim,
		})
	}
	t.Rows = []document.Row{row}
	return document.Section{
		Title:  "keep serving",
		Remark: "how many requests would have failed, had each Pod served longer after SIGTERM",
		Blocks: []document.Block{t},
	}
}

func leftText(left model.ServedLonger) string {
	if left.Min == left.Max {
		return strconv.Itoa(left.Min)
	}
	return strconv.Itoa(left.Min) + " to " + strconv.Itoa(left.Max)
}
