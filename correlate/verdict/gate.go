package verdict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lapse/correlate/model"
	"lapse/internal/hint"
)

// A Gate is a condition under which a run fails, as --fail-if states it: "failed > 0",
// "downtime.total > 500ms", "coverage < 99.9%". Make one with [ParseGate].
type Gate struct {
	Metric string  // one of [GateMetrics]
	Op     string  // ">", ">=", "<", "<="
	Limit  float64 // in the metric's unit: a count, nanoseconds, or a ratio from 0 to 1
	text   string  // the limit as it was written
}

// String returns the gate as [ParseGate] reads it.
func (g Gate) String() string { return g.Metric + " " + g.Op + " " + g.text }

// A GateMetric is something a gate can limit.
type GateMetric struct {
	Name string
	Unit model.Unit
	Doc  string
	From bool // only runs with --from measure it
	Held bool // only runs with held connections measure it, whether or not they send other requests
	Adds bool // it never falls while a run goes on

	Value func(*model.Timeline, *model.Verdict) (model.Range, bool) // false where nothing was measured
}

// GateMetrics lists what a gate can limit. Failed adds over the judged targets, the others are the
// worst target's.
var GateMetrics = []GateMetric{
	{Name: "failed", Unit: model.Count, Doc: "requests that failed", Adds: true,
		Value: func(_ *model.Timeline, v *model.Verdict) (model.Range, bool) {
			return exactly(float64(v.Failed)), true
		}},
	{Name: "errors.rate", Unit: model.Ratio, Doc: "failed ÷ sent",
		Value: func(_ *model.Timeline, v *model.Verdict) (model.Range, bool) {
			return exactly(v.ErrorRate), true
		}},
	{Name: "downtime.total", Unit: model.Duration, Doc: "request-weighted downtime of all windows", Adds: true,
		Value: totalDowntime},
	{Name: "window.longest", Unit: model.Duration, Doc: "the longest window", Value: longestWindow},
	{Name: "blackout.longest", Unit: model.Duration,
		Doc: "the longest stretch of three failures or more without one success", Value: longestBlackout},
	{Name: "windows", Unit: model.Count, Doc: "windows of kind outage or partial", Value: windowCount},
	{Name: "latency.p99", Unit: model.Duration,
		Doc: "99 % of answered requests took no longer, from when they were due", Value: latencyP99},
	{Name: "coverage", Unit: model.Ratio, Doc: "observed ÷ measured time",
		Value: func(_ *model.Timeline, v *model.Verdict) (model.Range, bool) {
			return exactly(v.Coverage), true
		}},
	{Name: "held.cut", Unit: model.Count, Doc: "held connections that were cut", Held: true, Adds: true,
		Value: heldCount(func(s heldSum) int {
			return s.cut
		})},
	{Name: "held.unwarned", Unit: model.Count,
		Doc: "held connections that were cut without an announcement by the server", Held: true, Adds: true,
		Value: heldCount(func(s heldSum) int {
			return s.unwarned
		})},
	{Name: "held.back.max", Unit: model.Duration, Doc: "the longest time from when the client noticed a cut until " +
		"the held connection was re-established", Held: true, Value: heldBack},
	{Name: "route.lag.max", Unit: model.Duration, Doc: "the longest time that a node kept routing to a Pod after its " +
		"endpoint was removed", From: true, Value: routeLag(1)},
	{Name: "route.lag.p99", Unit: model.Duration,
		Doc: "99 % of these lags, of all nodes and endpoints, were no longer", From: true, Value: routeLag(0.99)},
	{Name: "sources.coverage", Unit: model.Ratio, Doc: "observed ÷ measured time of the source that observed least, " +
		"where `coverage` counts what any of them observed", Value: sourcesCoverage},
}

func MetricNamed(name string) (GateMetric, bool) {
	for _, m := range GateMetrics {
		if m.Name == name {
			return m, true
		}
	}
	return GateMetric{}, false
}

// A gateError says where a gate's expression is wrong.
type gateError struct {
	Expr    string
	Column  int // of the first wrong character, from 1
	Problem string
}

func (e *gateError) Error() string {
	return fmt.Sprintf("gate %q: %s at column %d", e.Expr, e.Problem, e.Column)
}

