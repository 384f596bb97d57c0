package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
)

// What a summary shows of held connections at most; timeline.json has the rest.
const (
	maxCutWindows = 10
	maxHeldPods   = 6
	maxHeldCuts   = 20 // with -v
)

// heldSection shows what became of the connections that were kept open: a row for each time in which some were cut,
// and where they are now.
func heldSection(v *view) document.Section {
	if len(v.Held) == 0 {
		return document.Section{}
	}
	s := document.Section{Title: "held connections", Remark: "times are UTC"}
	for i := range v.Held {
		h := &v.Held[i]
		s.Blocks = append(s.Blocks, document.Note{Text: heldLine(v, h)})
		if len(h.Windows) > 0 {
			s.Blocks = append(s.Blocks, v.heldTable(h))
		}
		for _, text := range heldDoubts(h) {
			s.Blocks = append(s.Blocks, document.Note{Label: "note", Text: text, Tone: document.Dim})
		}
		if v.Verbose && len(h.List) > 0 {
			s.Blocks = append(s.Blocks, v.heldCuts(h))
		}
	}
	return s
}

// heldLine is what a target's connections came to.
func heldLine(v *view, h *model.Held) string {
	one := *v.Timeline
	one.Held = []model.Held{*h}
	text := verdict.HeldFound(&one) + fmt.Sprintf("; a heartbeat each %s", quantity.Span(h.Heartbeat))
	if len(v.Held) > 1 {
		text = v.name(h.Target) + ": " + text
	}
	if pods := podCounts(h.After); pods != "" {
		text += "; now " + pods
	}
	return text
}

// podCounts says how many connections are on which Pod, the fullest first; "" if replies do not name Pods.
func podCounts(of map[string]int) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	if len(names) == 0 || len(names) == 1 && names[0] == "" {
		return ""
	}
	var parts []string
	for _, name := range names[:min(len(names), maxHeldPods)] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(document.Clean(name), "not named"), of[name]))
	}
	if more := len(names) - maxHeldPods; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

func (v *view) heldTable(h *model.Held) document.Table {
	t := document.Table{Item: "window", Columns: []document.Column{
		{Title: "#", Right: true}, {Title: "first cut"}, {Title: "connections"}, {Title: "how", Label: "how"},
		{Title: "no warning", Right: true, Label: "no warning"},
		{Title: "back after", Label: "back after"}, {Title: "attempts", Label: "attempts"},
		{Title: "in one second", Right: true, Label: "most in one second"}, {Title: "from", Label: "from"},
		{Title: "to", Label: "to"},
	}}
	for _, w := range h.Windows[:min(len(h.Windows), maxCutWindows)] {
		row := document.Row{Cells: []document.Cell{
			{Text: fmt.Sprint(w.ID)},
			{Text: startText(v.Timeline, noticed(w)), Exact: clock(v.Timeline, w.Start, false, false)},
			{Text: fmt.Sprintf("%d/%d cut", w.Failed, w.Sent), Tone: document.RedBold},
			{Text: wording.Classes(w.Classes), Verbatim: true},
			{Text: fmt.Sprint(w.Unwarned)},
			{Text: backCell(w)},
			{Text: attemptsCell(w)},
			{Text: fmt.Sprint(w.Busiest)},
			{Text: podCounts(w.From), Verbatim: true},
			{Text: podCounts(w.To), Verbatim: true},
		}}
		t.Rows = append(t.Rows, row)
	}
	if more := len(h.Windows) - maxCutWindows; more > 0 {
		t.More = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more window"))
	}
	return t
}

// noticed is when the first cut of a window was noticed.
func noticed(w model.CutWindow) model.Instant {
	return model.Instant{Earliest: w.Start.Latest, Latest: w.Start.Latest}
}

func backCell(w model.CutWindow) string {
	text := "never"
	if w.Back != nil {
		text = verdict.BackText(*w.Back)
	}
	if w.Missing > 0 && w.Back != nil {
		text += fmt.Sprintf(", %d not", w.Missing)
	}
	return text
}

func attemptsCell(w model.CutWindow) string {
	text := fmt.Sprint(w.Attempts)
	if len(w.Refused) > 0 {
		text += ", failed: " + quantity.ClassCounts(w.Refused)
	}
	return text
}

// heldDoubts say what is not known of a target's connections.
func heldDoubts(h *model.Held) (notes []string) {
	if h.Stood < h.Connections {
		notes = append(notes, fmt.Sprintf("%d of %d never stood: attempts failed: %s",
			h.Connections-h.Stood, h.Connections, quantity.ClassCounts(h.Failed)))
	}
	if h.Stopped > 0 {
		notes = append(notes, quantity.Count(h.Stopped, "cut")+
			" happened after the prober had been stopped, which may be why: not counted")
	}
	if h.Unproven > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d stood at the end with heartbeats that were not answered: they may have been cut", h.Unproven,
		))
	}
	if h.Open {
		notes = append(notes, "part of what became of them is not on record: more may have been cut")
	}
	return notes
}

// heldCuts lists the first cuts one by one.
func (v *view) heldCuts(h *model.Held) document.Table {
	t := document.Table{Item: "cut", Columns: []document.Column{
		{Title: "connection", Right: true}, {Title: "cut"}, {Title: "how", Label: "how"},
		{Title: "last answer", Label: "last answer"}, {Title: "back after", Label: "back after"},
		{Title: "failed attempts", Right: true, Label: "failed attempts"}, {Title: "from", Label: "from"},
		{Title: "to", Label: "to"},
	}}
	for _, c := range h.List[:min(len(h.List), maxHeldCuts)] {
		how, back := c.Class, "never"
		if c.Warned {
			how += ", announced"
		}
		if c.After != nil {
			back = quantity.Span(*c.After)
		}
		t.Rows = append(t.Rows, document.Row{Cells: []document.Cell{
			{Text: fmt.Sprint(c.Conn)}, {Text: clock(v.Timeline, c.Cut, false, false)}, {Text: how, Verbatim: true},
			{Text: quantity.Span(c.Idle.Min) + " old"}, {Text: back},
			{Text: fmt.Sprint(c.Failed)}, {Text: cmp.Or(c.From, c.FromAddr), Verbatim: true},
			{Text: cmp.Or(c.To, c.ToAddr), Verbatim: true},
		}})
	}
	if more := len(h.List) + h.Truncated - maxHeldCuts; more > 0 {
		t.More = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more cut"))
	}
	return t
}
