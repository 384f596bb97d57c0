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

const head = `# Rolling restarts, held against the truth

Three replicas run on three nodes; their servers exit at SIGTERM. They are restarted by a rollout while Lapse measures
from one of the nodes:

` + "```\n%s\n```" + `

%d runs, all of them listed, on %s to %s. %s. Made by ` + "`make rollouts`" + `.

The truth is taken at the same time, without Lapse, on the same machine's clock: each server prints between which two
instants it closed its listening socket, and the netfilter rules of the prober's node are read every 2 ms. A Pod's
**lag** is how long the node routed to it after it had stopped. It is a bracket, in milliseconds, and negative if the
routes ended first.

- **truth**: the lags of the three Pods, in the order in which they stopped.
- **new**, **reused**: the lags that Lapse names for the same Pods, in the causes of that target's windows. A dash is
  a Pod that Lapse does not name: no request met its stale route, or too few did.
- **coverage**: of new and reused connections. **load**: the machine's load average over a minute when the run began;
  above about 1, other programs were at work.
- A statement is **wrong** if the truth contradicts it: a lag whose bracket lies wholly above or below the true one; a
  Pod that is named with two lags, or twice by one cause, or that did not end; a Pod that is not named although new
  connections must have met its stale route; more than one fix.
`

// document returns the tables: docs/measured/rollouts.md sums them up.
func document(results []result) string {
	var doc strings.Builder
	first, last := results[0], results[len(results)-1]
	fmt.Fprintf(&doc, head, first.Command, len(results), first.Began.Format("2006-01-02 15:04"),
		last.Began.Format("15:04 UTC"), first.Machine)
	for _, group := range drill.Group(results, func(r result) string { return r.Mode + " " + r.Load }) {
		fmt.Fprintf(&doc, "\n## kube-proxy in %s mode, %s\n\n", group[0].Mode, loads[group[0].Load])
		doc.WriteString(drill.Table(columns, group))
		doc.WriteString(summary(group))
	}
	fmt.Fprintf(&doc, "\n## What the truth contradicts\n\n%s", misses(results))
	return doc.String()
}

var loads = map[string]string{quiet: "nothing else at work", busy: "one busy process"}

const (
	webNew    = "web new"
	webReused = "web reused"
)

var columns = []drill.Column[result]{
	{Head: "run", Cell: func(r result) string { return strconv.Itoa(r.Number) }},
	{Head: "exit", Cell: func(r result) string { return strconv.Itoa(r.run.ExitCode) }},
	{Head: "coverage (%)", Cell: func(r result) string {
		return fmt.Sprintf("%.1f, %.1f", 100*r.target(webNew).Coverage, 100*r.target(webReused).Coverage)
	}},
	{Head: "load", Cell: func(r result) string { return r.LoadAvg }},
	{Head: "failed new, reused", Cell: func(r result) string {
		return fmt.Sprintf("%d, %d", r.target(webNew).Failed, r.target(webReused).Failed)
	}},
	{Head: "truth (ms)", Cell: result.lags},
	{Head: "new (ms)", Cell: func(r result) string { return r.lagsOf(webNew) }},
	{Head: "reused (ms)", Cell: func(r result) string { return r.lagsOf(webReused) }},
	{Head: "fixes", Cell: func(r result) string { return strconv.Itoa(len(r.fixes)) }},
	{Head: "wrong", Cell: func(r result) string { return cmp.Or(counted(len(r.wrong)), "–") }},
}

// target returns the totals of a target, none if it was not measured.
func (r result) target(name string) drill.Target {
	target, _ := r.run.Timeline.Target(name)
	return target
}

// lags lists the truth of each Pod.
func (r result) lags() string {
	var lags []string
	for _, p := range r.Truth {
		lags = append(lags, truth.Millis(p.Lag()))
	}
	return strings.Join(lags, "<br>")
}

func counted(n int) string {
	if n == 0 {
		return ""
	}
	return "**" + strconv.Itoa(n) + "**"
}

// lagsOf lists what is named for a target, Pod by Pod in the order of the truth.
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
	fmt.Fprintf(&b, "\n%s %s, run %d (%s): exit code %d, truth %s ms\n",
		r.Mode, r.Load, r.Number, r.run.Dir, r.run.ExitCode, r.lags())
	for _, w := range r.run.Timeline.Windows {
		cause := w.Causes[0]
		fmt.Fprintf(&b, "  window %d of %s, %d of %d failed: %s [%s] %s\n    fix: %s\n",
			w.ID, w.Target, w.Failed, w.Sent, cause.Rule, cause.Confidence, cause.Text, cause.Fix)
	}
	for _, p := range r.Truth {
		fmt.Fprintf(&b, "  truth: %s stopped at %s, routed to for %s ms\n",
			p.Name, p.Stopped.Earliest.Format("15:04:05.000"), truth.Millis(p.Lag()))
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
			real = append(real, drill.Millis(p.Lag().Middle()))
			width = append(width, drill.Millis(p.Lag().Max-p.Lag().Min))
		}
		for _, n := range r.named {
			said = append(said, drill.Millis(n.Lag.Middle()))
		}
		wrong += len(r.wrong)
		if len(r.wrong) > 0 {
			runs++
		}
	}
	return fmt.Sprintf("\nMiddles of the brackets, min / median / max: truth %s ms (its brackets are %s wide), "+
		"named %s ms."+
		" Wrong statements: %d, in %d of %d runs.\n",
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