// ParseGate reads a gate: a metric, an operator (> >= < <=) and a limit, with or without spaces. The
// expression states when the run fails. Limits are durations ("500ms", "1.5s"), whole counts, or
// ratios ("0.1%", "0.001"), as the metric demands. Its error says at which column, with a hint.
func ParseGate(expr string) (Gate, error) {
	p := gateParser{expr: expr}
	name := p.take(func(r rune) bool {
		return r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
	})
	metric, ok := MetricNamed(name.text)
	switch {
	case strings.TrimSpace(expr) == "":
		return Gate{}, p.wrong(name, "empty expression", `state when the run fails, as in 'failed>0'`)
	case !ok:
		return Gate{}, p.wrong(name, fmt.Sprintf("unknown metric %q", name.text), unknownHint(name.text))
	}
	op := p.take(func(r rune) bool { return strings.ContainsRune("<>=!~≤≥", r) })
	if !validOp(op.text) {
		advice := fmt.Sprintf("use one of > >= < <=, as in '%s'", example(metric))
		if op.text == "" && p.rest().text == "" {
			advice += "; in quotes: a shell writes what follows a bare > into a file"
		}
		return Gate{}, p.wrong(op, badOp(op.text), advice)
	}
	limit := p.rest()
	if limit.text == "" {
		return Gate{}, p.wrong(limit, "no limit", fmt.Sprintf("as in '%s'", example(metric)))
	}
	value, problem := parseLimit(metric.Unit, limit.text)
	if problem != "" {
		return Gate{}, p.wrong(limit, problem, limitHint(metric))
	}
	gate := Gate{Metric: metric.Name, Op: op.text, Limit: value, text: limit.text}
	if problem := gate.pointless(metric.Unit); problem != "" {
		return Gate{}, p.wrong(op, problem, limitHint(metric))
	}
	return gate, nil
}

// pointless says why a gate would decide nothing: the values a metric can have begin at 0, and ratios end at 1. It
// catches "errors.rate>1" that was meant as 1 %.
func (g Gate) pointless(unit model.Unit) string {
	ratio := unit == model.Ratio
	switch {
	case g.Op == "<" && g.Limit == 0, g.Op == ">" && ratio && g.Limit == 1:
		return "no run can ever fail this"
	case g.Op == ">=" && g.Limit == 0, g.Op == "<=" && ratio && g.Limit == 1:
		return "every run would fail this"
	}
	return ""
}

// A gateParser reads an expression from left to right.
type gateParser struct {
	expr string
	pos  int // bytes read
}

// A word is a piece of the expression and where it starts, in bytes.
type word struct {
	text string
	pos  int
}

// take skips spaces and reads as long as part holds.
func (p *gateParser) take(part func(rune) bool) word {
	p.skipSpace()
	rest := p.expr[p.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !part(r) })
	if n < 0 {
		n = len(rest)
	}
	w := word{rest[:n], p.pos}
	p.pos += n
	return w
}

// rest reads what is left, without the spaces around it.
func (p *gateParser) rest() word {
	p.skipSpace()
	return word{strings.TrimSpace(p.expr[p.pos:]), p.pos}
}

func (p *gateParser) skipSpace() {
	p.pos = len(p.expr) - len(strings.TrimLeftFunc(p.expr[p.pos:], unicode.IsSpace))
}

func (p *gateParser) wrong(at word, problem, advice string) error {
	return hint.Add(advice, &gateError{Expr: p.expr, Column: utf8.RuneCountInString(p.expr[:at.pos]) + 1,
		Problem: problem})
}

func validOp(op string) bool { return op == ">" || op == ">=" || op == "<" || op == "<=" }

func badOp(op string) string {
	if op == "" {
		return "no operator"
	}
	return fmt.Sprintf("unknown operator %q", op)
}

func metricNames() []string {
	names := make([]string, len(GateMetrics))
	for i, m := range GateMetrics {
		names[i] = m.Name
	}
	return names
}

// unknownHint names the metric that may have been meant, or all.
func unknownHint(name string) string {
	name = strings.ToLower(name)
	for _, known := range metricNames() {
		if len(name) > 2 && (strings.Contains(known, name) || strings.Contains(name, known)) {
			return fmt.Sprintf("did you mean %s? known are %s", known, strings.Join(metricNames(), ", "))
		}
	}
	return "known are " + strings.Join(metricNames(), ", ")
}

