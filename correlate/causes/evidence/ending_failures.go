package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file holds how a Pod fails at its own address after it was asked to end. Few servers only refuse connections
// then: some answer with errors, because another container of the Pod has ended; some accept connections and never
// answer, because a worker still holds the socket; some answer again, because SIGTERM restarts them.

// An endFailure is an outage of the own address of a Pod that was ending.
type endFailure struct {
	Target string        // of its own address
	From   model.Instant // requests that were sent from then on failed
	Outage *model.Window
	Again  bool // it answered well after that
}

// EndFailures returns the outages of a Pod's own address that began after its deletion, in order.
func (v *Endings) EndFailures(w *model.Window, p *model.Pod) (all []endFailure) {
	for _, t := range v.addresses.DirectOf(w, p) {
		for i := range v.traffic.Measured(t).Outages {
			u := &v.traffic.Measured(t).Outages[i]
			if u.Kind == model.Slow || !v.addresses.canBeItsEnd(p, t, u) || v.addresses.proberMade(t, u) {
				continue
			}
			last := v.traffic.Measured(t).FirstLast.LastOK
			all = append(all, endFailure{Target: t.Name, From: v.beganToFail(t, u), Outage: u, Again: last != nil &&
				last.Sent >= u.End.Earliest && !u.Open.End})
		}
	}
	slices.SortStableFunc(all, func(a, b endFailure) int { return cmp.Compare(a.From.Earliest, b.From.Earliest) })
	return all
}

// beganToFail returns when requests to an address began to fail. A request that times out or is cut while it waits is
// known to fail only later; so those sent a usual answer's time after the last answered request count from then.
func (v *Endings) beganToFail(t *model.Target, u *model.Window) model.Instant {
	from, last := u.Start, v.traffic.Measured(t).FirstLast.LastOK
	if last == nil || last.Sent < from.Earliest || last.Sent > from.Latest {
		return from
	}
	from.Earliest = last.Sent
	if late := Count(u.Classes, timeline.TimeoutResponse) + Count(u.Classes, CutClasses...); late > 0 && t.Rate > 0 &&
		t.Latency != nil && !sendsDatagrams(t) {
		from.Latest = min(from.Latest, from.Earliest+2*t.Interval()+t.Latency.Max)
	}
	return from
}

// made reports whether a request failed as the Pod's own address did at that time. If the address was not probed any
// more, a request that got no connection counts.
func (e *endFailure) made(f *model.Failure) bool {
	if Arrived(f) < e.From.Earliest || e.Again && f.Earliest() > e.Outage.End.Latest {
		return false
	}
	classes := e.Outage.Classes
	switch f.Class {
	case timeline.Refused, timeline.Unreachable:
		return Count(classes, unconnected...) > 0 || !e.Again && f.Earliest() > e.Outage.End.Earliest
	case timeline.TimeoutConnect: // also once the queue of a silent server is full
		return Count(classes, unconnected...)+Count(classes, timeline.TimeoutResponse) > 0 || !e.Again &&
			f.Earliest() > e.Outage.End.Earliest
	case timeline.Reset, timeline.EOF, timeline.Body:
		return Count(classes, CutClasses...) > 0
	case timeline.NoSlot:
		return Count(classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable,
			timeline.NoSlot) > 0
	case timeline.DNS:
		return false
	}
	return classes[f.Class.String()] > 0
}

// unconnected are the classes of requests that got no connection.
var unconnected = []timeline.Class{timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable}

// BeganThen returns the outage of an ending Pod's own address that began in a time; nil if there is none.
func (v *Endings) BeganThen(w *model.Window, p *model.Pod, at model.Instant) *endFailure {
	for _, e := range v.EndFailures(w, p) {
		if e.From.Earliest <= at.Latest+Moment && at.Earliest <= e.From.Latest+Moment {
			return &e
		}
	}
	return nil
}

// canHaveMade reports whether a request can have failed because it was sent to the Pod after it had stopped.
func (s *PodStop) canHaveMade(f *model.Failure) bool {
	if s.At.Earliest > Arrived(f) || f.Earliest() > s.gone {
		return false
	}
	if len(s.fails) == 0 {
		return windows.Unconnected(f.Class) || f.Class == timeline.NoSlot
	}
	if windows.Unconnected(f.Class) && f.Latest() <= s.answered {
		return false // it was there, and answered badly
	}
	switch formOf(f.Class) { // a request that was sent before may have been under way: see cut
	case CutsAll:
		if f.Earliest() < s.At.Latest {
			return false
		}
	case isSilent:
		if f.Earliest() < s.At.Earliest {
			return false
		}
	}
	return slices.ContainsFunc(s.fails, func(e endFailure) bool { return e.made(f) })
}

