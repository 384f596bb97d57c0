package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// mostNodes is how many nodes have a column each; of more, the first and the last to follow a change are shown.
const mostNodes = 6

// Section has, for each change of an endpoint, when the routes of each node had followed it.
func Section(tl *model.Timeline) document.Section {
	if len(tl.Routes) == 0 {
		return document.Section{}
	}
	var nodes []string
	for _, r := range tl.Routes {
		nodes = append(nodes, r.Node)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	t := document.Table{Item: "change", Columns: []document.Column{{Title: "endpoint"}, {Title: ""}}}
	if len(nodes) > mostNodes {
		t.Columns = append(t.Columns,
			document.Column{Title: "first node", Right: true}, document.Column{Title: "last node", Right: true})
	} else {
		for _, node := range nodes {
			t.Columns = append(t.Columns, document.Column{Title: document.Clean(node), Right: true, Verbatim: true})
		}
	}
	for _, change := range routeChanges(tl.Routes) {
		cells := []document.Cell{{Text: change[0].Pod, Verbatim: true}, {Text: routeWord(change[0].Change)}}
		if len(nodes) > mostNodes {
			for _, r := range []model.Route{slices.MinFunc(change, byLag), slices.MaxFunc(change, byLag)} {
				cells = append(cells, document.Cell{Text: r.Node + " " + routeLag(r)})
			}
		} else {
			for _, node := range nodes {
				text := "–" // no request from there reached it
				if i := slices.IndexFunc(change, func(r model.Route) bool { return r.Node == node }); i >= 0 {
					text = routeLag(change[i])
				}
				cells = append(cells, document.Cell{Text: text})
			}
		}
		t.Rows = append(t.Rows, document.Row{Cells: cells})
	}
	if more := len(t.Rows) - mostRouteChanges; more > 0 {
		t.Rows, t.More = t.Rows[:mostRouteChanges], quantity.Count(more, "more change")
	}
	s := document.Section{
		Title:  "routes",
		Remark: "from a change in the EndpointSlice until requests from the node followed it",
		Blocks: []document.Block{t},
	}
	s.Blocks = append(s.Blocks, lostNotes(tl.Routes)...)
	s.Blocks = append(s.Blocks, waitedNotes(tl.Routes)...)
	for _, l := range tl.Late[:min(len(tl.Late), mostLate)] {
		s.Blocks = append(s.Blocks, document.Note{Label: "late", Text: l.Text, Tone: document.Yellow})
	}
	if more := len(tl.Late) - mostLate; more > 0 {
		s.Blocks = append(s.Blocks, document.Note{
			Text: "and " + strconv.Itoa(more) + " more in timeline.json", Tone: document.Dim,
		})
	}
	return s
}

// mostLost is how many routes that outlived their Pod are named.
const mostLost = 5

// lostNotes say of the routes that outlived their Pod longest what they waited for.
func lostNotes(routes []model.Route) (notes []document.Block) {
	routes = slices.DeleteFunc(slices.Clone(routes), func(r model.Route) bool {
		return r.Lost == nil || r.Lost.Min == 0
	})
	slices.SortStableFunc(routes, func(a, b model.Route) int { return cmp.Compare(b.Lost.Min, a.Lost.Min) })
	for _, r := range routes[:min(len(routes), mostLost)] {
		notes = append(notes, document.Note{
			Label: "lost",
			Text: fmt.Sprintf(
				"%s routed to %s for %s after it had stopped: %s",
				r.Node,
				r.Pod,
				quantity.Length(r.Lost.Length, r.Open),
				lostParts(r),
			),
		})
	}
	if more := len(routes) - mostLost; more > 0 {
		notes = append(notes, document.Note{
			Text: "and " + strconv.Itoa(more) + " more in timeline.json", Tone: document.Dim,
		})
	}
	return notes
}

// lostParts are what a node waited for, the part that took longest first if it is known.
func lostParts(r model.Route) string {
	return partTexts(r, r.Lost.Mostly, []part{
		{model.LostAppEarly, r.Lost.AppEarly, "before its deletion was asked for"},
		{model.LostController, r.Lost.Controller, "until the EndpointSlice changed"},
		{model.LostProxy, r.Lost.Proxy, "until the node's own routes followed"},
	})
}

// mostWaited is how many routes to new Pods are named.
const mostWaited = 3

// waitedNotes say of the routes that came longest after their Pod's first container had started what they waited for,
// one of each change.
func waitedNotes(routes []model.Route) (notes []document.Block) {
	routes = slices.DeleteFunc(slices.Clone(routes), func(r model.Route) bool {
		return r.Waited == nil || r.Waited.Min == 0
	})
	slices.SortStableFunc(routes, func(a, b model.Route) int { return cmp.Compare(b.Waited.Min, a.Waited.Min) })
	named := map[string]bool{}
	for _, r := range routes {
		if named[r.PodUID] || len(notes) == mostWaited {
			continue
		}
		named[r.PodUID] = true
		parts := partTexts(r, r.Waited.Mostly, []part{
			{model.LostStartUp, r.Waited.StartUp, "until it was ready"},
			{model.LostController, r.Waited.Controller, "until the EndpointSlice changed"},
			{model.LostProxy, r.Waited.Proxy, "until the node's own routes followed"},
		})
		notes = append(notes, document.Note{
			Label: "waited",
			Text: fmt.Sprintf("%s routed to %s %s after its first container had started: %s",
				r.Node, r.Pod, quantity.Length(r.Waited.Length, r.Open), parts),
		})
	}
	return notes
}

// A part is a part of what a node waited for.
type part struct {
	part   model.LostPart
	length model.Length
	what   string
}

// partTexts are the parts of what a node waited for, the one that took longest first if it is known.
func partTexts(r model.Route, mostly model.LostPart, parts []part) string {
	var texts []string
	for _, p := range parts {
		if p.length.Max == 0 {
			continue
		}
		text := quantity.Length(p.length, r.Open && p.part == model.LostProxy) + " " + p.what
		if p.part == mostly {
			texts = append([]string{text}, texts...)
		} else {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// mostLate is how many nodes, zones and changes that stand out are named.
const mostLate = 5

// mostRouteChanges is how many changes are listed.
const mostRouteChanges = 20

// routeChanges are the routes by the change that they followed.
func routeChanges(routes []model.Route) (changes [][]model.Route) {
	for _, r := range routes {
		if last := len(changes) - 1; last >= 0 && changes[last][0].Event == r.Event {
			changes[last] = append(changes[last], r)
			continue
		}
		changes = append(changes, []model.Route{r})
	}
	return changes
}

func byLag(a, b model.Route) int { return int(min(max(a.Lag.Max-b.Lag.Max, -1), 1)) }

func routeWord(change model.RouteChange) string {
	if change == model.Addition {
		return "added"
	}
	return "removed"
}

func routeLag(r model.Route) string { return quantity.Length(r.Lag, r.Open) }
