package selftest

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/gonum/mathext"

	"lapse/correlate/model"
	"lapse/correlate/truth"
	"lapse/correlate/verdict"
)

// A Trial is a plan that was measured, with all that is to be compared.
type Trial struct {
	Protocol Protocol
	Seed     uint64
	Rate     float64
	Duration time.Duration
	Plan     Plan
	Outages  []Outage
	Ledger   *Ledger
	Run      *model.Timeline
	Stalled  *StalledProber // nil: not tried
	Held     *HeldTrial     // nil: not tried
}

// Judge compares a run with what happened.
func Judge(t Trial) *Report {
	r := &Report{
		Protocol: t.Protocol.Name, Seed: t.Seed, Rate: t.Rate, Duration: t.Duration,
		Coverage: t.Run.Verdict.Coverage, Wrong: []Wrong{},
	}
	for _, p := range t.Plan {
		r.Plan = append(r.Plan, PlannedAt{p.Class, p.From, p.To, p.Share})
	}
	var targets []Comparison
	for _, target := range t.Run.Targets {
		if target.Kind.Judged() {
			c := compare(target, t.Run, t.Outages, t.Ledger)
			targets = append(targets, c)
			r.Limits = append(r.Limits, c.limit())
			r.Wrong = append(r.Wrong, c.wrong()...)
		}
	}
	for _, class := range Classes {
		if row, ok := t.classRow(class, targets); ok {
			r.Classes = append(r.Classes, row)
		}
		if row, ok := edgeRow(class, targets); ok {
			r.Edges = append(r.Edges, row)
		}
	}
	r.Off = offBy(targets)
	exact, statistical := r.held()
	r.Promises = []Promise{
		foundAll(targets), inventedNone(targets),
		heldExact(exact), heldStatistical(statistical), bracketed(targets, t.Run),
		t.countsAgree(),
	}
	if t.Stalled != nil {
		r.Promises = append(r.Promises, t.Stalled.blamesNobody(), t.Stalled.countsAsUnobserved())
	}
	if t.Held != nil {
		r.Promises = append(r.Promises, t.Held.promises()...)
	}
	r.Result, r.ExitCode = r.result()
	return r
}

// result returns the verdict and its exit code, which are a run's. Where too little was observed, the promises are
// neither kept nor broken, except those of a stalled prober: these count in any case.
func (r *Report) result() (model.Result, int) {
	outcome := map[Outcome]bool{}
	for _, p := range r.Promises {
		outcome[p.Outcome] = true
		if p.unconditional && p.Outcome == Broken {
			return model.Fail, verdict.ExitGateFailed
		}
	}
	switch {
	case r.Coverage < MinCoverage:
		return model.Inconclusive, verdict.ExitInconclusive
	case outcome[Broken]:
		return model.Fail, verdict.ExitGateFailed
	case outcome[Undecided]:
		return model.Inconclusive, verdict.ExitInconclusive
	}
	return model.Pass, verdict.ExitPassed
}

// classRow is false where no outage of the class was planned.
func (t Trial) classRow(class Class, targets []Comparison) (row ClassRow, planned bool) {
	row.Class = class
	for _, p := range t.Plan {
		if p.Class == class {
			length := p.To - p.From
			if row.Outages == 0 || length < row.Shortest {
				row.Shortest = length
			}
			row.Longest = max(row.Longest, length)
			row.Outages++
		}
	}
	for _, c := range targets {
		row.Fates = append(row.Fates, c.fates(func(o Outage) bool { return o.Class == class }))
	}
	for i, o := range t.Outages {
		if o.Class == class && !t.hidden(o) {
			row.count(t.Ledger.Accounts[i])
		}
	}
	return row, row.Outages > 0
}

func (row *ClassRow) count(a Account) {
	row.Compared++
	row.Failed += a.Failed - a.Unsent
	if row.Class == Slow {
		row.Failed += a.Slow
	}
	row.Least += a.Least
	row.Most += a.Most
	if a.Least < 0 {
		row.Least, row.Most = -1, -1
	}
}

// hidden reports whether a target did not observe all of an outage.
func (t Trial) hidden(o Outage) bool {
	return slices.ContainsFunc(t.Run.Targets, func(target model.Target) bool {
		return target.Kind.Judged() && unobserved(t.Run, target.Name, o.Start.From, o.End.To)
	})
}

