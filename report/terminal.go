package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lapse/correlate"
)

// Table renders the final summary for a terminal: the verdict, and below it what it rests on.
func Table(w io.Writer, tl *correlate.Timeline, opts Options) error {
	p := newPage(opts)
	for _, section := range []func(*page, *correlate.Timeline){
		verdict, gates, windows, unobserved, strips, latency, hammer, validity, files,
	} {
		section(p, tl)
	}
	_, err := p.WriteTo(w)
	return err
}

// verdict writes the result, how bad it was, whether the measurement can be trusted, and what was
// measured.
func verdict(p *page, tl *correlate.Timeline) {
	badge, colour := badgeOf(tl)
	lead := []span{{" ", normal}, p.span(badge, colour), {"  ", normal}}
	headline, trust := p.say(headline(tl)), p.say(trust(tl))
	gap := p.Width - width(lead) - columns(headline) - columns(trust)
	if gap >= 3 {
		p.line(append(lead, span{headline, bold}, span{strings.Repeat(" ", gap), normal}, span{trust, normal})...)
	} else {
		p.paragraph(lead, headline, bold)
		p.paragraph([]span{{strings.Repeat(" ", width(lead)), normal}}, trust, normal)
	}
	indent := []span{{strings.Repeat(" ", width(lead)), normal}}
	if why := caveat(tl); why != "" {
		p.paragraph(indent, why, yellow)
	}
	p.paragraph(indent, measured(tl), dim)
}

// caveat says why the run proves less than it was to prove; all else that makes a verdict, the
// other sections show.
func caveat(tl *correlate.Timeline) string {
	switch {
	case tl.Run.Truncated:
		return tl.Run.Recorded(FormatDuration) + "; " + tl.Run.Aborted
	case tl.Run.Aborted != "":
		return "aborted after " + FormatDuration(tl.Run.Duration) + ": " + tl.Run.Aborted
	case tl.Verdict.Result == correlate.Inconclusive && len(tl.Verdict.Reasons) > 0 && !tl.Run.Live:
		return tl.Verdict.Reasons[0] // the most important comes first
	}
	return ""
}

func badgeOf(tl *correlate.Timeline) (string, style) {
	switch {
	case tl.Run.Live:
		return "LIVE", cyan
	case tl.Verdict.Result == correlate.Pass:
		return "PASS", green
	case tl.Verdict.Result == correlate.Fail:
		return "FAIL", redBold
	case tl.Verdict.Result == correlate.Inconclusive:
		return "INCONCLUSIVE", yellow
	default:
		return "UNGATED", bold
	}
}

// headline says how bad it was. That nothing failed is said together with what could have been missed.
func headline(tl *correlate.Timeline) string {
	v := &tl.Verdict
	var text string
	switch {
	case v.Sent == 0:
		return "nothing was measured"
	case v.Failed == 0:
		text = fmt.Sprintf("no failure seen in %s; an outage of all requests shorter than %s may have gone unseen",
			plural(v.Sent, "request"), atMost(v.DetectionLimit))
	case affected(tl) > 1:
		text = fmt.Sprintf("%s failed at %s; the worst was down %s", plural(v.Failed, "request"), plural(affected(tl), "target"), downtime(tl))
	default:
		text = fmt.Sprintf("%s failed: downtime %s", plural(v.Failed, "request"), downtime(tl))
	}
	if slow := count(tl.Windows, func(w correlate.Window) bool { return w.Kind == correlate.Slow }); slow > 0 {
		text += fmt.Sprintf("; answers slower than %s in %s", FormatDuration(tl.Run.Slow), plural(slow, "window"))
	}
	return text
}

func downtime(tl *correlate.Timeline) string {
	return FormatLength(tl.Verdict.Downtime.Total, anyOpen(tl)) + " in " + plural(tl.Verdict.Windows, "window")
}

// anyOpen reports whether the end or the start of any downtime was not seen, so that its length has
// no upper bound.
func anyOpen(tl *correlate.Timeline) bool {
	return slices.ContainsFunc(tl.Windows, func(w correlate.Window) bool { return w.Kind != correlate.Slow && isOpen(w) })
}

func isOpen(w correlate.Window) bool { return w.Open.Start || w.Open.End }

