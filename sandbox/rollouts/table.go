package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

// document is docs/measured/rollouts.md.
func document(results []result) string {
	var doc strings.Builder
	began := func(a, b result) int { return a.Began.Compare(b.Began) }
	first, last := slices.MinFunc(results, began), slices.MaxFunc(results, began)
	fmt.Fprintf(&doc, `# Rolling restarts, held against the truth

Three replicas on three nodes, whose servers exit at SIGTERM; a rolling restart of them while Lapse measures from one of the nodes:

`+"```\n%s\n```"+`

%d runs, all of them listed, on %s to %s. %s. Made by `+"`make rollouts`"+`.

The truth is taken beside Lapse and without it, on the same machine's clock: each server prints between which two instants it closed
its listening socket, and the prober's node's netfilter rules are looked at every 2 ms. A Pod's **lag** is how long the
node routed to it after it had stopped: a bracket, in milliseconds, negative where the routes ended first.

- **truth**: the lags of the three Pods, in the order in which they stopped.
- **new**, **reused**: the lags that Lapse names for the same Pods, in the causes of that target's windows. A dash is a Pod that is not named: no
  request met its stale route, or so few that nothing can be said.
- **coverage**: of new and reused connections. **load**: the machine's load average over a minute as the run began; what is above 1 or so is other work.
- A statement is **wrong** if the truth contradicts it: a lag whose bar lies wholly above or below the truth's; a Pod that is named with two lags, twice by
  one cause, or did not end; a Pod that is not named though new connections must have met its stale route; more than one fix.
`, first.Command, len(results), first.Began.Format("2006-01-02 15:04"), last.Began.Format("15:04 UTC"), first.Machine)
	for _, group := range groups(results) {
		fmt.Fprintf(&doc, "\n## kube-proxy in %s mode, %s\n\n", group[0].Mode, loads[group[0].Load])
		fmt.Fprintln(&doc, "| run | exit | coverage (%) | load | failed new, reused | truth (ms) | new (ms) | reused (ms) | fixes | wrong |")
		fmt.Fprintln(&doc, "|---|---|---|---|---|---|---|---|---|---|")
		for _, r := range group {
			fmt.Fprintln(&doc, r.row())
		}
		fmt.Fprint(&doc, summary(group))
	}
	fmt.Fprintf(&doc, "\n## What the truth contradicts\n\n%s", misses(results))
	return doc.String()
}

var loads = map[string]string{quiet: "nothing else at work", busy: "one busy process beside it"}

// groups are the runs of one mode and load each, in their order.
func groups(results []result) (all [][]result) {
	for _, r := range results {
		i := slices.IndexFunc(all, func(g []result) bool { return g[0].Mode == r.Mode && g[0].Load == r.Load })
		if i < 0 {
			all = append(all, []result{r})
			continue
		}
		all[i] = append(all[i], r)
	}
	for _, g := range all {
		slices.SortFunc(g, func(a, b result) int { return cmp.Compare(a.Number, b.Number) })
	}
	return all
}

func (r result) row() string {
	var lags []string
	for _, p := range r.Truth {
		lags = append(lags, truth.Millis(p.Lag()))
	}
	fresh, _ := r.run.Timeline.Target("web new")
	reused, _ := r.run.Timeline.Target("web reused")
	return fmt.Sprintf("| %d | %d | %.1f, %.1f | %s | %d, %d | %s | %s | %s | %d | %s |", r.Number, r.run.ExitCode,
		100*fresh.Coverage, 100*reused.Coverage, r.LoadAvg, fresh.Failed, reused.Failed,
		strings.Join(lags, "<br>"), r.lagsOf("web new"), r.lagsOf("web reused"), len(r.fixes), cmp.Or(counted(len(r.wrong)), "–"))
}

func counted(n int) string {
	if n == 0 {
		return ""
	}
	return "**" + strconv.Itoa(n) + "**"
}

// lagsOf lists what is named for a target, beside the truth of the same Pod.
func (r result) lagsOf(target string) string {
	var cells []string
	for _, p := range r.Truth {
		var said []string
		for _, n := range r.named {
			if n.Target == target && n.Pod == p.Name && !slices.Contains(said, truth.Millis(n.Lag)) {
				said = append(said, truth.Millis(n.Lag))
			}
		}
		cells = append(cells, cmp.Or(strings.Join(said, " and "), "–"))
	}
	return strings.Join(cells, "<br>")
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s, run %d (%s): %s\n", r.Mode, r.Load, r.Number, r.run.Dir, r.row())
	for _, w := range r.run.Timeline.Windows {
		fmt.Fprintf(&b, "  window %d of %s, %d of %d failed: %s [%s] %s\n    fix: %s\n", w.ID, w.Target, w.Failed, w.Sent, w.Causes[0].Rule, w.Causes[0].Confidence, w.Causes[0].Text, w.Causes[0].Fix)
	}
	for _, p := range r.Truth {
		fmt.Fprintf(&b, "  truth: %s stopped at %s, routed to for %s ms\n", p.Name, p.Stopped.Earliest.Format("15:04:05.000"), truth.Millis(p.Lag()))
	}
	for _, w := range r.wrong {
		fmt.Fprintf(&b, "  WRONG: %s\n", w)
	}
	return b.String()
}

func summary(group []result) string {
	var real, said, width []float64
	var wrong, runs int
	for _, r := range group {
		for _, p := range r.Truth {
			real = append(real, middle(p.Lag()))
			width = append(width, (p.Lag().Max-p.Lag().Min).Seconds()*1000)
		}
		for _, n := range r.named {
			said = append(said, middle(n.Lag))
		}
		wrong += len(r.wrong)
		if len(r.wrong) > 0 {
			runs++
		}
	}
	return fmt.Sprintf("\nMiddles of the brackets, min / median / max: truth %s ms (its brackets are %s wide), named %s ms. Wrong statements: %d, in %d of %d runs.\n",
		drill.Spread(real, 0), drill.Spread(width, 0), drill.Spread(said, 0), wrong, runs, len(group))
}

func misses(results []result) string {
	var list strings.Builder
	for _, r := range results {
		for _, w := range r.wrong {
			fmt.Fprintf(&list, "- %s, %s, run %d: %s\n", r.Mode, r.Load, r.Number, w)
		}
	}
	return cmp.Or(list.String(), "Nothing.\n")
}

func middle(l drill.Length) float64 { return (l.Min + l.Max).Seconds() * 1000 / 2 }
