// Package routes says how nodes and DNS servers followed the changes of endpoints: in a summary, and for lapse routes.
package routes

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// followed is how one node, or one DNS server, followed changes of one kind.
type followed struct {
	who  string
	lags []model.Length // by their middle
	open int            // changes that it was not seen to follow
}

// Print prints how the routes of each node followed the changes of a run, and what that means for a shutdown. A
// removal is counted from when the Pod's deletion was asked for, an addition from when the EndpointSlice had it.
// Lines are as long as they are, whatever the screen's width: a table that is cut has no use.
func Print(w io.Writer, tl *model.Timeline, dir string, screen document.Screen) error {
	screen.Width = document.Unlimited
	p := document.NewPage(screen)
	p.Print(routesDocument(tl, dir))
	if _, err := p.WriteTo(w); err != nil {
		return fmt.Errorf("print the routes: %w", err)
	}
	return nil
}

func routesDocument(tl *model.Timeline, dir string) document.Document {
	removals, additions := routesByNode(tl.Routes, model.Removal), routesByNode(tl.Routes, model.Addition)
	changes := map[uint32]bool{}
	for _, r := range tl.Routes {
		if r.Change == model.Removal {
			changes[r.Event] = true
		}
	}
	seen := fmt.Sprintf(
		"%s seen from %s%s",
		quantity.Count(len(changes), "removal"),
		quantity.Count(len(removals), "node"),
		clusterWords(tl),
	)
	alone, together := byCompany(tl)
	tables := []document.Table{
		followedTable("removed alone, from the deletion", routesByNode(alone, model.Removal)),
		followedTable("removed with others, from the deletion", routesByNode(together, model.Removal)),
		followedTable("added, from its endpoint", additions),
	}
	var meaning []string
	if tl.DNS != nil {
		tables = append(tables, dnsTables(tl.DNS)...)
		meaning = dnsNotes(tl.DNS)
	}
	for _, l := range tl.Late {
		meaning = append(meaning, "Late: "+l.Text+".")
	}
	meaning = append(meaning, advice(tl, removals, len(changes)))
	if text := dnsAdvice(tl.DNS, removals); text != "" {
		meaning = append(meaning, text)
	}
	d := document.Document{Sections: []document.Section{{Blocks: []document.Block{document.Note{Text: seen}}}}}
	for _, t := range tables {
		if len(t.Rows) > 0 {
			d.Sections = append(d.Sections, document.Section{Blocks: []document.Block{t}})
		}
	}
	var last document.Section
	for _, text := range meaning {
		last.Blocks = append(last.Blocks, document.Note{Text: text})
	}
	last.Blocks = append(last.Blocks, document.Note{Text: "run in " + dir, Verbatim: true})
	d.Sections = append(d.Sections, last)
	return d
}

// atOnce is less than Lapse waits between its changes, and more than the deletions of one change take.
const atOnce = 2 * time.Second

// byCompany tells the routes to Pods that Lapse deleted alone from those to Pods that it deleted together with others.
func byCompany(tl *model.Timeline) (alone, together []model.Route) {
	asked := map[string]model.Instant{} // by the Pod's UID
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind == timeline.DeletionAsked {
			asked[e.Object.UID] = e.At
		}
	}
	accompanied := map[string]bool{}
	for pod, at := range asked {
		for other, then := range asked {
			if pod != other && (at.Latest-then.Latest).Abs() < atOnce {
				accompanied[pod] = true
			}
		}
	}
	for _, r := range tl.Routes {
		if accompanied[r.PodUID] {
			together = append(together, r)
		} else {
			alone = append(alone, r)
		}
	}
	return alone, together
}

// lagTitles are the columns of how changes were followed: how many there were, and the quantiles of lagShares.
var (
	lagTitles = []string{"changes", "min", "median", "max"}
	lagShares = []float64{0, 0.5, 1}
)

// followedTable has a row for each node.
func followedTable(title string, nodes []followed) document.Table {
	t := document.Table{Item: "node", Columns: titled(append([]string{title}, lagTitles...))}
	for _, n := range nodes {
		cells := []document.Cell{{Text: n.who, Verbatim: true}, {Text: strconv.Itoa(len(n.lags) + n.open)}}
		for _, share := range lagShares {
			cells = append(cells, document.Cell{Text: n.quantile(share)})
		}
		t.Rows = append(t.Rows, document.Row{Cells: cells})
	}
	return t
}