// example returns a gate on the metric that makes sense.
func example(m GateMetric) string {
	switch {
	case isCoverage(m.Name):
		return m.Name + "<99.9%"
	case m.Unit == model.Ratio:
		return m.Name + ">0.1%"
	case m.Unit == model.Duration:
		return m.Name + ">500ms"
	}
	return m.Name + ">0"
}

// isCoverage reports whether a metric is a share of observed time: the more, the better.
func isCoverage(metric string) bool { return metric == "coverage" || metric == "sources.coverage" }

func limitHint(m GateMetric) string {
	what := map[model.Unit]string{
		model.Count:    "a whole number",
		model.Duration: "a duration with a unit (ms, s, m)",
		model.Ratio:    "a percentage from 0% to 100%, or a ratio from 0 to 1",
	}[m.Unit]
	return fmt.Sprintf("%s takes %s, as in '%s'", m.Name, what, example(m))
}

// parseLimit reads a limit in a unit; problem says what is wrong with it.
func parseLimit(unit model.Unit, text string) (value float64, problem string) {
	switch unit {
	case model.Duration:
		return parseDurationLimit(text)
	case model.Ratio:
		return parseRatioLimit(text)
	}
	return parseCountLimit(text)
}

// parseCountLimit takes whole numbers that a float64 holds exactly.
func parseCountLimit(text string) (float64, string) {
	const most = 1 << 53
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > most:
		return 0, fmt.Sprintf("count %q is more than %d", text, uint64(most))
	case err != nil:
		return 0, fmt.Sprintf("bad count %q", text)
	}
	return float64(n), ""
}

func parseDurationLimit(text string) (float64, string) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Sprintf("bad duration %q", text)
	case d < 0:
		return 0, fmt.Sprintf("negative duration %q", text)
	}
	return float64(d), ""
}

// ParseRatio reads a share as gates do: "99%" or "0.99". problem says what is wrong with it.
func ParseRatio(text string) (value float64, problem string) { return parseRatioLimit(text) }

func parseRatioLimit(text string) (float64, string) {
	digits, isPercent := strings.CutSuffix(text, "%")
	digits = strings.TrimSpace(digits)
	if strings.Trim(digits, "+-.0123456789") != "" {
		return 0, fmt.Sprintf("bad ratio %q", text)
	}
	if isPercent {
		digits += "e-2" // exact, where dividing by 100 is not
	}
	value, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil:
		return 0, fmt.Sprintf("bad ratio %q", text)
	case value < 0 || value > 1:
		return 0, fmt.Sprintf("ratio %q is not between 0%% and 100%%", text)
	}
	return value, ""
}

// judge compares the error bars with the limit: the gate fails when even the value least in its
// disfavour breaks it, passes when even the one most in its disfavour keeps it.
func (g Gate) judge(tl *model.Timeline, v *model.Verdict) model.GateResult {
	metric, ok := MetricNamed(g.Metric)
	result := model.GateResult{Expr: g.String(), Metric: g.Metric, Unit: metric.Unit, Outcome: model.GateUndecided}
	if !ok || v.Sent == 0 && !metric.Held {
		return result
	}
	value, measured := metric.Value(tl, v)
	if !measured {
		return result
	}
	result.Value = &value
	switch least, most := g.breaks(value.Min), g.breaks(value.AtMost()); {
	case least && most:
		result.Outcome = model.GateFail
	case !least && !most:
		result.Outcome = model.GatePass
	}
	return result
}

// FailsForGood reports whether a judged run that goes on will fail whatever follows: it breaks the upper limit of what
// only adds up.
func FailsForGood(tl *model.Timeline) bool {
	return slices.ContainsFunc(tl.Verdict.Gates, func(r model.GateResult) bool {
		metric, _ := MetricNamed(r.Metric)
		g, err := ParseGate(r.Expr)
		return metric.Adds && r.Outcome == model.GateFail && err == nil && strings.HasPrefix(g.Op, ">")
	})
}

// breaks reports whether this value makes the run fail.
func (g Gate) breaks(value float64) bool {
	switch g.Op {
	case ">":
		return value > g.Limit
	case ">=":
		return value >= g.Limit
	case "<":
		return value < g.Limit
	}
	return value <= g.Limit
}
