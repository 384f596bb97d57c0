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
)

// What a summary shows of held connections at most; timeline.json has the rest.
const (
	maxCutWindows = 10
	maxHeldPods   = 6
	maxHeldCuts   = 20 // with -v
)

// heldSection tells what became of the connections that were kept open: a row for each time in which some were cut, and where they are now.
func heldSection(v *view) section {
	if len(v.Held) == 0 {
		return section{}
	}
	s := section{title: "held connections", remark: "times are UTC"}
	for i := range v.Held {
		h := &v.Held[i]
		s.blocks = append(s.blocks, note{text: heldLine(v, h)})
		if len(h.Windows) > 0 {
			s.blocks = append(s.blocks, v.heldTable(h))
		}
		for _, text := range heldDoubts(h) {
			s.blocks = append(s.blocks, note{label: "note", text: text, tone: dim})
		}
		if v.detailed() && len(h.List) > 0 {
			s.blocks = append(s.blocks, v.heldCuts(h))
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
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	if len(names) == 0 || len(names) == 1 && names[0] == "" {
		return ""
	}
	var parts []string
	for _, name := range names[:min(len(names), maxHeldPods)] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(clean(name), "not named"), of[name]))
	}
	if more := len(names) - maxHeldPods; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

func (v *view) heldTable(h *model.Held) table {
	t := table{item: "window", columns: []column{
		{title: "#", right: true}, {title: "first cut"}, {title: "connections"}, {title: "how", label: "how"}, {title: "no warning", right: true, label: "no warning"},
		{title: "back after", label: "back after"}, {title: "attempts", label: "attempts"}, {title: "in one second", right: true, label: "most in one second"}, {title: "from", label: "from"}, {title: "to", label: "to"},
	}}
	for _, w := range h.Windows[:min(len(h.Windows), maxCutWindows)] {
		row := tableRow{cells: []cell{
			{text: fmt.Sprint(w.ID)},
			{text: startText(v.Timeline, noticed(w)), exact: clock(v.Timeline, w.Start, false, false)},
			{text: fmt.Sprintf("%d/%d cut", w.Failed, w.Sent), tone: redBold},
			{text: classList(w.Classes), verbatim: true},
			{text: fmt.Sprint(w.Unwarned)},
			{text: backCell(w)},
			{text: attemptsCell(w)},
			{text: fmt.Sprint(w.Busiest)},
			{text: podCounts(w.From), verbatim: true},
			{text: podCounts(w.To), verbatim: true},
		}}
		t.rows = append(t.rows, row)
	}
	if more := len(h.Windows) - maxCutWindows; more > 0 {
		t.more = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more window"))
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
		notes = append(notes, fmt.Sprintf("%d of %d never stood: attempts failed: %s", h.Connections-h.Stood, h.Connections, quantity.ClassCounts(h.Failed)))
	}
	if h.Stopped > 0 {
		notes = append(notes, fmt.Sprintf("%s happened after the prober had been stopped, which may be why: not counted", quantity.Count(h.Stopped, "cut")))
	}
	if h.Unproven > 0 {
		notes = append(notes, fmt.Sprintf("%d stood at the end with heartbeats that were not answered: they may have been cut", h.Unproven))
	}
	if h.Open {
		notes = append(notes, "part of what became of them is not on record: more may have been cut")
	}
	return notes
}

// heldCuts lists the first cuts one by one.
func (v *view) heldCuts(h *model.Held) table {
	t := table{item: "cut", columns: []column{
		{title: "connection", right: true}, {title: "cut"}, {title: "how", label: "how"}, {title: "last answer", label: "last answer"}, {title: "back after", label: "back after"},
		{title: "failed attempts", right: true, label: "failed attempts"}, {title: "from", label: "from"}, {title: "to", label: "to"},
	}}
	for _, c := range h.List[:min(len(h.List), maxHeldCuts)] {
		how, back := c.Class, "never"
		if c.Warned {
			how += ", announced"
		}
		if c.After != nil {
			back = quantity.Span(*c.After)
		}
		t.rows = append(t.rows, tableRow{cells: []cell{
			{text: fmt.Sprint(c.Conn)}, {text: clock(v.Timeline, c.Cut, false, false)}, {text: how, verbatim: true}, {text: quantity.Span(c.Idle.Min) + " old"}, {text: back},
			{text: fmt.Sprint(c.Failed)}, {text: cmp.Or(c.From, c.FromAddr), verbatim: true}, {text: cmp.Or(c.To, c.ToAddr), verbatim: true},
		}})
	}
	if more := len(h.List) + h.Truncated - maxHeldCuts; more > 0 {
		t.more = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more cut"))
	}
	return t
}