func titled(titles []string) (columns []document.Column) {
	for _, title := range titles {
		columns = append(columns, document.Column{Title: title})
	}
	return columns
}

func clusterWords(tl *model.Timeline) string {
	if tl.Run.Cluster == nil {
		return ""
	}
	text := ""
	if mode := tl.Run.Cluster.ProxyMode; mode != "" {
		text = ", kube-proxy " + mode
	}
	if version := tl.Run.Cluster.Version; version != "" {
		text += ", Kubernetes " + version
	}
	return text
}

func routesByNode(routes []model.Route, change model.RouteChange) (nodes []followed) {
	for _, r := range routes {
		if r.Change != change {
			continue
		}
		i := slices.IndexFunc(nodes, func(n followed) bool { return n.who == r.Node })
		if i < 0 {
			i, nodes = len(nodes), append(nodes, followed{who: r.Node})
		}
		if r.Open {
			nodes[i].open++
			continue
		}
		nodes[i].lags = append(nodes[i].lags, fromAsked(r))
	}
	for _, n := range nodes {
		n.sort()
	}
	slices.SortFunc(nodes, func(a, b followed) int { return cmp.Compare(a.who, b.who) })
	return nodes
}

// fromAsked is for how long a route lived on after the Pod's deletion was asked for; where that is not known, after
// its endpoint had left.
func fromAsked(r model.Route) model.Length {
	if r.Asked == nil {
		return r.Lag
	}
	return model.Length{Min: max(0, r.Changed.Earliest-r.Asked.Latest), Max: max(0, r.Changed.Latest-r.Asked.Earliest)}
}

// sort sorts by what is printed first: the middle.
func (n followed) sort() {
	slices.SortFunc(n.lags, func(a, b model.Length) int {
		return cmp.Or(cmp.Compare(a.Min+a.Max, b.Min+b.Max), cmp.Compare(a.Max, b.Max))
	})
}

// quantile returns the lag that a share of the changes did not exceed, by its nearest rank.
func (n followed) quantile(share float64) string {
	rank := max(1, int(math.Ceil(share*float64(len(n.lags)+n.open))))
	if rank > len(n.lags) {
		return "not seen to end"
	}
	return quantity.Length(n.lags[rank-1], false)
}

// advice is what the removals mean for whoever ends Pods.
func advice(tl *model.Timeline, removals []followed, changes int) string {
	var longest time.Duration
	open, seen := 0, 0
	for _, n := range removals {
		open, seen = open+n.open, seen+len(n.lags)
		for _, lag := range n.lags {
			longest = max(longest, lag.Max)
		}
	}
	switch {
	case seen == 0:
		return "Nothing was measured of removals: no request reached a Pod before it was deleted, or too few followed."
	case open > 0:
		return fmt.Sprintf(
			"%s of %d were not seen to be followed: no preStop sleep is known to be long enough.",
			quantity.Count(open, "removal"),
			seen+open,
		)
	}
	longest = quantity.RoundUp(longest)
	sleep := &model.Sleep{
		Measured: longest,
		Bounds:   model.Length{Min: longest, Max: longest},
		Margin:   tl.Run.SleepMargin(longest),
	}
	return fmt.Sprintf("So that a drain here loses nothing: %s. That is the longest of %s × %s. %s.",
		wording.SleepText(sleep), quantity.Count(changes, "removal"), quantity.Count(len(removals), "node"),
		syncPeriodText(tl))
}

// syncPeriodText says what is known of kube-proxy's minSyncPeriod, which the margin allows for.
func syncPeriodText(tl *model.Timeline) string {
	const text = "The margin allows for kube-proxy's minSyncPeriod: "
	period := quantity.Span(tl.Run.SyncPeriod())
	if c := tl.Run.Cluster; c != nil && c.MinSyncPeriod > 0 {
		return text + period + ", from its ConfigMap"
	}
	return text + period + " is assumed, as its ConfigMap could not be read or has none"
}

// wholeSeconds rounds up: preStop.sleep.seconds is an integer.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