// answeredFor is how long after a Pod began to fail its answers are watched to tell whether it is there but answers
// badly.
const answeredFor = 2 * time.Second

// answeredBadly returns until when the Pod is known to have answered, if badly, after it began to fail; 0 if that is
// not known.
func (v *Endings) answeredBadly(s *PodStop) time.Duration {
	if len(s.fails) == 0 || Count(s.fails[0].Outage.Classes, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body,
		timeline.Other) == 0 {
		return 0
	}
	until := s.At.Latest + answeredFor
	if answered, sent := v.Answered(v.traffic.TargetNamed(s.Target).ID, s.At.Latest, until); sent < 3 ||
		float64(answered) < NearlyAll*float64(sent) {
		return 0
	}
	return until
}

// endedAs reports whether an ending Pod failed at its own address in the same way as requests of the window.
func (v *Endings) endedAs(w *model.Window) bool {
	for _, p := range v.services.Pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		for _, e := range v.EndFailures(w, p) {
			if e.From.Earliest <= w.End.Latest && sharesClass(w, e.Outage) {
				return true
			}
		}
	}
	return false
}

// A form is how an ending Pod fails.
type form int

const (
	listensNoMore form = iota
	CutsAll            // it accepts connections, and closes them without a whole answer
	AnswersErrors      // it answers, with errors
	isSilent           // it accepts connections and does not answer
	failsTLS           // it accepts connections, and no handshake succeeds
)

func formOf(class timeline.Class) form {
	switch class {
	case timeline.Reset, timeline.EOF, timeline.Body:
		return CutsAll
	case timeline.HTTP5xx, timeline.HTTP4xx, timeline.Other:
		return AnswersErrors
	case timeline.TimeoutResponse:
		return isSilent
	case timeline.TLS:
		return failsTLS
	}
	return listensNoMore
}

// A FormCount counts, by form, the failures that an ending Pod can explain.
type FormCount struct {
	forms  map[form]int
	status map[uint16]int // of those that were answered
}

// longWait is how long a request must wait to count as one that no process accepted, if no latency is known.
const longWait = 200 * time.Millisecond

// longWait returns how long a request to the window's target must wait to count as one that no process accepted.
func (v *Traffic) longWait(w *model.Window) time.Duration {
	if t := v.Target(w); t.Latency != nil {
		return max(longWait, 2*t.Latency.P99)
	}
	return model.Never
}

func (c *FormCount) add(f *model.Failure, long time.Duration) {
	if c.forms == nil {
		c.forms, c.status = map[form]int{}, map[uint16]int{}
	}
	how := formOf(f.Class)
	if how == CutsAll && f.Latest()-f.Earliest() > long { // it waited, and was cut when the process ended
		how = isSilent
	}
	c.forms[how]++
	if how == AnswersErrors && f.Code > 0 {
		c.status[f.Code]++
	}
}

// Most returns the most frequent form. Of several, one that says more than that the Pod did not listen.
func (c *FormCount) Most() form {
	if c == nil {
		return listensNoMore
	}
	most := listensNoMore
	for f := range failsTLS + 1 {
		if c.forms[f] > c.forms[most] {
			most = f
		}
	}
	return most
}

// Answer names the status that most were answered with.
func (c *FormCount) Answer(v *Traffic, target string) string {
	var code uint16
	for status, n := range c.status {
		if n > c.status[code] || n == c.status[code] && status < code {
			code = status
		}
	}
	for _, e := range v.Errors {
		if e.Object.Name == target && e.Status > 0 && (e.Status == code || code == 0) {
			return e.Detail
		}
	}
	switch {
	case code == 0:
		return "errors"
	case code < 100:
		return fmt.Sprintf("grpc-status %d", code)
	}
	return fmt.Sprintf("status %d", code)
}

// Begun says what the Pods of a race had done when requests to them began to fail: "had stopped".
func (r *Race) Begun(v *Traffic, stops []*PodStop) string {
	said := ""
	for _, s := range stops {
		did := r.As[s].Begun(v, s.Target)
		if said != "" && said != did {
			return "had begun to end"
		}
		said = did
	}
	return said
}

