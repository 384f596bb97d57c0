package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// A nodeRoutes is how one node followed changes of one kind.
type nodeRoutes struct {
	node string
	lags []model.Length // by Max
	open int            // changes that it was not seen to follow
}

// Routes prints how the routes of each node followed the changes of a run, and what that means for a shutdown. A removal is counted from when the
// Pod's deletion was asked for, an addition from when the EndpointSlice had it.
func Routes(w io.Writer, tl *model.Timeline, dir string) error {
	removals, additions := routesByNode(tl.Routes, model.Removal), routesByNode(tl.Routes, model.Addition)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	changes := map[uint32]bool{}
	for _, r := range tl.Routes {
		if r.Change == model.Removal {
			changes[r.Event] = true
		}
	}
	fmt.Fprintf(out, "%s seen from %s%s\n\n", quantity.Count(len(changes), "removal"), quantity.Count(len(removals), "node"), clusterWords(tl))
	write := func(title string, nodes []nodeRoutes) {
		if len(nodes) == 0 {
			return
		}
		fmt.Fprintf(out, "%s\tCHANGES\tMIN\tMEDIAN\tMAX\n", title)
		for _, n := range nodes {
			fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\n", n.node, len(n.lags)+n.open, n.quantile(0), n.quantile(0.5), n.quantile(1))
		}
		fmt.Fprintln(out)
	}
	write("REMOVED, FROM THE DELETION", removals)
	write("ADDED, FROM ITS ENDPOINT", additions)
	for _, l := range tl.Late {
		fmt.Fprintf(out, "Late: %s.\n", l.Text)
	}
	fmt.Fprintln(out, advice(removals, len(changes)))
	fmt.Fprintf(out, "run in %s\n", dir)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the routes: %w", err)
	}
	return nil
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

func routesByNode(routes []model.Route, change model.RouteChange) (nodes []nodeRoutes) {
	for _, r := range routes {
		if r.Change != change {
			continue
		}
		i := slices.IndexFunc(nodes, func(n nodeRoutes) bool { return n.node == r.Node })
		if i < 0 {
			i, nodes = len(nodes), append(nodes, nodeRoutes{node: r.Node})
		}
		if r.Open {
			nodes[i].open++
			continue
		}
		nodes[i].lags = append(nodes[i].lags, fromAsked(r))
	}
	for _, n := range nodes {
		slices.SortFunc(n.lags, func(a, b model.Length) int { return cmp.Or(cmp.Compare(a.Max, b.Max), cmp.Compare(a.Min, b.Min)) })
	}
	slices.SortFunc(nodes, func(a, b nodeRoutes) int { return cmp.Compare(a.node, b.node) })
	return nodes
}

// fromAsked is for how long a route lived on after the Pod's deletion was asked for; where that is not known, after its endpoint had left.
func fromAsked(r model.Route) model.Length {
	if r.Asked == nil {
		return r.Lag
	}
	return model.Length{Min: max(0, r.Changed.Earliest-r.Asked.Latest), Max: max(0, r.Changed.Latest-r.Asked.Earliest)}
}

// quantile is the lag of which so many are no longer.
func (n nodeRoutes) quantile(share float64) string {
	if len(n.lags) == 0 {
		return quantity.UnknownLength
	}
	if share == 1 && n.open > 0 {
		return "not seen to end"
	}
	return quantity.Length(n.lags[int(share*float64(len(n.lags)-1)+0.5)], false)
}

// advice is what the removals mean for whoever ends Pods.
func advice(removals []nodeRoutes, changes int) string {
	var longest time.Duration
	seen, open := 0, 0
	for _, n := range removals {
		open += n.open
		for _, lag := range n.lags {
			longest, seen = max(longest, lag.Max), seen+1
		}
	}
	switch {
	case seen == 0:
		return "Nothing was measured of removals: no request reached a Pod before it was deleted, or too few followed."
	case open > 0:
		return fmt.Sprintf("%s of %d were not seen to be followed: no preStop sleep is known to be long enough.", quantity.Count(open, "removal"), seen+open)
	}
	return fmt.Sprintf("A preStop sleep of ≥ %s covers what was measured here (%s × %s).",
		quantity.Span(quantity.RoundUp(longest)), quantity.Count(changes, "change"), quantity.Count(len(removals), "node"))
}
