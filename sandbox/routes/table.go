package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const head = `# Each node's routes, held against the truth

` + "`lapse routes`" + ` creates a Service and deletes its Pods, alone and several at once. From which Pods answered,
it says when each node's routes had followed. The truth is taken at the same time: each node's netfilter rules are read
every 2 ms.

- **removal**: a Pod's endpoint has left. **addition**: a new one is ready.
- **truth**: of removals, from the request to delete the Pod until the node's rules no longer had the Pod: min /
  median / max, in milliseconds.
- **said**: the middles of Lapse's brackets, from the same beginning. **bracket**: how wide the brackets are.
- **wrong**: brackets that do not contain the truth; Lapse promises fewer than 1 in 100. **not seen**: changes after
  which too few requests were sent.

`

// document returns the tables: docs/measured/routes.md sums them up.
func document(runs []run) string {
	var b strings.Builder
	b.WriteString(head + programmingText + "\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "## kube-proxy in %s mode\n\n%s on %s. Load as it began: %s. %d of %d requests failed.\n\n"+
			"    %s\n\n",
			r.Mode, r.Machine, r.Began.Format("2006-01-02 15:04 UTC"), r.load, r.failed, r.sent, r.Command)
		b.WriteString(drill.Table(columns, r.rows()))
		b.WriteString(r.programmed.table())
		wrong, all := r.wrong()
		fmt.Fprintf(&b, "\n%d of %d brackets miss the truth. What it printed last:\n\n    %s\n\n",
			wrong, all, r.advice)
	}
	b.WriteString("Made by `make routes`.\n")
	return b.String()
}

// A row says how one node followed changes of one kind. Lengths are in milliseconds.
type row struct {
	node, change       string
	n, wrong, open     int
	truth, said, width []float64
}

var columns = []drill.Column[row]{
	{Head: "node", Cell: func(r row) string { return r.node }},
	{Head: "change", Cell: func(r row) string { return r.change }},
	{Head: "compared", Cell: func(r row) string { return strconv.Itoa(r.n) }},
	{Head: "truth (ms)", Cell: func(r row) string { return drill.Spread(r.truth, 0) }},
	{Head: "said (ms)", Cell: func(r row) string { return drill.Spread(r.said, 0) }},
	{Head: "bracket (ms)", Cell: func(r row) string { return drill.Spread(r.width, 0) }},
	{Head: "wrong", Cell: func(r row) string { return strconv.Itoa(r.wrong) }},
	{Head: "not seen", Cell: func(r row) string { return strconv.Itoa(r.open) }},
}

// rows returns one for each kind of change and each node.
func (r run) rows() (rows []row) {
	for _, change := range []string{"removal", "addition"} {
		for _, node := range r.nodes() {
			rows = append(rows, r.row(node, change))
		}
	}
	return rows
}

func (r run) nodes() (nodes []string) {
	for _, c := range r.compared {
		nodes = append(nodes, c.node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (r run) row(node, change string) row {
	row := row{node: node, change: change}
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
		row.width = append(row.width, drill.Millis(c.said.Latest.Sub(c.said.Earliest)))
		if !c.asked.IsZero() {
			row.truth = append(row.truth, drill.Millis(middle(c.was.Earliest, c.was.Latest).Sub(c.asked)))
			row.said = append(row.said, drill.Millis(middle(c.said.Earliest, c.said.Latest).Sub(c.asked)))
		}
	}
	return row
}

func middle(a, b time.Time) time.Time { return a.Add(b.Sub(a) / 2) }