// NotProbed returns the doubt, where a Pod that ended was there and failed, that another one that was ready did so as
// well: its own address was not asked.
func (r *Race) NotProbed(v *Addresses, w *model.Window) []Sign {
	if !slices.ContainsFunc(r.Stops, func(s *PodStop) bool { return !s.Quiet }) {
		return nil
	}
	return v.Unasked(w)
}

// Unasked returns the doubt that a Pod which was ready failed instead, as its own address was not asked.
func (v *Addresses) Unasked(w *model.Window) []Sign {
	for _, p := range v.services.Pods(w) {
		if !p.TerminatingBy(w.End.Latest) && p.ReadyBy(w.Start.Latest) && v.DirectName(w, p) == "" {
			return []Sign{Measured.Doubt(p.Name +
				", which was ready, has no direct target: it may have failed instead")}
		}
	}
	return nil
}

// FailedAsWell returns the doubt that a Pod which was ready failed at its own address as the window's requests did, or
// as a part of them.
func (v *Suspects) FailedAsWell(w *model.Window, stops []*PodStop) []Sign {
	for _, s := range v.All(w) {
		alike := 0
		for class, n := range w.Classes {
			if s.Outage.Classes[class] > 0 {
				alike += n
			}
		}
		if 10*alike >= w.Failed && !slices.ContainsFunc(stops, func(o *PodStop) bool { return o.Pod == s.Pod }) {
			strength := Close
			if 2*alike >= w.Failed {
				strength = Watched
			}
			return []Sign{strength.Doubt(fmt.Sprintf("%s failed at its own address as well (%s), though it was ready",
				s.Pod.Name, quantity.ClassCounts(s.Outage.Classes)))}
		}
	}
	return nil
}

// FailedBefore returns the doubt that a Pod had failed in the same way before it was asked to end.
func (r *Race) FailedBefore(v *Endings, w *model.Window) []Sign {
	for _, s := range r.Stops {
		if len(s.fails) == 0 || s.Quiet {
			continue
		}
		if e := v.failedSo(w, s.Pod, s.fails[0]); e != nil {
			return []Sign{Watched.Target(s.Target, &e.Start,
				fmt.Sprintf("%s had failed at its own address before its deletion as well: %s", s.Pod.Name,
					quantity.ClassCounts(e.Classes)))}
		}
	}
	return nil
}

// failedSo returns an outage of the Pod's own address before its deletion with the same kind of failures as while it
// ended; nil if there is none.
func (v *Endings) failedSo(w *model.Window, p *model.Pod, e endFailure) *model.Window {
	for _, t := range v.addresses.DirectOf(w, p) {
		for i := range v.traffic.Measured(t).Outages {
			u := &v.traffic.Measured(t).Outages[i]
			if u.Kind != model.Slow && u.Start.Latest < e.From.Earliest && !v.addresses.canBeItsEnd(p, t, u) &&
				(p.Ready == nil || u.End.Earliest > p.Ready.Earliest) && sharesClass(u, e.Outage) {
				return u
			}
		}
	}
	return nil
}

// sharesClass reports whether two windows have a class of failures in common.
func sharesClass(w, o *model.Window) bool {
	for class, n := range w.Classes {
		if n > 0 && o.Classes[class] > 0 {
			return true
		}
	}
	return false
}

// ServeOn says how a Pod can keep serving this long after it was asked to end. bySleep is true if a preStop sleep is
// all that it takes.
func (v *Endings) ServeOn(s *PodStop, c *FormCount, needs time.Duration) (how string, bySleep bool) {
	least := quantity.Span(needs)
	hook, stops := v.templates.stoppingHook(s.Pod)
	switch {
	case s.restarted():
		return fmt.Sprintf("let SIGTERM end the server and not restart it (STOPSIGNAL of the image, or a preStop "+
			"hook with the right signal), and keep serving ≥ %s before that (a preStop sleep)", least), false
	case stops && hook.delays() == 0:
		return fmt.Sprintf("let the preStop hook of %s sleep ≥ %s before it runs %s", hook.container, least,
			hook.runs()), false
	case c.Most() == AnswersErrors && len(v.templates.ContainersOf(s.Pod)) > 1:
		return fmt.Sprintf("keep serving ≥ %s after SIGTERM in every container that requests pass through: the same "+
			"preStop sleep for %s", least, v.templates.Sleeps(s.Pod)), false
	}
	how = fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down)", least)
	return how, true
}

