package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// Table renders the final summary for a terminal: the verdict, and below it what it rests on.
func Table(w io.Writer, tl *model.Timeline, opts Options) error {
	p := newPage(opts)
	for _, section := range []func(*page, *model.Timeline){
		verdictLines, gates, windows, causes, unobserved, strips, latency, hammer, validity, files,
	} {
		section(p, tl)
	}
	_, err := p.WriteTo(w)
	return err
}

// verdictLines writes the result, what was found, whether the measurement can be trusted, and what was
// measured.
func verdictLines(p *page, tl *model.Timeline) {
	badge, colour := badgeOf(tl)
	lead := []span{{" ", normal}, p.span(badge, colour), {"  ", normal}}
	headline, trust := p.say(headline(tl)), p.say(trust(tl))
	gap := p.Width - width(lead) - columns(headline) - columns(trust)
	indent := []span{{strings.Repeat(" ", width(lead)), normal}}
	if gap >= 3 {
		p.line(append(lead, span{headline, bold}, span{strings.Repeat(" ", gap), normal}, span{trust, normal})...)
	} else {
		p.paragraph(lead, headline, bold)
		p.paragraph(indent, trust, normal)
	}
	for _, caveat := range caveats(tl) {
		p.paragraph(indent, caveat, yellow)
	}
	p.paragraph(indent, measured(tl), dim)
}

// judged are the targets that count.
func judged(tl *model.Timeline) []model.Target {
	return slices.DeleteFunc(slices.Clone(tl.Targets), func(t model.Target) bool { return !t.Kind.Judged() })
}

func sum[T any, N ~int | ~int64 | ~float64](list []T, value func(T) N) N {
	var total N
	for _, v := range list {
		total += value(v)
	}
	return total
}

