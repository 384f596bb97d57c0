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

// beyondSync is added to one minSyncPeriod of kube-proxy, by which healthy nodes may differ: a proxy writes its rules
// at most once in that time. A node is late if its routes followed so long after those of the first node; a change, if
// it took so long until the first node followed.
const beyondSync = 500 * time.Millisecond

// A routeCell is how one node followed one change: the last of its targets that did.
type routeCell struct {
	node    string
	changed model.Instant
	lag     model.Length
	open    bool
}

// A routeRow is how the nodes followed one change.
type routeRow struct {
	pod   string
	cells []routeCell // a node each
}

// first bounds when the first node had followed: it was one of them, and all that is known is that it was no later
// than each.
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

// behind returns how long after the first node a cell's node followed.
func (c routeCell) behind(first model.Instant) model.Length {
	return model.Length{Min: max(0, c.changed.Earliest-first.Latest), Max: max(0, c.changed.Latest-first.Earliest)}
}

func (l *standouts) isLate(c routeCell, first model.Instant) bool {
	return c.behind(first).Min >= l.lateFrom
}

func (l *standouts) countLate(r routeRow, first model.Instant) (n int) {
	for _, c := range r.cells {
		if l.isLate(c, first) {
			n++
		}
	}
	return n
}

// lateRoutes returns the zones, the nodes and then the changes that stand out. syncPeriod is kube-proxy's
// minSyncPeriod.
func lateRoutes(routes []model.Route, sources []model.Source, syncPeriod time.Duration) []model.LateRoutes {
	zones := map[string]string{} // by node
	for _, s := range sources {
		zones[s.Node] = s.Zone
	}
	found := standouts{at: map[standout]int{}, lateFrom: syncPeriod + beyondSync}
	for _, row := range routeRows(routes) {
		if len(row.cells) > 1 { // else there is nothing to compare it with
			found.look(row, zones)
		}
	}
	return found.late()
}

// standouts are what was looked at, late or not.
type standouts struct {
	list []model.LateRoutes
	at   map[standout]int // its place in the list

	lateFrom time.Duration
}

type standout struct {
	of   model.LateOf
	name string
}

// look takes in how the nodes followed one change.
func (l *standouts) look(row routeRow, zones map[string]string) {
	if least, most, open := row.sharedLag(); least >= l.lateFrom {
		l.note(model.LateChange, row.pod, true, model.Length{Min: least, Max: most}, open)
	}
	first := row.first()
	if first.Latest == model.Never { // no node is known to have followed
		return
	}
	zone, longest, open := l.lateZone(row, first, zones), model.Length{}, false
	accuses := 2*l.countLate(row, first) <= len(row.cells) // if most nodes are behind, the first one was quick
	for _, c := range row.cells {
		behind := c.behind(first)
		inZone := zone != "" && zones[c.node] == zone
		l.note(model.LateNode, c.node, l.isLate(c, first) && accuses && !inZone, behind, c.open)
		if inZone && behind.Min >= longest.Min {
			longest, open = behind, c.open
		}
	}
	if zone != "" {
		l.note(model.LateZone, zone, true, longest, open)
	}
}

// note counts a change, and whether it was late.
func (l *standouts) note(of model.LateOf, name string, late bool, behind model.Length, open bool) {
	i, known := l.at[standout{of, name}]
	if !known {
		i, l.list = len(l.list), append(l.list, model.LateRoutes{Of: of, Name: name})
		l.at[standout{of, name}] = i
	}
	s := &l.list[i]
	s.Known++
	if !late {
		return
	}
	if s.Changes++; s.Changes == 1 || cmp.Or(cmp.Compare(behind.Min, s.Behind.Min),
		cmp.Compare(behind.Max, s.Behind.Max)) > 0 {
		s.Behind, s.Open = behind, open
	}
}

// late returns the routes that were late at least once.
func (l *standouts) late() []model.LateRoutes {
	late := slices.DeleteFunc(l.list, func(s model.LateRoutes) bool { return s.Changes == 0 })
	if len(late) == 0 {
		return nil
	}
	for i := range late {
		late[i].Text = lateText(late[i])
	}
	order := []model.LateOf{model.LateZone, model.LateNode, model.LateChange}
	slices.SortFunc(late, func(a, b model.LateRoutes) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Of), slices.Index(order, b.Of)),
			cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.Name, b.Name))
	})
	return late
}

// routeRows returns the routes by change, of each node the cell that followed last.
func routeRows(routes []model.Route) (rows []routeRow) {
	at := map[uint32]int{}
	for _, r := range routes {
		i, known := at[r.Event]
		if !known {
			i = len(rows)
			at[r.Event], rows = i, append(rows, routeRow{pod: r.Pod})
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

// lateZone returns the zone in which two nodes or more are late, and none is in time, where no node of another zone is
// late. Empty if there is none.
func (l *standouts) lateZone(r routeRow, first model.Instant, zones map[string]string) string {
	zone := ""
	for _, c := range r.cells {
		if l.isLate(c, first) {
			zone = zones[c.node]
		}
	}
	if zone == "" || l.countLate(r, first) < 2 {
		return ""
	}
	for _, c := range r.cells {
		if l.isLate(c, first) != (zones[c.node] == zone) {
			return ""
		}
	}
	return zone
}

func lateText(l model.LateRoutes) string {
	by := quantity.Length(l.Behind, l.Open)
	switch l.Of {
	case model.LateZone:
		return fmt.Sprintf("the nodes of zone %s followed %s up to %s behind those of other zones: what they share "+
			"there, as the way to the API server", l.Name, quantity.Count(l.Changes, "change"), by)
	case model.LateNode:
		return fmt.Sprintf("%s followed %d of %s up to %s behind the first node: its own proxy or network, or its "+
			"way to the API server", l.Name, l.Changes, quantity.Count(l.Known, "change"), by)
	}
	return fmt.Sprintf("no node followed the change of Pod %s for %s: what they share, as the API server or how "+
		"often their proxies write", l.Name, by)
}