// Sleeps names the containers of a Pod, with what their hooks are: "nginx (sleeps 5 s) and php-fpm (has no hook)".
func (v Templates) Sleeps(p *model.Pod) string {
	hooks := v.HooksOf(p)
	names := v.ContainersOf(p)
	for i, name := range names {
		has := "has no hook"
		for _, h := range hooks {
			if d := h.delays(); h.container == name && d > 0 {
				has = "sleeps " + quantity.Span(d)
			} else if h.container == name {
				has = "has a hook that does not sleep first"
			}
		}
		names[i] = fmt.Sprintf("%s (%s)", name, has)
	}
	return NamedOf(names)
}

// Begun says what a Pod had done when requests to it began to fail: "had stopped".
func (c *FormCount) Begun(v *Traffic, target string) string {
	if c == nil {
		return "had stopped"
	}
	switch c.Most() {
	case CutsAll:
		return "had stopped"
	case AnswersErrors:
		return "had begun to answer with " + c.Answer(v, target)
	case isSilent:
		return "had ceased to answer, but still accepted connections"
	case failsTLS:
		return "had ceased to complete TLS handshakes"
	}
	return "had stopped"
}

// Why explains how the Pod ended, as far as that is known; the text begins with a semicolon.
func (v *Endings) Why(s *PodStop, c *FormCount) string {
	if c == nil {
		return s.afterwards()
	}
	text := ""
	switch names := v.templates.ContainersOf(s.Pod); {
	case c.Most() == AnswersErrors && c.AsksAnother() && len(names) > 1:
		text = fmt.Sprintf("; a proxy answers so when it cannot reach its server: one of the Pod's containers (%s) "+
			"ended before the other", strings.Join(names, ", "))
	case c.Most() == AnswersErrors && len(names) > 1:
		text = fmt.Sprintf("; one of its containers (%s) may have ended before the other, or its server answers so "+
			"while it ends", strings.Join(names, ", "))
	case c.Most() == AnswersErrors:
		text = "; its server answers so while it ends"
	case c.Most() == isSilent:
		text = "; a busy process of the Pod may still have held the socket"
	}
	if hook := v.templates.endingHook(s.Pod); hook != "" && c.Most() != AnswersErrors {
		text += "; " + hook
	}
	return text + s.afterwards()
}

// AsksAnother reports whether a proxy that cannot reach its server answers like this.
func (c *FormCount) AsksAnother() bool {
	const unavailable = 14 // grpc-status
	return c.status[502]+c.status[503]+c.status[504]+c.status[unavailable] > 0
}

// CannotReach reports whether only a proxy that cannot reach its server answers like this.
func (c *FormCount) CannotReach() bool { return c != nil && c.status[502]+c.status[504] > 0 }

// restarted reports whether the Pod stopped listening and then listened again before it ended.
func (s *PodStop) restarted() bool {
	return slices.ContainsFunc(s.fails, func(e endFailure) bool {
		return e.Again && Count(e.Outage.Classes, timeline.Refused) > 0
	})
}

// afterwards says that the Pod answered again before it ended, or answered some requests meanwhile; "" if it did not.
func (s *PodStop) afterwards() string {
	for _, e := range s.fails {
		if !e.Again {
			continue
		}
		text := fmt.Sprintf("; %s later it answered well again", quantity.Length(e.Outage.Length, false))
		if s.restarted() {
			text += ": SIGTERM, or its preStop hook, restarts its server and does not end it"
		}
		return text
	}
	return ""
}

// ContainersOf names the containers of a Pod that run for as long as it does, as far as its template is known.
func (v Templates) ContainersOf(p *model.Pod) (names []string) {
	if t := v[p.Template]; t != nil {
		for _, c := range t.Containers {
			names = append(names, c.Name)
		}
	}
	return names
}

// share returns the share of the requests to its own address that the Pod failed; 1 if that is not known.
func (s *PodStop) share() float64 {
	sent, failed := 0, 0
	for _, e := range s.fails {
		sent, failed = sent+e.Outage.Sent, failed+e.Outage.Failed
	}
	if failed == 0 || float64(failed) >= NearlyAll*float64(sent) {
		return 1
	}
	return float64(failed) / float64(sent)
}

// until returns when the Pod answered well again at its own address; Never if it did not.
func (s *PodStop) until() time.Duration {
	if n := len(s.fails); n > 0 && s.fails[n-1].Again {
		return s.fails[n-1].Outage.End.Latest
	}
	return model.Never
}
