package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// document is the table of all runs.
func document(runs []run) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Each node's routes, held against the truth

%s brings a Service of two Pods, deletes its Pods one after the other, and says from which Pods answered when each node's routes had followed. The truth is taken beside it: each node's netfilter
rules are looked at every 2 ms.

- **removal**: a Pod's endpoint has left. **addition**: a new one is ready.
- **truth**: of removals, from when the deletion was asked for until the node's rules no longer had the Pod: min / median / max, in milliseconds.
- **said**: the middles of Lapse's brackets, counted alike. **bracket**: how wide these are.
- **wrong**: brackets that miss the truth; Lapse promises fewer than 1 in 100. **not seen**: changes after which too few requests followed.

%s
`, "`lapse routes`", programmingText)
	for _, r := range runs {
		fmt.Fprintf(&b, "## kube-proxy in %s mode\n\n%s on %s. Load as it began: %s. %d of %d requests failed.\n\n    %s\n\n", r.mode, r.machine, r.began.Format("2006-01-02 15:04 UTC"), r.load, r.failed, r.sent, r.command)
		b.WriteString("| node | change | compared | truth (ms) | said (ms) | bracket (ms) | wrong | not seen |\n|---|---|---|---|---|---|---|---|\n")
		wrong, all := 0, 0
		for _, change := range []string{"removal", "addition"} {
			for _, node := range r.nodes() {
				row := r.row(node, change)
				wrong, all = wrong+row.wrong, all+row.n
				fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %d | %d |\n", node, change, row.n, drill.Spread(row.truth, 0), drill.Spread(row.said, 0), drill.Spread(row.width, 0), row.wrong, row.open)
			}
		}
		b.WriteString(r.programmed.table())
		fmt.Fprintf(&b, "\n%d of %d brackets miss the truth. What it printed last:\n\n    %s\n\n", wrong, all, r.advice)
	}
	b.WriteString("Made by `make routes`.\n")
	return b.String()
}

func (r run) nodes() (nodes []string) {
	for _, c := range r.compared {
		nodes = append(nodes, c.node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

type row struct {
	n, wrong, open     int
	truth, said, width []float64
}

func (r run) row(node, change string) (row row) {
	for _, c := range r.compared {
		if c.node != node || c.change != change {
			continue
		}
		if row.n++; c.open {
			row.open++
			continue
		}
		if !c.right() {
			row.wrong++
		}
		row.width = append(row.width, ms(c.said.Latest.Sub(c.said.Earliest)))
		if !c.asked.IsZero() {
			row.truth = append(row.truth, ms(middle(c.was.Earliest, c.was.Latest).Sub(c.asked)))
			row.said = append(row.said, ms(middle(c.said.Earliest, c.said.Latest).Sub(c.asked)))
		}
	}
	return row
}

func middle(a, b time.Time) time.Time { return a.Add(b.Sub(a) / 2) }

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
