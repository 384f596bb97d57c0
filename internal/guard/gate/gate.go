// Package gate answers whether a pipeline may go on: how a guarded Service got through a disruption.
//
//	guard ──> Guard, Measured, Begin, End ──> Book.Answer(query, now) ──> pass, fail, inconclusive or pending
//	                                          Handler: the same over HTTP      Client: the same as an exit code
//
// An answer is about a thing: a Pod template, a node, a run or a time. It is never about now, or a pipeline could read
// yesterday's pass. [Book] is pure: it knows no clock and no network.
package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A State is what a gate says.
type State string

const (
	Pass         State = "pass"
	Fail         State = "fail"
	Inconclusive State = "inconclusive"
	Pending      State = "pending" // not known yet
)

const (
	// MostAwaited is how long a disruption is awaited that is asked about and does not come. A sign that announces one
	// is believed for as long.
	MostAwaited = 15 * time.Minute

	forgetAsking = 2 * MostAwaited // after which a question about the same thing is another one

	mostRuns  = 200  // of a Service are known
	mostAsked = 1000 // things of a Service are awaited
)

// A Run is a disruption that was measured and judged.
type Run struct {
	ID      string    `json:"run"`
	Began   time.Time `json:"began"`   // the first sign
	Changed time.Time `json:"changed"` // the last change
	Verdict State     `json:"verdict"`
	Reason  string    `json:"reason"`           // in one line, for people
	Fix     string    `json:"fix,omitzero"`     // what to do against its cause
	Hashes  []string  `json:"hashes,omitzero"`  // of the templates that it made Pods from
	Undone  []string  `json:"undone,omitzero"`  // of them those that others had replaced at its end
	Rolling bool      `json:"rolling,omitzero"` // a rollout was under way when it began: not all of that was measured
	Rollout bool      `json:"rollout,omitzero"` // a rollout replaced Pods in it
	Nodes   []string  `json:"nodes,omitzero"`   // that it was about

	lasts bool // of one that is measured: see [Book.Lasts]
}

// Valid reports whether r may be the verdict of a run that has ended.
func (r Run) Valid() bool {
	over := []State{Pass, Fail, Inconclusive}
	return r.ID != "" && !r.Began.IsZero() && !r.Changed.IsZero() && slices.Contains(over, r.Verdict)
}

// A Query is what a pipeline asks: about a Pod template, a node, a run, or all that happened since a time. With Hash or
// Node, Since leaves out what was over before it.
type Query struct {
	Service string // NAMESPACE/NAME
	Hash    string
	Node    string
	Run     string
	Since   time.Time
	// NonePasses makes it a pass that there was no disruption since Since, if all that time was measured. It is for who
	// asks before each step, and not after it.
	NonePasses bool
}

// An Answer is what the gate says of a thing.
type Answer struct {
	State  State     `json:"state"`
	Reason string    `json:"reason"`
	Run    string    `json:"run,omitzero"`   // that decides it, or that is awaited
	Since  time.Time `json:"since,omitzero"` // when the run's disruption began
}

// A Book is what is known of all guarded Services. Its zero value knows none. One goroutine at a time may use it.
type Book struct {
	Limit string // of what is seen of a Service without a sign; empty: it is as asked for

	services map[string]*service
	listed   bool // all that are guarded are known: another one is not
}

// Listed notes that [Book.Guard] was called for each Service that is guarded.
func (b *Book) Listed() { b.listed = true }

// A service is what is known of one Service.
type service struct {
	from    time.Time // since when it is measured without a gap; zero: it is not
	problem string    // why it is not measured; empty: it is, or is about to be
	open    []Run     // not judged and stored yet, oldest first; the verdict of one that will fail is Fail, or else ""
	ended   []Run     // oldest first
	forgot  time.Time // the last change of what did not pass and is not in ended any more

	asked map[thing]asking // about that nothing is known
}

// An asking is when a thing was asked about for the first time, and for the last.
type asking struct{ first, last time.Time }

