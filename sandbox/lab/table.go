package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lapse/sandbox/drill"
)

// byHand is the line of docs/measured/causes.md under which nothing is generated.
const byHand = "<!-- make lab writes all above, and keeps what follows. -->\n"

// publish writes the track record, and keeps what was written by hand.
func publish(s settings, results []result, left leftOut) error {
	file := filepath.Join(s.Out, table)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, kept, _ := strings.Cut(string(old), byHand)
	hasPage := func(cause string) bool {
		_, err := os.Stat(filepath.Join(s.Out, pages, cause+".md"))
		return err == nil
	}
	return s.Publish(table, document(results, left, hasPage)+"\n"+byHand+kept)
}

const (
	// pages is the folder of the causes' pages, from that of the table.
	pages = "../causes"

	head = `# Track record of causes

Each scenario of the [lab](../../sandbox/lab/scenarios) provokes one cause on a real cluster of three nodes, while this
runs:

` + "```\n%s\n```" + `

%d runs, %s to %s. All of them count. %s, load average %s (minimum / median / maximum).%s
%s

- **2 of 2**: in two of two runs the cause that was provoked is the first that Lapse names.
- **named X**: the scenario also allows the cause X, and Lapse named that.
- **no failure**: nothing was to be lost. Right means that no request failed.
- Repeat a row with ` + "`make lab LAB=\"SCENARIO…\"`, the whole table with `make lab REPEAT=2`" + `.

`
)

// document returns docs/measured/causes.md down to what is written by hand. hasPage reports whether a cause has a page
// in docs/causes.
func document(results []result, left leftOut, hasPage func(cause string) bool) string {
	var doc strings.Builder
	began := func(a, b result) int { return a.Began.Compare(b.Began) }
	first, last := slices.MinFunc(results, began), slices.MaxFunc(results, began)
	const instant = "2006-01-02 15:04"
	fmt.Fprintf(&doc, head, command(first.record), len(results), first.Began.Format(instant),
		last.Began.Format(instant+" UTC"),
		first.Machine, loads(results), sideBySideOf(results), versions(results, left))
	doc.WriteString(drill.Table(columns(results, hasPage), trackRecords(results)))
	fmt.Fprint(&doc, "\n", summary(results), "\n", scores(results),
		"\n## What was not as expected\n\n", failures(results))
	return doc.String()
}

// versions says which Lapse recorded and which judged, and how many saved runs the table does not have.
func versions(results []result, left leftOut) string {
	recorded, judged, voids := tally{}, tally{}, 0
	for _, r := range results {
		voids += r.voids
		recorded.add(cmp.Or(r.recorder, "unknown"))
		judged.add(cmp.Or(r.run.Timeline.Tool.Version, "unknown"))
	}
	text := fmt.Sprintf("Recorded by Lapse %s; judged by %s.", recorded, judged)
	if voids > 0 {
		text += fmt.Sprintf(" %d more runs are void: they were not as expected, on a machine that stood still.", voids)
	}
	if left.outdated > 0 {
		text += fmt.Sprintf(" %d saved runs were left out: their scenario does something else now.", left.outdated)
	}
	if left.unjudged > 0 {
		text += fmt.Sprintf(" %d saved runs were not judged.", left.unjudged)
	}
	return text
}

// sideBySideOf returns how many runs were played at the same time as others, "" if none.
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
	return fmt.Sprintf(" %d runs were played up to %d at a time.", n, most)
}

var otherNamespace = regexp.MustCompile(` -n ` + firstNamespace + `-[0-9]+$`)

// command returns Lapse's, without the folder of one run and the flags of one scenario, in the first of the lab's
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

// A trackRecord is how often one cause was named when it was provoked.
type trackRecord struct {
	cause     string
	modes     map[string]score // by kube-proxy's mode
	scenarios map[string]tally // what else they were rightly named, by scenario
}

// A score is how many incidents were right, of all.
type score struct{ right, all int }

func (s score) String() string {
	if s.all == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", s.right, s.all)
}

