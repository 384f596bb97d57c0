package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lapse/sandbox/drill"
)

// document is docs/measured/causes.md.
func document(results []result, leftOut int) string {
	var doc strings.Builder
	began := func(a, b result) int { return a.Began.Compare(b.Began) }
	first, last := slices.MinFunc(results, began), slices.MaxFunc(results, began)
	fmt.Fprintf(&doc, `# Causes, held against what was done

Each scenario of the [lab](../../sandbox/lab/scenarios) is played on a real cluster of three nodes while Lapse measures:

`+"```\n%s\n```"+`

%d runs, all of them counted, on %s to %s. %s, with a load average of %s (minimum / median / maximum).
%s%s Made by `+"`make lab`"+`.

The rules were written with these scenarios in view: the table says that they hold on a real cluster, not how they do where something
else happens.

- **right**: the cause that stands first for the incident is the one that was provoked. **not first**: it is named, after another one.
  **unexplained**: Lapse says that it does not know. **wrong**: another cause stands first. **missed**: no incident was found.
- **silent**: no failure where there was to be none. **invented**: failures where there were to be none.
- **as**: what was named, with its confidence. **all held**: also counts, brackets, texts and all else that the scenario expects.
- **predicted**: what `+"`lapse preflight -f`"+` says of the scenario's manifests, rule by rule, and in how many runs it came true: an incident has the cause, with
  medium confidence or more. Where it did not come true, what it is about may not have happened. A rule without a number predicts what a run has no cause for. The rules are
  in the [command line reference](../reference/cli.md#lapse-preflight).
- **coverage**: the share of the time that was observed, the worst run's.

`, command(first.record), len(results), first.Began.Format("2006-01-02 15:04"), last.Began.Format("2006-01-02 15:04 UTC"), first.Machine, loads(results), sideBySideOf(results), versions(results, leftOut))
	fmt.Fprintln(&doc, "| scenario | expected | kube-proxy | runs | outcome | as | all held | predicted | coverage (%) |")
	fmt.Fprintln(&doc, "|---|---|---|---|---|---|---|---|---|")
	for _, g := range groups(results) {
		fmt.Fprintln(&doc, row(g))
	}
	fmt.Fprint(&doc, "\n", summary(results), "\n", predictionSummary(results), "\n## What was not as expected\n\n", failures(results))
	return doc.String()
}

// versions says which Lapse recorded and which judged, and how many saved runs the table does not have.
func versions(results []result, leftOut int) string {
	recorded, judged, voids := tally{}, tally{}, 0
	for _, r := range results {
		voids += r.voids
		recorded.add(cmp.Or(r.recorder, "unknown"))
		judged.add(cmp.Or(r.run.Timeline.Tool.Version, "unknown"))
	}
	text := fmt.Sprintf("Recorded by Lapse %s; judged by %s.", recorded, judged)
	if voids > 0 {
		text += fmt.Sprintf(" %d runs more are void: they were not as expected, on a machine that stood still.", voids)
	}
	if leftOut > 0 {
		text += fmt.Sprintf(" %d saved runs were left out, for their scenario does something else now.", leftOut)
	}
	return text
}

// sideBySideOf says how many runs had another scenario beside them, "" if none had.
func sideBySideOf(results []result) string {
	n, most := 0, 0
	for _, r := range results {
		if r.Together > 1 {
			n, most = n+1, max(most, r.Together)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of them, whose scenarios touch only what is in their own namespace, were played up to %d at a time.\n", n, most)
}

var otherNamespace = regexp.MustCompile(` -n ` + firstNamespace + `-[0-9]+$`)

// command is Lapse's, without the folder of one run and the flags of one scenario, in the first of the lab's
// namespaces.
func command(r record) string {
	before, after, _ := strings.Cut(r.Command, " --out ")
	before = otherNamespace.ReplaceAllString(before, " -n "+firstNamespace)
	_, after, _ = strings.Cut(after, " ")
	flags, _, _ := strings.Cut(after, "failed>0")
	return before + " " + flags + "failed>0"
}

func loads(results []result) string {
	var all []float64
	for _, r := range results {
		if load, err := strconv.ParseFloat(r.LoadAvg, 64); err == nil {
			all = append(all, load)
		}
	}
	return drill.Spread(all, 1)
}

// groups are the runs of one scenario and mode each, by name.
func groups(results []result) (all [][]result) {
	for _, r := range results {
		i := slices.IndexFunc(all, func(g []result) bool { return g[0].scenario.Name == r.scenario.Name && g[0].Mode == r.Mode })
		if i < 0 {
			all = append(all, []result{r})
			continue
		}
		all[i] = append(all[i], r)
	}
	slices.SortStableFunc(all, func(a, b []result) int {
		return cmp.Or(cmp.Compare(a[0].scenario.Name, b[0].scenario.Name), cmp.Compare(a[0].Mode, b[0].Mode))
	})
	return all
}

func row(g []result) string {
	outcomes, said := tally{}, tally{}
	held, coverage := 0, 1.0
	var want []string
	for _, r := range g {
		if r.err != nil {
			outcomes.add("not played")
			continue
		}
		for _, n := range r.names {
			outcomes.add(string(n.outcome))
			if n.said != "" {
				said.add(n.said + " " + n.confidence)
			}
			if !slices.Contains(want, n.want) {
				want = append(want, n.want)
			}
		}
		if r.ok() {
			held++
		}
		coverage = min(coverage, r.run.Timeline.Verdict.Coverage)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %d | %s | %.1f |", g[0].scenario.Name, strings.Join(want, ", "), g[0].Mode, len(g), outcomes, cmp.Or(said.String(), "–"), held, predictions(g), 100*coverage)
}

// A tally counts texts, in the order in which they came.
type tally []struct {
	text string
	n    int
}

func (t *tally) add(text string) {
	for i := range *t {
		if (*t)[i].text == text {
			(*t)[i].n++
			return
		}
	}
	*t = append(*t, struct {
		text string
		n    int
	}{text, 1})
}

func (t tally) of(text string) int {
	for _, e := range t {
		if e.text == text {
			return e.n
		}
	}
	return 0
}

func (t tally) String() string {
	var parts []string
	for _, e := range t {
		if e.n == 1 {
			parts = append(parts, e.text)
		} else {
			parts = append(parts, fmt.Sprintf("%d × %s", e.n, e.text))
		}
	}
	return strings.Join(parts, ", ")
}

func summary(results []result) string {
	all := tally{}
	sure, incidents, controls := 0, 0, 0
	for _, r := range results {
		for _, n := range r.names {
			all.add(string(n.outcome))
			switch n.outcome {
			case silent, invented:
				controls++
			default:
				incidents++
			}
			if n.outcome == wrong && n.confidence == highConfidence {
				sure++
			}
		}
	}
	return fmt.Sprintf("Of %d incidents: %d right, %d not first, %d unexplained, %d wrong (%d of them with high confidence), %d missed. Of %d runs that were to lose nothing: %d silent.\n",
		incidents, all.of(string(right)), all.of(string(notFirst)), all.of(string(unexplained)), all.of(string(wrong)), sure, all.of(string(missed)), controls, all.of(string(silent)))
}

func failures(results []result) string {
	var list strings.Builder
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(&list, "- %s, %s, run %d: not played: %v\n", r.scenario.Name, r.Mode, r.Number, r.err)
		}
		for _, c := range r.checks {
			if !c.ok {
				fmt.Fprintf(&list, "- %s, %s, run %d: want %s; came %s\n", r.scenario.Name, r.Mode, r.Number, c.want, c.got)
			}
		}
	}
	return cmp.Or(list.String(), "Nothing.\n")
}