// A thing is what a pipeline asks about.
type thing struct{ hash, node string }

// Guard begins to answer for a Service, whose earlier runs may be known.
func (b *Book) Guard(name string, earlier ...Run) {
	if b.services == nil {
		b.services = map[string]*service{}
	}
	b.services[name] = &service{ended: earlier}
}

// Knows reports whether the book answers for a Service.
func (b *Book) Knows(name string) bool { return b.services[name] != nil }

// Drop ends that.
func (b *Book) Drop(name string) { delete(b.services, name) }

// Measured notes that a Service is measured from an instant on, or why it is not.
func (b *Book) Measured(name string, from time.Time, problem string) {
	if s := b.services[name]; s != nil {
		s.problem = problem
		if s.from = from; problem != "" {
			s.from = time.Time{}
		}
	}
}

// Begin notes that a disruption is measured. [Book.End] must follow, also if the run breaks off: until then the answer
// is pending. The next disruption may begin before that.
func (b *Book) Begin(name, run string, at time.Time) {
	if s := b.services[name]; s != nil {
		s.open = append(s.open, Run{ID: run, Began: at})
	}
}

// Fails notes that a disruption that is measured will fail, whatever follows. It may not be over for long: a version
// that fails each request does not settle.
func (b *Book) Fails(name string, r Run) {
	s := b.services[name]
	if s == nil {
		return
	}
	if i := s.indexOpen(r.ID); i >= 0 {
		r.lasts = s.open[i].lasts
		s.open[i] = r
	}
}

// Lasts notes whether a disruption that is measured shows only what began long before, such as a Pod that crashes for
// hours. While it does, it changes no answer about a rollout or a node before it.
func (b *Book) Lasts(name, run string, lasts bool) {
	s := b.services[name]
	if s == nil {
		return
	}
	if i := s.indexOpen(run); i >= 0 {
		s.open[i].lasts = lasts
	}
}

func (s *service) indexOpen(run string) int {
	return slices.IndexFunc(s.open, func(r Run) bool { return r.ID == run })
}

// End notes that a disruption is over, judged and stored.
func (b *Book) End(name string, r Run) {
	s := b.services[name]
	if s == nil {
		return
	}
	s.open = slices.DeleteFunc(s.open, func(o Run) bool { return o.ID == r.ID })
	s.ended = append(s.ended, r)
	slices.SortStableFunc(s.ended, byBegin) // one may be stored late
	for ; len(s.ended) > mostRuns; s.ended = s.ended[1:] {
		if old := s.ended[0]; old.Verdict != Pass && old.Changed.After(s.forgot) {
			s.forgot = old.Changed
		}
	}
	maps.DeleteFunc(s.asked, func(t thing, _ asking) bool {
		return r.about(Query{Hash: t.hash, Node: t.node})
	})
}

// Ended returns how many runs of a Service that have ended are known, and the newest of them.
func (b *Book) Ended(name string) (runs int, newest Run) {
	s := b.services[name]
	if s == nil || len(s.ended) == 0 {
		return 0, Run{}
	}
	return len(s.ended), s.ended[len(s.ended)-1]
}

// Answer answers a query at now. problem says why there is no answer: the Service is not guarded, or it had no such
// run.
func (b *Book) Answer(q Query, now time.Time) (a Answer, problem string) {
	s := b.services[q.Service]
	switch {
	case s == nil && !b.listed:
		return Answer{State: Pending, Reason: "the guard has just begun, and does not know yet what it guards"}, ""
	case s == nil:
		return Answer{}, fmt.Sprintf(`%s is not guarded here: annotate it with lapse/guard: "on", or see `+
			"`lapse guard status`", q.Service)
	}
	known := s.about(q, now)
	decides := worst(known)
	awaited := s.newestOpen(q, decides)
	final := q.Run != "" || !q.Since.IsZero() // what failed stays so
	switch {
	case decides.Verdict == Fail && (final || decides.ID == awaited.ID):
		return decides.answer(), ""
	case awaited.ID != "":
		return Answer{Pending, "the disruption is still being measured", awaited.ID, awaited.Began}, ""
	case q.Since.After(now):
		return Answer{State: Pending, Reason: q.future(now)}, ""
	case len(known) > 0 && q.Run == "" && !q.Since.IsZero() && !s.measured(q.Since, now):
		return Answer{State: Inconclusive, Reason: s.gap(q, now)}, ""
	case len(known) > 0:
		return decides.answer(), ""
	case q.Run != "":
		return Answer{}, fmt.Sprintf("%s had no run %s, or it is forgotten", q.Service, q.Run)
	}
	a = s.unseen(q, now)
	if a.State == Pass && b.Limit != "" {
		a.Reason += "; " + b.Limit
	}
	return a, ""
}

