package correlate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says which nodes, zones and changes stand out among the routes of a run.

// A node is late if its routes followed at least behindOthers after those of the first node; a change, if at least lateForAll passed until the
// first node followed. "Usually under a second", operators are told, so shorter lags are nothing to point at.
const (
	behindOthers = 500 * time.Millisecond
	lateForAll   = time.Second
)

// A routeCell is how one node followed one change: the last of its targets that did.
type routeCell struct {
	node    string
	changed model.Instant
	lag     model.Length
	open    bool
}

// A routeRow is how the nodes followed one change.
type routeRow struct {
	change model.RouteChange
	pod    string
	cells  []routeCell // a node each
}

// first bounds when the first node had followed: it was one of them, and all that is known is that it was no later than each.
func (r routeRow) first() model.Instant {
	first := model.Instant{Earliest: model.Never, Latest: model.Never}
	for _, c := range r.cells {
		first.Earliest = min(first.Earliest, c.changed.Earliest)
		if !c.open {
			first.Latest = min(first.Latest, c.changed.Latest)
		}
	}
	return first
}

// behind is how long after the first node a cell's node followed. ok is false if no node is known to have followed.
func (r routeRow) behind(c routeCell) (l model.Length, ok bool) {
	first := r.first()
	if first.Latest == model.Never {
		return l, false
	}
	return model.Length{Min: max(0, c.changed.Earliest-first.Latest), Max: max(0, c.changed.Latest-first.Earliest)}, true
}

// lateRoutes are the zones, the nodes and then the changes that stand out.
func lateRoutes(routes []model.Route, sources []model.Source) []model.LateRoutes {
	zones := map[string]string{}
	nodesOf := map[string][]string{} // of each zone
	for _, s := range sources {
		if _, known := zones[s.Node]; s.Node != "" && !known {
			zones[s.Node] = s.Zone
			nodesOf[s.Zone] = append(nodesOf[s.Zone], s.Node)
		}
	}
	late := map[model.LateOf]map[string]*model.LateRoutes{model.LateZone: {}, model.LateNode: {}, model.LateChange: {}}
	note := func(of model.LateOf, name string, isLate bool, behind model.Length, open bool) {
		l := late[of][name]
		if l == nil {
			l = &model.LateRoutes{Of: of, Name: name}
			late[of][name] = l
		}
		l.Known++
		if !isLate {
			return
		}
		if l.Changes++; l.Changes == 1 || cmp.Or(cmp.Compare(behind.Min, l.Behind.Min), cmp.Compare(behind.Max, l.Behind.Max)) > 0 {
			l.Behind, l.Open = behind, open
		}
	}
	for _, row := range routeRows(routes) {
		if len(row.cells) < 2 {
			continue // nothing to compare it with
		}
		if least, most, open := row.sharedLag(); least >= lateForAll {
			note(model.LateChange, row.pod, true, model.Length{Min: least, Max: most}, open)
		}
		behind, longest := row.lateNodes(), model.Length{}
		whole := wholeZone(row, behind, zones, nodesOf)
		for _, c := range row.cells {
			b, known := row.behind(c)
			if !known {
				continue
			}
			inZone := whole != "" && zones[c.node] == whole
			note(model.LateNode, c.node, slices.Contains(behind, c.node) && !inZone, b, c.open)
			if inZone && b.Min > longest.Min {
				longest = b
			}
		}
		if whole != "" {
			note(model.LateZone, whole, true, longest, false)
		}
	}
	var list []model.LateRoutes
	for _, of := range []model.LateOf{model.LateZone, model.LateNode, model.LateChange} {
		for _, l := range late[of] {
			if l.Changes > 0 {
				l.Text = lateText(*l)
				list = append(list, *l)
			}
		}
	}
	order := []model.LateOf{model.LateZone, model.LateNode, model.LateChange}
	slices.SortFunc(list, func(a, b model.LateRoutes) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Of), slices.Index(order, b.Of)), cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// routeRows are the routes by change, of each node the cell that followed last.
func routeRows(routes []model.Route) (rows []routeRow) {
	at := map[uint32]int{}
	for _, r := range routes {
		i, known := at[r.Event]
		if !known {
			i = len(rows)
			at[r.Event], rows = i, append(rows, routeRow{change: r.Change, pod: r.Pod})
		}
		row, c := &rows[i], routeCell{node: r.Node, changed: r.Changed, lag: r.Lag, open: r.Open}
		j := slices.IndexFunc(row.cells, func(have routeCell) bool { return have.node == r.Node })
		switch {
		case j < 0:
			row.cells = append(row.cells, c)
		case r.Changed.Earliest > row.cells[j].changed.Earliest:
			row.cells[j] = c
		}
	}
	return rows
}

// sharedLag bounds how long it took until the first node followed.
func (r routeRow) sharedLag() (least, most time.Duration, open bool) {
	least, most, open = model.Never, model.Never, true
	for _, c := range r.cells {
		least = min(least, c.lag.Min)
		if !c.open {
			most, open = min(most, c.lag.Max), false
		}
	}
	if open {
		most = least
	}
	return least, most, open
}

// lateNodes are those that followed late, after the first one.
func (r routeRow) lateNodes() (nodes []string) {
	for _, c := range r.cells {
		if b, known := r.behind(c); known && b.Min >= behindOthers {
			nodes = append(nodes, c.node)
		}
	}
	return nodes
}

// wholeZone is the zone of which two nodes or more are late, and none is in time, where no node of another zone is late. Empty if there is none.
func wholeZone(row routeRow, late []string, zones map[string]string, nodesOf map[string][]string) string {
	if len(late) < 2 {
		return ""
	}
	zone := zones[late[0]]
	if zone == "" || slices.ContainsFunc(late, func(node string) bool { return zones[node] != zone }) {
		return ""
	}
	for _, node := range nodesOf[zone] {
		inTime := !slices.Contains(late, node) && slices.ContainsFunc(row.cells, func(c routeCell) bool { return c.node == node })
		if inTime {
			return ""
		}
	}
	return zone
}

func lateText(l model.LateRoutes) string {
	by := quantity.Length(l.Behind, l.Open)
	switch l.Of {
	case model.LateZone:
		return fmt.Sprintf("the nodes of zone %s followed %s up to %s behind those of other zones: what they share there, as the way to the API server", l.Name, quantity.Count(l.Changes, "change"), by)
	case model.LateNode:
		return fmt.Sprintf("%s followed %d of %s up to %s behind the first node: its own proxy, or its way to the API server", l.Name, l.Changes, quantity.Count(l.Known, "change"), by)
	}
	return fmt.Sprintf("no node followed the change of Pod %s for %s: what they share, as the API server or how often their proxies write", l.Name, by)
}
