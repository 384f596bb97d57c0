package report

import (
	"strconv"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// shownLonger are the lengths that the table of a [model.KeepServing] has a column for.
var shownLonger = map[time.Duration]bool{
	100 * time.Millisecond: true, 200 * time.Millisecond: true, 500 * time.Millisecond: true,
	time.Second: true, 2 * time.Second: true, 5 * time.Second: true, 10 * time.Second: true,
}

// keepServingSection says what a longer preStop sleep would have left of the failures.
func keepServingSection(v *view) section {
	k := v.KeepServing
	if k == nil {
		return section{}
	}
	t := table{item: "length", columns: []column{{title: "longer by"}, {title: "as it was", right: true}}}
	row := tableRow{cells: []cell{{text: "still failed"}, {text: strconv.Itoa(k.Failed)}}}
	for i, left := range k.Left {
		if !shownLonger[left.Longer] && i < len(k.Left)-1 {
			continue
		}
		t.columns = append(t.columns, column{title: quantity.Span(left.Longer), right: true, verbatim: true})
		row.cells = append(row.cells, cell{text: leftText(left)})
	}
	if k.Others > 0 {
		row.notes = append(row.notes, note{text: quantity.Count(k.Others, "other failure") + " it is not known to mend", tone: dim})
	}
	t.rows = []tableRow{row}
	return section{title: "keep serving", remark: "how many requests would have failed, had each Pod served longer after SIGTERM", blocks: []block{t}}
}

func leftText(left model.ServedLonger) string {
	if left.Min == left.Max {
		return strconv.Itoa(left.Min)
	}
	return strconv.Itoa(left.Min) + " to " + strconv.Itoa(left.Max)
}
