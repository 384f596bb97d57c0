package compare

import (
	"fmt"
	"slices"
	"strings"

	"lapse/internal/hint"
)

// A Group is a kind of figure, of every target that is compared.
type Group struct {
	Key        string // what --fail-if-worse takes
	Name       string
	Less, More string // how B's figures are then, beside A's

	Metric string // its metrics begin with this
}

// Groups are in the order in which a comparison says them.
var Groups = []Group{
	{"failures", "failures", "fewer", "more", DiffFailed},
	{"downtime", "downtime", "less", "more", DiffDowntime},
	{"longest", "longest failure", "shorter", "longer", DiffLongest},
	{"latency", "latency", "lower", "higher", DiffLatency},
	{"cuts", "held connections cut", "fewer", "more", DiffCut},
	{"unwarned", "cut without a warning", "fewer", "more", DiffUnwarned},
	{"back", "longest until back", "shorter", "longer", DiffBack},
}

// GroupOf returns the group of a metric.
func GroupOf(metric string) Group {
	i := slices.IndexFunc(Groups, func(g Group) bool { return strings.HasPrefix(metric, g.Metric) })
	return Groups[i]
}

// ParseGroups reads keys of groups, by comma.
func ParseGroups(list string) ([]Group, error) {
	var groups []Group
	for key := range strings.SplitSeq(list, ",") {
		key = strings.TrimSpace(key)
		i := slices.IndexFunc(Groups, func(g Group) bool { return g.Key == key })
		if i < 0 {
			return nil, hint.Errorf("one or more of "+Keys()+", by comma", "unknown figures %q", key)
		}
		groups = append(groups, Groups[i])
	}
	return groups, nil
}

// Keys lists the keys of all groups.
func Keys() string {
	keys := make([]string, len(Groups))
	for i, g := range Groups {
		keys[i] = g.Key
	}
	return strings.Join(keys, ", ")
}

// Of returns the changes of the group's figures, of failures the total first. Those of held connections are none if the
// runs held none.
func (g Group) Of(d Diff) []Change {
	var list []Change
	for _, c := range append([]Change{d.Total}, d.Changes...) {
		if strings.HasPrefix(c.Metric, g.Metric) {
			list = append(list, c)
		}
	}
	return list
}

// Worse reports which figures of the groups became worse, and what stands against saying that none did: the runs are
// not comparable, or a figure was not measured in both.
func (d Diff) Worse(groups []Group) (worse, unknown []string) {
	for _, g := range groups {
		changes := g.Of(d)
		if len(changes) == 0 {
			unknown = append(unknown, g.Name+": not measured in both")
		}
		for _, c := range changes {
			switch {
			case c.Direction == More:
				worse = append(worse, fmt.Sprintf("%s of %s", figureName(c.Metric), c.Of()))
			case !c.Known():
				unknown = append(unknown, fmt.Sprintf("%s of %s: not measured in both", figureName(c.Metric), c.Of()))
			}
		}
	}
	return worse, append(unknown, d.NotComparable...)
}

// Of names what the change is of: a target, or all of them.
func (c Change) Of() string {
	if c.Target == "" {
		return "all targets"
	}
	return c.Target
}

// Figure names what is compared: "p99", "failures".
func (c Change) Figure() string { return figureName(c.Metric) }

func figureName(metric string) string {
	if quantile, ok := strings.CutPrefix(metric, DiffLatency); ok {
		return quantile
	}
	return GroupOf(metric).Name
}