func (c Comparison) fates(of func(Outage) bool) FateCount {
	count := FateCount{Target: c.Target.Name}
	for _, m := range c.Matches {
		if of(m.Outage) {
			count.add(m.Fate)
		}
	}
	return count
}

// edges calls yield with both edges of every outage that was found.
func edges(targets []Comparison, yield func(m Match, isStart bool, e truth.Edge)) {
	for _, c := range targets {
		for _, m := range c.Matches {
			if m.Fate == Found {
				yield(m, true, m.Start)
				yield(m, false, m.End)
			}
		}
	}
}

// edgeRow is false where no outage of the class was found.
func edgeRow(class Class, targets []Comparison) (row EdgeRow, found bool) {
	row.Class = class
	var starts, ends []truth.Edge
	edges(targets, func(m Match, isStart bool, e truth.Edge) {
		if m.Outage.Class != class {
			return
		}
		found = true
		held := &row.Exact
		if e.Basis == model.Statistical {
			held = &row.Statistical
		}
		if !e.Open || !e.Held { // one that is open claims little: it counts only if that is wrong
			held.add(e.Held)
		}
		switch {
		case e.Open:
			row.Open++
		case isStart:
			starts = append(starts, e)
		default:
			ends = append(ends, e)
		}
	})
	row.Start, row.End = side(starts), side(ends)
	return row, found
}

// offBy says how far off edges were, in the groups that differ.
func offBy(targets []Comparison) (groups []OffBy) {
	for _, g := range []struct {
		where string
		of    func(Class) bool
		basis model.Basis
	}{
		{"where every request failed, 8 or more", Class.total, model.Exact},
		{"where fewer failed, or maybe a share of requests", Class.total, model.Statistical},
		{"where a share failed at random", func(c Class) bool { return c == Random }, model.Statistical},
	} {
		var in []truth.Edge
		edges(targets, func(m Match, _ bool, e truth.Edge) {
			if !e.Open && g.of(m.Outage.Class) && e.Basis == g.basis {
				in = append(in, e)
			}
		})
		if len(in) > 0 {
			groups = append(groups, OffBy{g.where, side(in)})
		}
	}
	return groups
}

func side(edges []truth.Edge) Side {
	var errors, widths []time.Duration
	for _, e := range edges {
		errors, widths = append(errors, e.Error), append(widths, e.Width())
	}
	return Side{Error: spread(errors), Width: spread(widths)}
}

func (r *Report) held() (exact, statistical Held) {
	for _, row := range r.Edges {
		exact.sum(row.Exact)
		statistical.sum(row.Statistical)
	}
	return exact, statistical
}

// limit looks at the outages of every request, those that the target observed.
func (c Comparison) limit() Limit {
	l := Limit{Target: c.Target.Name, Interval: c.Target.Interval(), Resolution: c.Target.Resolution}
	for _, m := range c.Matches {
		if m.Outage.Class.total() && m.Fate != Found && m.Fate != Unobserved {
			l.LongestLost = max(l.LongestLost, m.Outage.Length())
		}
	}
	for _, m := range c.Matches {
		length := m.Outage.Length()
		shortest := l.AlwaysFrom == 0 || length < l.AlwaysFrom
		if m.Outage.Class.total() && m.Fate == Found && length > l.LongestLost && shortest {
			l.AlwaysFrom = length
		}
	}
	return l
}

// wrong lists what a target got wrong.
func (c Comparison) wrong() (list []Wrong) {
	for _, m := range c.Matches {
		w := Wrong{Target: c.Target.Name, Class: m.Outage.Class}
		if m.Fate == Missed || m.Fate == Between {
			w.What, w.At = string(m.Fate), m.Outage.Start.From
			list = append(list, w)
		}
		if m.Fate == Found && !m.Start.Held {
			w.What, w.At, w.Bracket, w.Basis = "start", m.Outage.Start.From, m.Start.Bracket, m.Start.Basis
			list = append(list, w)
		}
		if m.Fate == Found && !m.End.Held {
			w.What, w.At, w.Bracket, w.Basis = "end", m.Outage.End.From, m.End.Bracket, m.End.Basis
			list = append(list, w)
		}
	}
	for _, w := range c.Invented {
		list = append(list, Wrong{Target: c.Target.Name, What: "invented " + string(w.Kind), At: w.Start.Latest})
	}
	return list
}

