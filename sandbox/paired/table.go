package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const head = `# A drain with Lapse, and without it

Does measuring change what it measures? One node is drained again and again, alternately with Lapse measuring and
without Lapse:

` + "```\n%s\n%s\n```" + `

On %s. %s. Made by ` + "`make paired`" + `.

- On %s run the Pods of %d Deployments, new for each drain. After SIGTERM they answer for %s. These lengths differ so
  much that the order in which the Pods end is not left to chance.
- With Lapse %s. Without Lapse, the Pods get only their readiness
  probes: the load of the requests is a part of what is compared.
- **evicted**: the Pods that began to terminate while the drain ran. **ended**: the Pods that were gone. Both are in the
  order of a watch of the API server. ` + "`kubectl drain`" + ` asks for all evictions at once, so the order of
  **evicted** is chance.
- **drain**: how long ` + "`kubectl drain`" + ` ran. It asks once a second whether a Pod is gone. **Pods**: from the
  first Pod's deletion until the last Pod was gone. In seconds: without Lapse, with it, the difference.
- The interval of the median difference is exact: its ends are two of the differences. It assumes no distribution.

`

// document returns the tables: docs/measured/no-influence.md sums them up.
func document(groups [][]pair) string {
	if len(groups) == 0 {
		return "No pair is whole.\n"
	}
	var b strings.Builder
	first := groups[0][0]
	fmt.Fprintf(&b, head, first.with.Command, first.without.Command, first.with.Began.Format("2006-01-02 15:04 UTC"),
		first.with.Machine, node, len(servers), drainLengths(), first.with.what())
	for _, pairs := range groups {
		fmt.Fprintf(&b, "## kube-proxy in %s mode\n\n", pairs[0].with.Mode)
		b.WriteString(drill.Table(columns(), pairs))
		b.WriteString(summary(pairs))
	}
	return b.String()
}

// what says what of Lapse is in the cluster.
func (d drain) what() string {
	if d.Guard {
		return "there is also a guard of two Pods, which has been there before the drain. A drain of its node\n" +
			"  evicts one of them, too"
	}
	return "there are also its Job and a prober on each node, including the drained one: Pods of a DaemonSet, which\n" +
		"  a drain leaves alone. They ask the Services as long as Lapse runs"
}

func drainLengths() string {
	var all []string
	for _, server := range servers {
		all = append(all, strings.TrimSuffix(server.drain, "s"))
	}
	return strings.Join(all, ", ") + " s"
}

func columns() []drill.Column[pair] {
	all := []drill.Column[pair]{
		{Head: "pair", Cell: func(p pair) string { return strconv.Itoa(p.with.Pair) }},
		{Head: "first", Cell: func(p pair) string {
			return map[bool]string{true: "with", false: "without"}[p.with.First]
		}},
		{Head: "load", Cell: func(p pair) string { return both(p.without.Load, p.with.Load) }},
		{Head: "exit code", Cell: func(p pair) string {
			return both(p.without.Outcome.ExitCode, p.with.Outcome.ExitCode)
		}},
		{Head: "evicted", Cell: func(p pair) string {
			return both(names(p.without.Outcome.Asked), names(p.with.Outcome.Asked))
		}},
		{Head: "ended", Cell: func(p pair) string {
			return both(names(p.without.Outcome.Gone), names(p.with.Outcome.Gone))
		}},
	}
	for _, m := range measures {
		all = append(all,
			drill.Column[pair]{Head: m.short + " (s)", Cell: func(p pair) string {
				return seconds(m.of(p.without.Outcome))
			}},
			drill.Column[pair]{Cell: func(p pair) string { return seconds(m.of(p.with.Outcome)) }},
			drill.Column[pair]{Cell: func(p pair) string {
				return signed(m.of(p.with.Outcome) - m.of(p.without.Outcome))
			}})
	}
	return all
}

func names(pods []string) string { return strings.Join(pods, ", ") }

// both returns the cell of two values, without Lapse and with it: one value if they are equal.
func both[T comparable](without, with T) string {
	if without == with {
		return fmt.Sprint(with)
	}
	return fmt.Sprintf("%v / %v", without, with)
}

// summary says what is the same, and by how much the lengths differ.
func summary(pairs []pair) string {
	var b strings.Builder
	var found []string
	for _, p := range pairs {
		found = append(found, p.differences()...)
	}
	b.WriteString("\n")
	if len(found) == 0 {
		fmt.Fprintf(&b, "In all %d pairs the exit code, the evicted Pods and the order in which they ended are the "+
			"same with Lapse as without.\n", len(pairs))
	} else {
		fmt.Fprintf(&b, "What differs:\n\n- %s\n", strings.Join(found, "\n- "))
	}
	fmt.Fprintf(&b, "\nThe order in which they were told to end: without Lapse %s; with it %s.\n\n",
		orders(pairs, func(p pair) drain { return p.without }), orders(pairs, func(p pair) drain { return p.with }))
	b.WriteString(drill.Table(lengthColumns(pairs), measures))
	b.WriteString("\n")
	return b.String()
}

// lengthColumns returns those of the table that compares the lengths over all pairs.
func lengthColumns(pairs []pair) []drill.Column[measure] {
	middle := func(m measure, of func(pair) drain) string {
		var all []time.Duration
		for _, p := range pairs {
			all = append(all, m.of(of(p).Outcome))
		}
		return seconds(drill.Median(all))
	}
	between := func(cell func(interval) string, tooFew string) func(measure) string {
		return func(m measure) string {
			if in, ok := medianInterval(m.differences(pairs)); ok {
				return cell(in)
			}
			return tooFew
		}
	}
	return []drill.Column[measure]{
		{Head: "length", Cell: func(m measure) string { return m.name }},
		{Head: "median without (s)", Cell: func(m measure) string {
			return middle(m, func(p pair) drain { return p.without })
		}},
		{Head: "with (s)", Cell: func(m measure) string { return middle(m, func(p pair) drain { return p.with }) }},
		{Head: "median difference (s)", Cell: func(m measure) string {
			return signed(drill.Median(m.differences(pairs)))
		}},
		{Head: "its interval (s)", Cell: between(func(in interval) string {
			return signed(in.min) + " to " + signed(in.max)
		}, "–")},
		{Head: "confidence", Cell: between(func(in interval) string {
			return fmt.Sprintf("%.1f %%", 100*in.confidence)
		}, "–")},
		{Cell: between(interval.meaning, fmt.Sprintf("%d pairs are too few to tell", len(pairs)))},
	}
}

func (in interval) meaning() string {
	switch {
	case in.min > 0:
		return "**longer with Lapse**"
	case in.max < 0:
		return "**shorter with Lapse**"
	default:
		return "no difference seen"
	}
}

// orders counts the orders in which Pods were told to end.
func orders(pairs []pair, of func(pair) drain) string {
	times := map[string]int{}
	for _, p := range pairs {
		times[strings.Join(of(p).Outcome.Asked, " ")]++
	}
	var all []string
	for _, order := range slices.Sorted(maps.Keys(times)) {
		all = append(all, fmt.Sprintf("%s (%d times)", order, times[order]))
	}
	return strings.Join(all, ", ")
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }

func signed(d time.Duration) string { return fmt.Sprintf("%+.2f", d.Seconds()) }