// newestOpen returns the newest disruption that may change the answer to a query once it is judged; its zero value if
// there is none. decides is the run that decides it now.
func (s *service) newestOpen(q Query, decides Run) (newest Run) {
	// until the next rollout, or disruption of the node: see [service.about]
	final := q.Since.IsZero() && (q.Hash != "" && decides.Rollout || q.Node != "" && decides.ID != "")
	for _, r := range s.open {
		if (q.Run == "" || q.Run == r.ID) && (!final || !r.lasts) {
			newest = r
		}
	}
	return newest
}

// measured reports whether all since an instant was measured, and what did not pass is known. It compares times until
// now: those of this process are of a clock that nobody sets.
func (s *service) measured(since, now time.Time) bool {
	return !s.from.IsZero() && now.Sub(since) <= now.Sub(s.from) && since.After(s.forgot)
}

// gap says that not all since an instant was measured, or is known.
func (s *service) gap(q Query, now time.Time) string {
	switch {
	case s.from.IsZero():
		return cmp.Or(s.problem, fmt.Sprintf("%s is not measured", q.Service))
	case !q.Since.After(s.forgot):
		return fmt.Sprintf("not all that was over by %s passed, and it is forgotten", stamp(s.forgot))
	}
	const text = "%s is measured since %s: what happened before that is not known"
	return fmt.Sprintf(text, q.Service, stamp(now.Add(-now.Sub(s.from))))
}

// unseen answers about something that nothing is known of.
func (s *service) unseen(q Query, now time.Time) Answer {
	since := q.Since
	if since.IsZero() {
		since = s.firstAsked(thing{q.Hash, q.Node}, now)
	}
	switch {
	case s.problem != "":
		return Answer{State: Inconclusive, Reason: fmt.Sprintf("%s is not measured: %s", q.Service, s.problem)}
	case q.NonePasses && !s.measured(since, now):
		return Answer{State: Inconclusive, Reason: s.gap(q, now)}
	case q.NonePasses:
		const text = "no disruption of %s since %s"
		return Answer{State: Pass, Reason: fmt.Sprintf(text, q.Service, stamp(since))}
	case now.Sub(since) >= MostAwaited:
		const text = "no disruption of %s%s was seen within 15 minutes%s"
		return Answer{State: Inconclusive, Reason: fmt.Sprintf(text, q.Service, q.by(), cmp.Or(s.undone(q), q.doubt()))}
	}
	const text = "no disruption of %s%s was seen yet%s"
	return Answer{State: Pending, Reason: fmt.Sprintf(text, q.Service, q.by(), s.undone(q))}
}

// undone says which run has replaced a template that it rolled out; "" if none has.
func (s *service) undone(q Query) string {
	for _, r := range slices.Backward(s.ended) {
		if slices.Contains(r.Undone, q.Hash) {
			return ": it was rolled back or replaced in run " + r.ID
		}
	}
	return ""
}

// by returns what a query asks about, for people.
func (q Query) by() string {
	switch {
	case q.Hash != "":
		return " by template " + q.Hash
	case q.Node != "":
		return " on node " + q.Node
	}
	return ""
}