// trackRecords returns one for each cause, by name; that nothing fails comes last.
func trackRecords(results []result) []trackRecord {
	of := map[string]trackRecord{}
	for _, r := range results {
		for _, n := range r.names {
			if _, known := of[n.want]; !known {
				of[n.want] = trackRecord{n.want, map[string]score{}, map[string]tally{}}
			}
			of[n.want].count(r, n)
		}
	}
	causes := slices.Sorted(maps.Keys(of))
	if i, found := slices.BinarySearch(causes, noFailure); found {
		causes = append(slices.Delete(causes, i, i+1), noFailure)
	}
	var all []trackRecord
	for _, cause := range causes {
		all = append(all, of[cause])
	}
	return all
}

func (t trackRecord) count(r result, n named) {
	s := t.modes[r.Mode]
	s.all++
	also := t.scenarios[r.scenario.Name]
	if n.outcome == right || n.outcome == silent {
		s.right++
		if n.said != "" && n.said != n.want {
			also.add(n.said)
		}
	}
	t.modes[r.Mode], t.scenarios[r.scenario.Name] = s, also
}

// columns returns those of the table: one for each mode of kube-proxy.
func columns(results []result, hasPage func(cause string) bool) []drill.Column[trackRecord] {
	all := []drill.Column[trackRecord]{{Head: "cause", Cell: func(t trackRecord) string {
		if hasPage(t.cause) {
			return fmt.Sprintf("[%s](%s/%[1]s.md)", t.cause, pages)
		}
		return t.cause
	}}}
	var modes []string
	for _, r := range results {
		modes = append(modes, r.Mode)
	}
	slices.Sort(modes)
	for _, mode := range slices.Compact(modes) {
		all = append(all, drill.Column[trackRecord]{Head: mode, Cell: func(t trackRecord) string {
			return t.modes[mode].String()
		}})
	}
	return append(all, drill.Column[trackRecord]{Head: "scenarios", Cell: trackRecord.played})
}

// played lists the scenarios, each with what else it was rightly named.
func (t trackRecord) played() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.scenarios)) {
		if also := t.scenarios[name]; len(also) > 0 {
			name += " (named " + strings.Join(also.texts(), ", ") + ")"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
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

func (t tally) texts() (all []string) {
	for _, e := range t {
		all = append(all, e.text)
	}
	return all
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

// summary counts how incidents were named, and runs in which there was to be none.
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
	of := func(o outcome) int { return all.of(string(o)) }
	return fmt.Sprintf("Of %d incidents: %d right, %d not first, %d unexplained, %d wrong (%d of them with high "+
		"confidence), %d missed."+
		" Of %d runs that were to lose nothing: %d silent.\n", incidents, of(right), of(notFirst), of(unexplained),
		of(wrong), sure, of(missed), controls, of(silent))
}

// scores sums up what the runs say of preflight's predictions.
func scores(results []result) string {
	predicted, confirmed, refuted, notTested, missed := 0, 0, 0, 0, 0
	for _, r := range results {
		s := r.run.Timeline.Scorecard
		predicted, missed = predicted+s.Predicted, missed+s.Missed
		confirmed, refuted, notTested = confirmed+s.Confirmed, refuted+s.Refuted, notTested+s.NotTested
	}
	return fmt.Sprintf("Preflight predicted %d times something that a run can confirm: %d confirmed, %d refuted, "+
		"%d not tested. It missed %d incidents.\n", predicted, confirmed, refuted, notTested, missed)
}

// failures lists what was not as a scenario expects.
func failures(results []result) string {
	var list strings.Builder
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(&list, "- %s, %s, run %d: not played: %v\n", r.scenario.Name, r.Mode, r.Number, r.err)
		}
		for _, c := range r.checks {
			if !c.ok {
				fmt.Fprintf(&list, "- %s, %s, run %d: want %s; came %s\n",
					r.scenario.Name, r.Mode, r.Number, c.want, c.got)
			}
		}
	}
	return cmp.Or(list.String(), "Nothing.\n")
}