// rateNumber renders a number of requests per second with at most one decimal, and small ones with two digits: 0.01 is not 0.
func rateNumber(x float64) string {
	if x < 1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
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

// gates writes each gate with what the error bars say about it.
func gates(p *page, tl *model.Timeline) {
	if len(tl.Verdict.Gates) == 0 {
		return
	}
	p.WriteByte('\n')
	p.heading("GATES", "the run fails if")
	var rows [][]span
	for _, g := range tl.Verdict.Gates {
		mark, colour, remark := gateMark(tl, g)
		rows = append(rows, []span{p.span(mark, colour), p.span(g.Expr, normal), p.span(gateValue(g), normal), p.span(remark, dim)})
	}
	for _, row := range align(rows) {
		p.line(slices.Insert(row, 0, span{"   ", normal})...)
	}
}

// gateValue renders a gate's value in the unit of its metric.
func gateValue(g model.GateResult) string {
	if g.Value == nil {
		return "not measured"
	}
	format := func(x float64) string { return rateNumber(x) }
	switch gateUnit(g.Expr) {
	case "duration":
		return FormatLength(model.Length{Min: time.Duration(g.Value.Min), Max: time.Duration(g.Value.Max)}, g.Value.Open)
	case "ratio":
		format = FormatShare
	}
	if g.Value.Min == g.Value.Max {
		return format(g.Value.Min)
	}
	return format(g.Value.Min) + " to " + format(g.Value.Max)
}

func gateUnit(expr string) string {
	gate, err := verdict.ParseGate(expr)
	if err != nil {
		return "" // judged by another version of Lapse: its bare figures still tell something
	}
	i := slices.IndexFunc(verdict.GateMetrics, func(m verdict.GateMetric) bool { return m.Name == gate.Metric })
	return verdict.GateMetrics[i].Unit
}

// latency writes how long answers took, counted from when their requests were due.
func latency(p *page, tl *model.Timeline) {
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
func validity(p *page, tl *model.Timeline) {
	p.WriteByte('\n')
	parts := validityParts(tl, targetNames(p, tl))
	p.paragraph([]span{{" ", normal}, p.span("VALID", bold), {"  ", normal}}, strings.Join(parts, " · "), normal)
}

// validityParts are the figures that tell how good the measurement was.
func validityParts(tl *model.Timeline, names map[string]string) []string {
	v := tl.Verdict.Validity
	parts := []string{
		"coverage " + FormatCoverage(tl.Verdict.Coverage),
		lateness(tl, names),
		"control " + cmp.Or(v.Control, "absent"),
		fmt.Sprintf("watch gaps %d", v.WatchGaps),
	}
	if len(v.LanesOff) > 0 {
		parts = append(parts, "not watched: "+strings.Join(v.LanesOff, ", "))
	}
	if v.NotProbed > 0 {
		parts = append(parts, plural(v.NotProbed, "Pod")+" not probed directly")
	}
	if tl.Run.Unsaved != "" {
		parts = append(parts, "not all on disk: "+tl.Run.Unsaved)
	}
	for _, t := range judged(tl) {
		if 10*t.NewConnections > t.OK {
			parts = append(parts, fmt.Sprintf("%s: %d of %s came over a new connection", names[t.Name], t.NewConnections, plural(t.OK, "good answer")))
		}
		parts = append(parts, passedOver(tl, t.FailedAddresses, names[t.Name])...)
	}
	return parts
}

// lateness says how far the prober fell behind: one thing, whether requests were late, were not sent or were spoiled by it.
func lateness(tl *model.Timeline, names map[string]string) string {
	v := tl.Verdict.Validity
	late := "late " + FormatShare(v.Late)
	if v.NotSent == 0 && v.Stalls == 0 {
		return late
	}
	parts := []string{"nothing unobserved"}
	if dark := stalled(tl); dark > 0 {
		parts[0] = FormatDuration(dark) + " unobserved"
	}
	if v.NotSent > 0 {
		parts = append(parts, plural(v.NotSent, "request")+" without evidence")
	}
	parts = append(parts, late)
	for _, t := range judged(tl) {
		if t.AchievedRate < 0.98*t.Rate {
			parts = append(parts, fmt.Sprintf("%s sent %s/s of %s/s", names[t.Name], rateNumber(t.AchievedRate), rateNumber(t.Rate)))
		}
	}
	return "prober stalled: " + strings.Join(parts, ", ")
}

// stalled is how long the prober kept the worst judged target from being observed.
func stalled(tl *model.Timeline) time.Duration {
	totals := map[string]time.Duration{}
	for _, u := range tl.Unobserved {
		if reasonText(u.Reason) == proberStalled {
			totals[u.Target] += u.End - u.Start
		}
	}
	return slices.Max(append(slices.Collect(maps.Values(totals)), 0))
}

// maxAddresses is how many of a target's addresses that failed alike are named.
const maxAddresses = 3

// passedOver tells of addresses that failed before another one answered, those that failed alike together.
func passedOver(tl *model.Timeline, addresses []model.FailedAddress, target string) []string {
	least := ""
	if tl.Run.Live || tl.Run.Aborted != "" {
		least = "at least "
	}
	var parts []string
	for len(addresses) > 0 {
		class := addresses[0].Class
		var alike, others []model.FailedAddress
		for _, a := range addresses {
			if a.Class == class {
				alike = append(alike, a)
			} else {
				others = append(others, a)
			}
		}
		addresses = others
		var names []string
		for _, a := range alike[:min(len(alike), maxAddresses)] {
			names = append(names, a.Addr)
		}
		if more := len(alike) - maxAddresses; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		parts = append(parts, fmt.Sprintf("%s: %s failed (%s) before another address answered, for %s%s", target, strings.Join(names, ", "), class, least,
			plural(sum(alike, func(a model.FailedAddress) int { return a.Connections }), "connection")))
	}
	return parts
}

// files says where the run is kept.
func files(p *page, _ *model.Timeline) {
	if p.RunDir == "" {
		return
	}
	// Not cut off: it is there to be copied.
	fmt.Fprintf(p, " %s  %s   (as a page: lapse serve %s)\n", p.say("FILES"), p.say(p.RunDir), p.say(p.RunDir))
}