// doubt returns what may be wrong with a query about what did not happen.
func (q Query) doubt() string {
	switch {
	case q.Hash != "":
		return ": is that a hash in the labels of its Pods?"
	case q.Node != "":
		return ": did it have a Pod there?"
	}
	return ""
}

// future says that the time asked about has not come.
func (q Query) future(now time.Time) string {
	return fmt.Sprintf("since=%s is in the future: here it is %s", stamp(q.Since), stamp(now))
}

// firstAsked returns when a thing was asked about for the first time, since nobody had for [forgetAsking]. Of too many
// things it forgets the oldest.
func (s *service) firstAsked(t thing, now time.Time) time.Time {
	is, known := s.asked[t]
	if !known || now.Sub(is.last) >= forgetAsking {
		is.first = now
	}
	if s.asked == nil {
		s.asked = map[thing]asking{}
	}
	if !known && len(s.asked) >= mostAsked {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(s.asked)), func(a, b thing) int {
			return s.asked[a].first.Compare(s.asked[b].first)
		})
		delete(s.asked, oldest)
	}
	is.last = now
	s.asked[t] = is
	return is.first
}

// mostAhead is how far in the future a run may have begun: the clock of another guard has stamped it.
const mostAhead = time.Minute

// about returns the runs that decide a query, of those that are judged or will fail: without a time only the newest,
// of a template its newest rollout, unless that was rolled back or another one was rolled out since.
func (s *service) about(q Query, now time.Time) (runs []Run) {
	all := append(slices.Clone(s.ended), s.open...)
	all = slices.DeleteFunc(all, func(r Run) bool { return r.Verdict == "" })
	slices.SortStableFunc(all, func(a, b Run) int { // a pass of the future hides nothing
		known := func(r Run) int {
			if r.Verdict == Pass && r.Ahead(now) {
				return 0
			}
			return 1
		}
		return cmp.Or(known(a)-known(b), byBegin(a, b))
	})
	for _, r := range all {
		if r.Rollout && q.Hash != "" && q.Since.IsZero() && !slices.Contains(r.Hashes, q.Hash) {
			runs = nil
		}
		if !r.about(q) {
			continue
		}
		if q.Since.IsZero() && r.Verdict == Pass && slices.Contains(r.Undone, q.Hash) {
			runs = nil // it is to be rolled out again
			continue
		}
		if q.Since.IsZero() && len(runs) > 0 {
			if q.Hash != "" && runs[0].Rollout && !r.Rollout { // as by an eviction
				continue
			}
			runs = nil
		}
		if !q.Since.IsZero() && r.Ahead(now) && r.Verdict == Pass {
			r.Verdict, r.Reason = Inconclusive, r.Reason+"; the clock was set back since: when it began is not known"
		}
		if q.Hash != "" && r.Rolling && r.Verdict == Pass {
			r.Verdict, r.Reason = Inconclusive, r.Reason+"; the rollout was under way before it was measured"
		}
		runs = append(runs, r)
	}
	return runs
}

// Ahead reports whether a run began in the future, by the clock of another guard, or by one that was set back since.
func (r Run) Ahead(now time.Time) bool { return r.Began.Sub(now) > mostAhead }

func byBegin(a, b Run) int { return a.Began.Compare(b.Began) }

func (r Run) about(q Query) bool {
	switch {
	case q.Run != "" && r.ID != q.Run, q.Hash != "" && !slices.Contains(r.Hashes, q.Hash),
		q.Node != "" && !slices.Contains(r.Nodes, q.Node):
		return false
	}
	return !r.Changed.Before(q.Since)
}

// worst returns the run that decides: a failure before doubt, and of two alike the newer one.
func worst(runs []Run) (of Run) {
	order := []State{Pass, Inconclusive, Fail}
	for _, r := range runs {
		if slices.Index(order, r.Verdict) >= slices.Index(order, of.Verdict) {
			of = r
		}
	}
	return of
}

func (r Run) answer() Answer { return Answer{r.Verdict, r.Reason, r.ID, r.Began} }