// affected is the number of targets with downtime.
func affected(tl *correlate.Timeline) int {
	targets := map[string]bool{}
	for _, w := range tl.Windows {
		if w.Kind != correlate.Slow {
			targets[w.Target] = true
		}
	}
	return len(targets)
}

func count[T any](list []T, is func(T) bool) int {
	n := 0
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

// trust says whether the measurement itself was sound, and the exit code.
func trust(tl *correlate.Timeline) string {
	if tl.Run.Live {
		return "so far; the run goes on"
	}
	text := fmt.Sprintf("measurement: %s · exit %d", soundness(&tl.Verdict), tl.Verdict.ExitCode)
	switch tl.Verdict.ExitCode {
	case correlate.ExitUnsaved:
		text += ", not all of it is on disk"
	case correlate.ExitCommand:
		text += ", the command failed"
	case correlate.ExitAborted:
		text += ", aborted"
	}
	return text
}

// soundness says in a word whether the instrument did its work; the VALID line has the figures.
func soundness(v *correlate.Verdict) string {
	switch {
	case v.Sent == 0:
		return "none"
	case v.Validity.Control != "ok" && v.Validity.Control != "absent" && v.Validity.Control != "":
		return "doubtful"
	case v.Coverage < correlate.MinCoverage:
		return "incomplete"
	default:
		return "valid"
	}
}

// measured says what was measured, when, for how long and how hard.
func measured(tl *correlate.Timeline) string {
	parts := []string{subject(tl.Run)}
	if judged := judged(tl); len(judged) > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s/s asked", plural(len(judged), "target"), trimFloat(sum(judged, func(t correlate.Target) float64 { return t.Rate }))))
	}
	parts = append(parts, tl.T0.UTC().Format("2006-01-02 15:04:05")+" UTC", FormatDuration(tl.Run.Duration))
	if c := tl.Run.Command; c != nil {
		parts = append(parts, strings.Join(c.Args, " ")+commandEnd(c, tl.Run.Live))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

func subject(run correlate.RunInfo) string {
	var names []string
	for _, s := range run.Services {
		names = append(names, "svc "+s.Namespace+"/"+s.Name)
	}
	return strings.Join(append(names, run.URLs...), ", ")
}

func commandEnd(c *correlate.Command, live bool) string {
	switch {
	case live:
		return ""
	case c.Start == nil:
		return " (never started)"
	case c.ExitCode != nil && *c.ExitCode != 0:
		return fmt.Sprintf(" (exit code %d)", *c.ExitCode)
	case c.End == nil:
		return " (did not end)"
	}
	return ""
}

// judged are the targets that count.
func judged(tl *correlate.Timeline) []correlate.Target {
	return slices.DeleteFunc(slices.Clone(tl.Targets), func(t correlate.Target) bool { return !t.Kind.Judged() })
}

func sum[T any, N ~int | ~int64 | ~float64](list []T, value func(T) N) N {
	var total N
	for _, v := range list {
		total += value(v)
	}
	return total
}

// trimFloat renders a rate without needless decimals.
func trimFloat(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

// gates writes each gate with what the error bars say about it.
func gates(p *page, tl *correlate.Timeline) {
	if len(tl.Verdict.Gates) == 0 {
		return
	}
	p.WriteByte('\n')
	p.heading("GATES", "the run fails if")
	var rows [][]span
	for _, g := range tl.Verdict.Gates {
		mark, colour, remark := gateMark(g.Outcome)
		rows = append(rows, []span{p.span(mark, colour), p.span(g.Expr, normal), p.span(gateValue(g), normal), p.span(remark, dim)})
	}
	for _, row := range align(rows) {
		p.line(slices.Insert(row, 0, span{"   ", normal})...)
	}
}

func gateMark(outcome correlate.GateOutcome) (mark string, colour style, remark string) {
	switch outcome {
	case correlate.GatePass:
		return "✓", green, "pass"
	case correlate.GateFail:
		return "✗", redBold, "fail"
	default:
		return "?", yellow, "undecided"
	}
}

// gateValue renders a gate's value in the unit of its metric.
func gateValue(g correlate.GateResult) string {
	if g.Value == nil {
		return "not measured"
	}
	format := func(x float64) string { return trimFloat(x) }
	switch gateUnit(g.Expr) {
	case "duration":
		return FormatLength(correlate.Length{Min: time.Duration(g.Value.Min), Max: time.Duration(g.Value.Max)}, g.Value.Open)
	case "ratio":
		format = FormatShare
	}
	if g.Value.Min == g.Value.Max {
		return format(g.Value.Min)
	}
	return format(g.Value.Min) + " to " + format(g.Value.Max)
}

func gateUnit(expr string) string {
	gate, err := correlate.ParseGate(expr)
	if err != nil {
		return "" // judged by another version of Lapse: its bare figures still tell something
	}
	i := slices.IndexFunc(correlate.GateMetrics, func(m correlate.GateMetric) bool { return m.Name == gate.Metric })
	return correlate.GateMetrics[i].Unit
}

// latency writes how long answers took, counted from when their requests were due.
func latency(p *page, tl *correlate.Timeline) {
	names := targetNames(p, tl)
	rows := [][]span{header("", "P50", "P90", "P99", "P99.9", "MAX")}
	for _, t := range judged(tl) {
		if t.Latency == nil {
			rows = append(rows, []span{{names[t.Name], normal}, p.span("no answer", yellow)})
			continue
		}
		row := []span{{names[t.Name], normal}}
		for _, d := range []time.Duration{t.Latency.P50, t.Latency.P90, t.Latency.P99, t.Latency.P999, t.Latency.Max} {
			row = append(row, p.span(FormatDuration(d), normal))
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return
	}
	p.WriteByte('\n')
	p.heading("LATENCY", "of answered requests, from when they were due")
	for _, row := range align(rows, 1, 2, 3, 4, 5) {
		p.line(slices.Insert(row, 0, span{"   ", normal})...)
	}
}

// validity writes how good the measurement itself was.
func validity(p *page, tl *correlate.Timeline) {
	p.WriteByte('\n')
	parts := validityParts(tl, targetNames(p, tl))
	p.paragraph([]span{{" ", normal}, p.span("VALID", bold), {"  ", normal}}, strings.Join(parts, " · "), normal)
}

// validityParts are the figures that tell how good the measurement was.
func validityParts(tl *correlate.Timeline, names map[string]string) []string {
	v := tl.Verdict.Validity
	parts := []string{
		"late " + FormatShare(v.Late),
		fmt.Sprintf("watch gaps %d", v.WatchGaps),
		"control " + cmp.Or(v.Control, "absent"),
		"coverage " + FormatCoverage(tl.Verdict.Coverage),
	}
	if v.NotSent > 0 {
		parts = append(parts, fmt.Sprintf("not sent %d", v.NotSent))
	}
	if v.Stalls > 0 {
		parts = append(parts, fmt.Sprintf("prober stalls %d", v.Stalls))
	}
	if len(v.LanesOff) > 0 {
		parts = append(parts, "not watched: "+strings.Join(v.LanesOff, ", "))
	}
	if tl.Run.Unsaved != "" {
		parts = append(parts, "not all on disk: "+tl.Run.Unsaved)
	}
	for _, t := range judged(tl) {
		if t.AchievedRate < 0.98*t.Rate {
			parts = append(parts, fmt.Sprintf("%s sent only %s/s of %s/s", names[t.Name], trimFloat(t.AchievedRate), trimFloat(t.Rate)))
		}
		if 10*t.NewConnections > t.OK {
			parts = append(parts, fmt.Sprintf("%s: %d of %s came over a new connection", names[t.Name], t.NewConnections, plural(t.OK, "good answer")))
		}
		for _, failed := range t.FailedAddresses {
			parts = append(parts, names[t.Name]+": "+passedOver(tl, failed))
		}
	}
	return parts
}

// passedOver tells of an address that failed before another one answered.
func passedOver(tl *correlate.Timeline, failed correlate.FailedAddress) string {
	least := ""
	if tl.Run.Live || tl.Run.Aborted != "" {
		least = "at least "
	}
	return fmt.Sprintf("%s failed (%s) before another address answered, for %s%s", failed.Addr, failed.Class, least, plural(failed.Connections, "connection"))
}

// files says where the run is kept.
func files(p *page, _ *correlate.Timeline) {
	if p.RunDir == "" {
		return
	}
	// Not cut off: it is there to be copied.
	fmt.Fprintf(p, " %s  %s   (as a page: lapse serve %s)\n", p.say("FILES"), p.say(p.RunDir), p.say(p.RunDir))
}
