package selftest

import (
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// A Trial is a plan that was measured, with all that is to be compared.
type Trial struct {
	Seed     uint64
	Rate     float64
	Duration time.Duration
	Plan     Plan
	Truths   []Truth
	Books    *Books
	Live     *model.Timeline // judged with Join while it ran
	Again    bool            // the recording, judged again, says the same
	Wide     *model.Timeline // the recording, judged with --join Wide
	Starved  *Starved        // nil: not tried
}

// Judge compares a run with the truth.
func Judge(t Trial) *Report {
	views := t.views()
	r := &Report{Seed: t.Seed, Rate: t.Rate, Duration: t.Duration, Coverage: t.Live.Verdict.Coverage, Wrong: []Wrong{}}
	for _, o := range t.Plan {
		r.Plan = append(r.Plan, PlannedAt{o.Class, o.From, o.To, o.Share})
	}
	for _, class := range Classes {
		if row, ok := t.classRow(class, views); ok {
			r.Classes = append(r.Classes, row)
		}
		if row, ok := edgeRow(class, views); ok {
			r.Edges = append(r.Edges, row)
		}
	}
	wide := t.wideViews(views)
	for i, v := range views {
		r.Limits = append(r.Limits, v.limit())
		r.Wrong = append(r.Wrong, v.wrong(Join)...)
		r.Wrong = append(r.Wrong, wide[i].wrong(Wide)...)
	}
	edges := sumEdges(r.Edges)
	r.Promises = []Promise{foundAll(views), inventedNone(views), heldExact(edges.Exact), heldStatistical(edges.Statistical)}
	r.add(t.bracketed(views), t.narrow(views), t.kinds(views), t.lengths(views))
	r.Promises = append(r.Promises, t.countsAgree())
	r.add(t.figures(), t.limits(views))
	r.Promises = append(r.Promises, t.sameAgain(), joinedWide(wide))
	if t.Starved != nil {
		r.Promises = append(r.Promises, t.Starved.blamesNobody(), t.Starved.unobserved())
	}
	r.Result, r.ExitCode = r.result()
	return r
}

// add adds what became of promises, and what was wrong.
func (r *Report) add(checks ...*check) {
	for _, c := range checks {
		r.Promises = append(r.Promises, c.promise())
		r.Wrong = append(r.Wrong, c.wrong...)
	}
}

// result is a verdict as that of a run. Of what was too little observed nothing is said, for or against; but what a
// starved run says of itself are promises that no lack of observation excuses.
func (r *Report) result() (model.Result, int) {
	outcome := map[Outcome]bool{}
	for _, p := range r.Promises {
		outcome[p.Outcome] = true
		if p.always && p.Outcome == Broken {
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

// views are what each judged target says of the truths.
func (t Trial) views() (views []View) {
	for _, target := range t.Live.Targets {
		if target.Kind.Judged() {
			views = append(views, look(target, t.Live, t.Truths, t.Books.metBy(target.ID)))
		}
	}
	return views
}

// wideViews are what they say with a wider --join. What a target has not seen is no part of a window: that is told
// already, and not again.
func (t Trial) wideViews(views []View) (wide []View) {
	for _, v := range views {
		var seen []Truth
		for _, s := range v.Sights {
			if s.Fate == Found {
				seen = append(seen, s.Truth)
			}
		}
		wide = append(wide, look(v.Target, t.Wide, Joined(seen, Wide), t.Books.metBy(v.Target.ID)))
	}
	return wide
}

// classRow is false where no outage of the class was planned.
func (t Trial) classRow(class Class, views []View) (row ClassRow, planned bool) {
	row.Class = class
	for _, o := range t.Plan {
		if o.Class == class {
			length := o.To - o.From
			if row.Outages == 0 || length < row.Shortest {
				row.Shortest = length
			}
			row.Longest = max(row.Longest, length)
			row.Outages++
		}
	}
	for _, v := range views {
		row.Fates = append(row.Fates, v.fates(class))
	}
	for i, truth := range t.Truths {
		if truth.Class() == class {
			row.count(t.Books.Accounts[i], t.dark(truth))
		}
	}
	return row, row.Outages > 0
}

func (row *ClassRow) count(a Account, dark bool) {
	if dark {
		return
	}
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

// dark reports whether a target did not observe all of a truth.
func (t Trial) dark(truth Truth) bool {
	return slices.ContainsFunc(t.Live.Targets, func(target model.Target) bool {
		return target.Kind.Judged() && dark(t.Live, target.Name, truth.Start.From, truth.End.To)
	})
}

func (v View) fates(class Class) FateCount {
	count := FateCount{Target: v.Target.Name}
	for _, s := range v.Sights {
		if s.Truth.Class() != class {
			continue
		}
		switch s.Fate {
		case Found:
			count.Found++
		case Short:
			count.Short++
		case Unobserved:
			count.Unobserved++
		case Between:
			count.Between++
		case Missed:
			count.Missed++
		}
	}
	return count
}

// edgeRow is false where no edge was found.
func edgeRow(class Class, views []View) (row EdgeRow, found bool) {
	row.Class = class
	var starts, ends []Edge
	for _, v := range views {
		for _, s := range v.Sights {
			if s.Truth.Class() != class || s.Fate != Found {
				continue
			}
			found = true
			starts, ends = row.add(s.Start, starts), row.add(s.End, ends)
		}
	}
	row.Start, row.End = side(starts), side(ends)
	byBasis := map[model.Basis][]Edge{}
	for _, e := range slices.Concat(starts, ends) {
		byBasis[e.Basis] = append(byBasis[e.Basis], e)
	}
	row.ExactSide, row.StatisticalSide = side(byBasis[model.Exact]), side(byBasis[model.Statistical])
	return row, found
}

// add counts an edge, and adds it to a list if something is claimed of it.
func (row *EdgeRow) add(e *Edge, to []Edge) []Edge {
	if e == nil {
		row.Open++
		return to
	}
	h := &row.Exact
	if e.Basis == model.Statistical {
		h = &row.Statistical
	}
	h.Total++
	if e.Held {
		h.Held++
	}
	return append(to, *e)
}

func side(edges []Edge) Side {
	var errors, widths []time.Duration
	for _, e := range edges {
		errors, widths = append(errors, e.Error), append(widths, e.Width)
	}
	return Side{Error: spread(errors), Width: spread(widths)}
}

func sumEdges(rows []EdgeRow) (sum EdgeRow) {
	for _, row := range rows {
		sum.Exact.Held += row.Exact.Held
		sum.Exact.Total += row.Exact.Total
		sum.Statistical.Held += row.Statistical.Held
		sum.Statistical.Total += row.Statistical.Total
	}
	return sum
}

// limit looks at the outages of every request, those that the target observed.
func (v View) limit() Limit {
	l := Limit{Target: v.Target.Name, Interval: time.Duration(float64(time.Second) / v.Target.Rate), Resolution: v.Target.Resolution}
	for _, s := range v.Sights {
		if s.Truth.Class().total() && s.Fate != Found && s.Fate != Unobserved {
			l.LongestLost = max(l.LongestLost, s.Truth.Length())
		}
	}
	for _, s := range v.Sights {
		length := s.Truth.Length()
		if s.Truth.Class().total() && s.Fate == Found && length > l.LongestLost && (l.AlwaysFrom == 0 || length < l.AlwaysFrom) {
			l.AlwaysFrom = length
		}
	}
	return l
}

// wrong lists what a target got wrong.
func (v View) wrong(join time.Duration) (list []Wrong) {
	for _, s := range v.Sights {
		w := Wrong{Target: s.Target.Name, Class: s.Truth.Class(), Join: join}
		if s.Fate == Missed || s.Fate == Between {
			w.What, w.At = string(s.Fate), s.Truth.Start.From
			list = append(list, w)
		}
		if e := s.Start; e != nil && !e.Held {
			w.What, w.At, w.Bracket, w.Basis = "start", s.Truth.Start.From, e.Bracket, e.Basis
			list = append(list, w)
		}
		if e := s.End; e != nil && !e.Held {
			w.What, w.At, w.Bracket, w.Basis = "end", s.Truth.End.From, e.Bracket, e.Basis
			list = append(list, w)
		}
	}
	for _, w := range v.Invented {
		list = append(list, Wrong{Target: v.Target.Name, What: "invented " + string(w.Kind), At: w.Start.Latest, Join: join})
	}
	return list
}

func foundAll(views []View) Promise {
	p := Promise{Text: "every outage longer than two intervals is found", Outcome: Kept}
	var sum FateCount
	for _, v := range views {
		for _, class := range Classes {
			sum.add(v.fates(class))
		}
	}
	switch {
	case sum.Missed > 0:
		p.Outcome = Broken
	case sum.Between > 0 || sum.Found == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("%d of %d found", sum.Found, sum.Found+sum.Missed+sum.Between)
	p.Found += also(sum.Missed, "missed") + also(sum.Between, "met by no request: the prober was late") +
		also(sum.Short, "too short, not seen") + also(sum.Unobserved, "not observed")
	return p
}

func also(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d %s", n, what)
}

func (c *FateCount) add(other FateCount) {
	c.Found += other.Found
	c.Short += other.Short
	c.Unobserved += other.Unobserved
	c.Between += other.Between
	c.Missed += other.Missed
}

func inventedNone(views []View) Promise {
	p := Promise{Text: "no window is invented", Outcome: Kept}
	windows, invented, excused := 0, 0, 0
	for _, v := range views {
		invented += len(v.Invented)
		excused += len(v.Excused)
		for _, s := range v.Sights {
			if s.Fate == Found {
				windows++
			}
		}
	}
	switch {
	case invented > 0:
		p.Outcome = Broken
	case len(views) == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("%d windows of known outages, %d of none", windows, invented) + also(excused, "beside unobserved time, told as such")
	return p
}

func heldExact(h Held) Promise {
	p := Promise{Text: "every exact bracket holds the truth", Outcome: Kept, Found: fmt.Sprintf("%d of %d", h.Held, h.Total)}
	switch {
	case h.Held < h.Total:
		p.Outcome = Broken
	case h.Total == 0:
		p.Outcome = Undecided
	}
	return p
}

// significance is the p-value below which chance does not explain any more that fewer brackets hold than shall.
const significance = 0.05

// heldStatistical wants 99 %. Where fewer hold, but no fewer than happens in one such test of 20, more must be measured.
func heldStatistical(h Held) Promise {
	p := Promise{Text: "at least 99 % of the statistical brackets hold it", Outcome: Kept, Found: fmt.Sprintf("%d of %d", h.Held, h.Total)}
	switch {
	case h.Total == 0:
		p.Outcome = Undecided
		return p
	case h.Held*100 >= h.Total*99:
		return p
	}
	pValue := h.pValue()
	p.Outcome = Undecided
	if pValue < significance {
		p.Outcome = Broken
	}
	p.Found += fmt.Sprintf(": if 99 %% held, %.2g %% of such tests would show that or worse", 100*pValue)
	return p
}

func (t Trial) countsAgree() Promise {
	p := Promise{Text: "failed requests are as many as the server's books say", Outcome: Kept}
	compared, off := 0, 0
	for i, a := range t.Books.Accounts {
		if t.dark(t.Truths[i]) {
			continue
		}
		compared++
		if !a.Agrees(t.Truths[i].Class()) {
			off++
		}
	}
	switch {
	case off > 0 || !t.Books.Balanced():
		p.Outcome = Broken
	case compared == 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("in %d of %d outages; good answers %d, by the server %d", compared-off, compared, t.Books.OK, t.Books.Answered) +
		also(t.Books.TimedOut, "timed out") + also(t.Books.NoStatus, "without the status of one")
	return p
}

func (t Trial) sameAgain() Promise {
	p := Promise{Text: "the recording, judged again, says the same", Outcome: Kept, Found: "the same"}
	if !t.Again {
		p.Outcome, p.Found = Broken, "something else"
	}
	return p
}

// joinedWide judges the recording where close outages are one window.
func joinedWide(views []View) Promise {
	p := Promise{Text: "and judged with --join 1s, it brackets those that are joined", Outcome: Kept}
	seen, several, lost, invented := 0, 0, 0, 0
	var h Held
	for _, v := range views {
		invented += len(v.Invented)
		for _, s := range v.Sights {
			switch s.Fate {
			case Missed:
				lost++
			case Found:
				seen++
				if len(s.Truth.Outages) > 1 {
					several++
				}
			}
			for _, e := range []*Edge{s.Start, s.End} {
				h.count(e)
			}
		}
	}
	p.Found = fmt.Sprintf("%d windows, %d of several outages; %d of %d brackets hold", seen, several, h.Held, h.Total) +
		also(lost, "missed") + also(invented, "invented")
	switch {
	case lost > 0 || invented > 0:
		p.Outcome = Broken
	default:
		p.Outcome = heldStatistical(h).Outcome
	}
	return p
}

func (h *Held) count(e *Edge) {
	if e == nil {
		return
	}
	h.Total++
	if e.Held {
		h.Held++
	}
}
