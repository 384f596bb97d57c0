package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const head = `# Keep serving: the curve, held against drains

From one run with failures, KEEP SERVING says how many requests would still have failed had each Pod served longer
after SIGTERM ([how](../docs/explanation/error-bars.md#keep-serving)). Here the Pods do serve longer, and the failed
requests are counted.

` + "```\n%s\n```" + `

%d drains, all of them listed, on %s to %s. %s. Made by ` + "`make sweep`" + `.

- Two replicas run on two of three nodes. One of these nodes is drained, and Lapse measures from all three. Each drain
  has a new workload; the lengths take turns.
- The servers answer for 0 to 3 s after SIGTERM and then stop, as with a preStop sleep. (They do it themselves:
  Kubernetes' sleep takes whole seconds.)
- kube-proxy of every node is stopped from before the drain until %v after the Pod's deletion, so that routes outlive a
  Pod for about as long in every drain. No curve knows how much that length differs from drain to drain. With
  kube-proxy running, this difference would be most of what the table shows.
- **failed**: requests of all targets. **coverage**: of the judged targets. **+ 0.5 s** and so on: how many requests
  would still have failed had the Pod served that much longer, by the drain's own curve. A dash: no request failed, or
  there is no curve. **load**: the load average over a minute when the drain began.

`

// document returns the tables: docs/measured/keep-serving.md sums them up.
func document(drains []drain) string {
	var b strings.Builder
	first, last := drains[0], drains[len(drains)-1]
	fmt.Fprintf(&b, head, first.Command, len(drains), first.Began.Format("2006-01-02 15:04"),
		last.Began.Format("15:04 UTC"), first.Machine, seconds(stale))
	for _, group := range byMode(drains) {
		fmt.Fprintf(&b, "## kube-proxy in %s mode\n\n", group[0].Mode)
		b.WriteString(drill.Table(columns(), group))
		b.WriteString(held(predictions(group)))
	}
	return b.String()
}

func columns() []drill.Column[drain] {
	all := []drill.Column[drain]{
		{Head: "serves on", Cell: func(d drain) string { return seconds(d.ServesOn) }},
		{Head: "drain", Cell: func(d drain) string { return strconv.Itoa(d.Number) }},
		{Head: "load", Cell: func(d drain) string { return d.Load }},
		{Head: "coverage (%)", Cell: func(d drain) string {
			return fmt.Sprintf("%.2f", 100*d.timeline.Verdict.Coverage)
		}},
		{Head: "failed", Cell: func(d drain) string { return strconv.Itoa(d.failed()) }},
	}
	for _, longer := range servesOn[1:] {
		all = append(all, drill.Column[drain]{Head: "+ " + seconds(longer), Cell: func(d drain) string {
			if d.timeline.KeepServing == nil {
				return "–"
			}
			return d.left(longer).String()
		}})
	}
	return all
}

const expected = `
Predictions: the curves of drains whose servers serve on for one length say how many requests fail in drains with a
longer one. Both are summed over the drains, because drains differ. **Inside the bars**: the curves allow the sum that
failed. If they do not, a permutation test asks whether the two groups of drains differ more than chance explains:
**chance** is how often a random assignment of the drains to two groups gives at least this difference, on that side.
A prediction does not hold if its chance is 1 in %d or less. If all predictions are true, that happens in fewer than 1
of %.0f tables like this one.

`

// held returns the table of predictions and what became of them.
func held(all []prediction) string {
	var b strings.Builder
	fmt.Fprintf(&b, expected, int(1/level), 1/(2*level*float64(max(1, len(all)))))
	b.WriteString(drill.Table(predictionColumns, all))
	outcomes, telling := map[string]int{}, 0
	for _, p := range all {
		said, was := p.sums()
		outcomes[p.outcome()]++
		if said.max > 0 || was > 0 {
			telling++
		}
	}
	fmt.Fprintf(&b, "\nOf %d predictions %d are inside the bars, %d outside them but within the scatter, "+
		"%d do not hold",
		len(all), outcomes[inside], outcomes[scattered], outcomes[contradict])
	if n := outcomes[tooFew]; n > 0 {
		fmt.Fprintf(&b, ", and of %d too few drains tell", n)
	}
	fmt.Fprintf(&b, ". In %d of them a request was said to fail, or did.\n\n", telling)
	return b.String()
}

var predictionColumns = []drill.Column[prediction]{
	{Head: "curves of", Cell: func(p prediction) string { return seconds(p.from) }},
	{Head: "say of", Cell: func(p prediction) string { return seconds(p.to) }},
	{Head: "of each drain", Cell: func(p prediction) string { return list(p.said) }},
	{Head: "in sum", Cell: func(p prediction) string { said, _ := p.sums(); return said.String() }},
	{Head: "failed", Cell: func(p prediction) string { return list(p.was) }},
	{Head: "in sum", Cell: func(p prediction) string { return strconv.Itoa(sum(p.was)) }},
	{Head: "", Cell: prediction.outcome},
	{Head: "chance", Cell: prediction.chanceCell},
}

// chanceCell returns the smaller chance of the two sides, of a prediction that is outside the bars.
func (p prediction) chanceCell() string {
	if p.outcome() == inside {
		return "–"
	}
	more, less := p.chances()
	return strconv.FormatFloat(min(more, less), 'f', 4, 64)
}

func list[T any](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

// seconds writes a length as in "0.5 s".
func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