func foundAll(targets []Comparison) Promise {
	p := Promise{Text: "every outage longer than two intervals is found", Outcome: Kept}
	var sum FateCount
	for _, c := range targets {
		sum.sum(c.fates(func(Outage) bool { return true }))
	}
	switch {
	case sum.Missed > 0:
		p.Outcome = Broken
	case sum.Between > 0 || sum.Found == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("%d of %d found", sum.Found, sum.Found+sum.Missed+sum.Between) +
		also(sum.Missed, "missed") + also(sum.Between, "met by no request: the prober was late") +
		also(sum.Short, "too short, not seen") + also(sum.Unobserved, "not observed")
	return p
}

// also adds a count to a sentence, unless it is 0.
func also(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d %s", n, what)
}

func inventedNone(targets []Comparison) Promise {
	p := Promise{Text: "no window is invented", Outcome: Kept}
	found, invented, excused := 0, 0, 0
	for _, c := range targets {
		found += c.fates(func(Outage) bool { return true }).Found
		invented += len(c.Invented)
		excused += len(c.Excused)
	}
	switch {
	case invented > 0:
		p.Outcome = Broken
	case len(targets) == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("windows of %d known outages, %d of none", found, invented) +
		also(excused, "beside unobserved time, reported as such")
	return p
}

// of returns how many of all hold.
func (h Held) of() string { return fmt.Sprintf("%d of %d", h.Held, h.Total) }

func heldExact(h Held) Promise {
	p := Promise{Text: "every exact bracket holds the truth", Outcome: Kept, Found: h.of()}
	switch {
	case h.Held < h.Total:
		p.Outcome = Broken
	case h.Total == 0:
		p.Outcome = Undecided
	}
	return p
}

// significance is the p-value below which chance no longer explains that fewer brackets hold than promised.
const significance = 0.05

// heldStatistical requires 99 %. Where fewer hold, but no fewer than happens in one such test of 20, it is undecided.
func heldStatistical(h Held) Promise {
	p := Promise{Text: "at least 99 % of the statistical brackets hold the truth", Outcome: Kept, Found: h.of()}
	switch {
	case h.Total == 0:
		p.Outcome = Undecided
		return p
	case h.Held*100 >= h.Total*99:
		return p
	}
	// The probability of so many misses or more: https://dlmf.nist.gov/8.17#E5
	pValue := mathext.RegIncBeta(float64(h.Total-h.Held), float64(h.Held+1), 0.01)
	p.Outcome = Undecided
	if pValue < significance {
		p.Outcome = Broken
	}
	p.Found += fmt.Sprintf(": if 99 %% held, %.2g %% of such tests would show that or worse", 100*pValue)
	return p
}

// bracketed requires a bound on either side of every edge: a bracket without one holds anything. Beside unobserved
// time, and at the ends of the measurement, there is none.
func bracketed(targets []Comparison, tl *model.Timeline) Promise {
	p := Promise{Text: "every edge has a bracket, except beside unobserved time", Outcome: Kept}
	closed, total, excused := 0, 0, 0
	for _, c := range targets {
		edges([]Comparison{c}, func(_ Match, isStart bool, e truth.Edge) {
			total++
			at, measured := e.Bracket.Latest, c.Target.Measured
			if isStart {
				at = e.Bracket.Earliest
			}
			switch {
			case !e.Open:
				closed++
			case at <= measured.Earliest, at >= measured.Latest, unobserved(tl, c.Target.Name, at, at):
				excused++
			default:
				p.Outcome = Broken
			}
		})
	}
	if total == 0 {
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("%d of %d", closed, total) + also(excused, "beside it")
	return p
}

func (t Trial) countsAgree() Promise {
	p := Promise{Text: "the counts of failed requests agree with the server's", Outcome: Kept}
	compared, off := 0, 0
	for i, a := range t.Ledger.Accounts {
		if t.hidden(t.Outages[i]) {
			continue
		}
		compared++
		if !a.Agrees(t.Outages[i].Class) {
			off++
		}
	}
	switch {
	case off > 0 || !t.Ledger.Balanced():
		p.Outcome = Broken
	case compared == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("in %d of %d outages; good answers %d, by the server %d",
		compared-off, compared, t.Ledger.OK, t.Ledger.Answered) +
		also(t.Ledger.TimedOut, "timed out") + also(t.Ledger.NoStatus, "without the status of one")
	return p
}
