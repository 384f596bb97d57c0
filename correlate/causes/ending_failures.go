package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// This file holds how a Pod fails at its own address after it was asked to end. Few servers only refuse connections
// then: some answer with errors, because another container of the Pod has ended; some accept connections and never
// answer, because a worker still holds the socket; some answer again, because SIGTERM restarts them.

// An endFailure is an outage of the own address of a Pod that was ending.
type endFailure struct {
	target string        // of its own address
	from   model.Instant // requests that were sent from then on failed
	outage *model.Window
	again  bool // it answered well after that
}

// endFailures returns the outages of a Pod's own address that began after its deletion, in order.
func (v *index) endFailures(w *model.Window, p *model.Pod) (all []endFailure) {
	for _, t := range v.directOf(w, p) {
		for i := range v.probed(t).Outages {
			u := &v.probed(t).Outages[i]
			if u.Kind == model.Slow || !v.canBeItsEnd(p, t, u) || v.proberMade(t, u) {
				continue
			}
			last := v.probed(t).FirstLast.LastOK
			all = append(all, endFailure{target: t.Name, from: v.beganToFail(t, u), outage: u, again: last != nil && last.Sent >= u.End.Earliest && !u.Open.End})
		}
	}
	slices.SortStableFunc(all, func(a, b endFailure) int { return cmp.Compare(a.from.Earliest, b.from.Earliest) })
	return all
}

// beganToFail is from when on requests to an address failed. That a request is not answered, or is cut while it waits,
// is known only later: what was sent a usual answer's time after the last that was answered had failed by then.
func (v *index) beganToFail(t *model.Target, u *model.Window) model.Instant {
	from, last := u.Start, v.probed(t).FirstLast.LastOK
	if last == nil || last.Sent < from.Earliest || last.Sent > from.Latest {
		return from
	}
	from.Earliest = last.Sent
	if late := some(u.Classes, timeline.TimeoutResponse) + some(u.Classes, cutClasses...); late > 0 && t.Rate > 0 && t.Latency != nil && !sendsDatagrams(t) {
		from.Latest = min(from.Latest, from.Earliest+2*timeline.Target{Rate: t.Rate}.Interval()+t.Latency.Max)
	}
	return from
}

// made reports whether a request failed as the Pod's own address did at that time. Where the address was asked no
// more, a request that got no connection counts.
func (e *endFailure) made(f *model.Failure) bool {
	if arrived(f) < e.from.Earliest || e.again && f.Earliest() > e.outage.End.Latest {
		return false
	}
	classes := e.outage.Classes
	switch f.Class {
	case timeline.Refused, timeline.Unreachable:
		return some(classes, unconnected...) > 0 || !e.again && f.Earliest() > e.outage.End.Earliest
	case timeline.TimeoutConnect: // also once the queue of a silent server is full
		return some(classes, unconnected...)+some(classes, timeline.TimeoutResponse) > 0 || !e.again && f.Earliest() > e.outage.End.Earliest
	case timeline.Reset, timeline.EOF, timeline.Body:
		return some(classes, cutClasses...) > 0
	case timeline.NoSlot:
		return some(classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable, timeline.NoSlot) > 0
	case timeline.DNS:
		return false
	}
	return classes[f.Class.String()] > 0
}

// unconnected are the classes of requests that got no connection.
var unconnected = []timeline.Class{timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable}

// beganThen returns the outage of an ending Pod's own address that began in a time; nil if there is none.
func (v *index) beganThen(w *model.Window, p *model.Pod, at model.Instant) *endFailure {
	for _, e := range v.endFailures(w, p) {
		if e.from.Earliest <= at.Latest+moment && at.Earliest <= e.from.Latest+moment {
			return &e
		}
	}
	return nil
}

// canHaveMade reports whether a request can have failed because it was sent to the Pod after it had stopped.
func (s *podStop) canHaveMade(f *model.Failure) bool {
	if s.at.Earliest > arrived(f) || f.Earliest() > s.gone {
		return false
	}
	if len(s.fails) == 0 {
		return windows.Unconnected(f.Class) || f.Class == timeline.NoSlot
	}
	if windows.Unconnected(f.Class) && f.Latest() <= s.answered {
		return false // it was there, and answered badly
	}
	switch formOf(f.Class) { // a request that was sent before may have been under way: see cut
	case cutsAll:
		if f.Earliest() < s.at.Latest {
			return false
		}
	case isSilent:
		if f.Earliest() < s.at.Earliest {
			return false
		}
	}
	return slices.ContainsFunc(s.fails, func(e endFailure) bool { return e.made(f) })
}

// answeredFor is the time after a Pod began to fail by which is known whether it is there and answers badly.
const answeredFor = 2 * time.Second

// answeredBadly is until when the Pod is known to have answered, if badly, since it began to fail; 0 if it is not.
func (v *index) answeredBadly(s *podStop) time.Duration {
	if len(s.fails) == 0 || some(s.fails[0].outage.Classes, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body, timeline.Other) == 0 {
		return 0
	}
	until := s.at.Latest + answeredFor
	if answered, sent := v.Answered(v.targetNamed(s.target).ID, s.at.Latest, until); sent < 3 || float64(answered) < nearlyAll*float64(sent) {
		return 0
	}
	return until
}

// endedAs reports whether a Pod that was ending failed at its own address as requests of the window did.
func (v *index) endedAs(w *model.Window) bool {
	for _, p := range v.pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		for _, e := range v.endFailures(w, p) {
			if e.from.Earliest <= w.End.Latest && sharesClass(w, e.outage) {
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
	cutsAll            // it accepts connections, and closes them without a whole answer
	answersErrors      // it answers, with errors
	isSilent           // it accepts connections and does not answer
	failsTLS           // it accepts connections, and no handshake succeeds
)

func formOf(class timeline.Class) form {
	switch class {
	case timeline.Reset, timeline.EOF, timeline.Body:
		return cutsAll
	case timeline.HTTP5xx, timeline.HTTP4xx, timeline.Other:
		return answersErrors
	case timeline.TimeoutResponse:
		return isSilent
	case timeline.TLS:
		return failsTLS
	}
	return listensNoMore
}

// A formCount counts the failures that an ending Pod can have made, by how they failed.
type formCount struct {
	forms  map[form]int
	status map[uint16]int // of those that were answered
}

// longWait is for how long a request waits at least that nobody took.
const longWait = 200 * time.Millisecond

// longWait is for how long a request to the window's target waits at least of which is said that nobody took it.
func (v *index) longWait(w *model.Window) time.Duration {
	if t := v.target(w); t.Latency != nil {
		return max(longWait, 2*t.Latency.P99)
	}
	return model.Never
}

func (c *formCount) add(f *model.Failure, long time.Duration) {
	if c.forms == nil {
		c.forms, c.status = map[form]int{}, map[uint16]int{}
	}
	how := formOf(f.Class)
	if how == cutsAll && f.Latest()-f.Earliest() > long { // it waited, and was cut when the process ended
		how = isSilent
	}
	c.forms[how]++
	if how == answersErrors && f.Code > 0 {
		c.status[f.Code]++
	}
}

// most is how most of them failed. Those that say more than that nobody listened go first.
func (c *formCount) most() form {
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

// answer names the status that most were answered with.
func (c *formCount) answer(v *index, target string) string {
	var code uint16
	for status, n := range c.status {
		if n > c.status[code] || n == c.status[code] && status < code {
			code = status
		}
	}
	for _, e := range v.errors {
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

// begun says what the Pods of a race had done when requests to them began to fail: "had stopped".
func (r *race) begun(v *index, stops []*podStop) string {
	said := ""
	for _, s := range stops {
		did := r.as[s].begun(v, s.target)
		if said != "" && said != did {
			return "had begun to end"
		}
		said = did
	}
	return said
}

// notProbed is the doubt, where a Pod that ended was there and failed, that another one that was ready did so as well:
// its own address was not asked.
func (r *race) notProbed(v *index, w *model.Window) []Sign {
	if !slices.ContainsFunc(r.stops, func(s *podStop) bool { return !s.quiet }) {
		return nil
	}
	return v.unasked(w)
}

// unasked is the doubt that a Pod which was ready failed instead, as its own address was not asked.
func (v *index) unasked(w *model.Window) []Sign {
	for _, p := range v.pods(w) {
		if !p.TerminatingBy(w.End.Latest) && p.ReadyBy(w.Start.Latest) && v.directName(w, p) == "" {
			return []Sign{doubt(Measured, p.Name+", which was ready, has no direct target: it may have failed instead")}
		}
	}
	return nil
}

// failedAsWell is the doubt that a Pod which was ready failed at its own address as the window's requests did, or as a
// part of them.
func (v *index) failedAsWell(w *model.Window, stops []*podStop) []Sign {
	for _, s := range v.suspects(w) {
		alike := 0
		for class, n := range w.Classes {
			if s.outage.Classes[class] > 0 {
				alike += n
			}
		}
		if 10*alike >= w.Failed && !slices.ContainsFunc(stops, func(o *podStop) bool { return o.pod == s.pod }) {
			strength := Close
			if 2*alike >= w.Failed {
				strength = Watched
			}
			return []Sign{doubt(strength, fmt.Sprintf("%s failed at its own address as well (%s), though it was ready", s.pod.Name, quantity.ClassCounts(s.outage.Classes)))}
		}
	}
	return nil
}

// failedBefore is the doubt that a Pod had failed in the same way before it was asked to end.
func (r *race) failedBefore(v *index, w *model.Window) []Sign {
	for _, s := range r.stops {
		if len(s.fails) == 0 || s.quiet {
			continue
		}
		if e := v.failedSo(w, s.pod, s.fails[0]); e != nil {
			return []Sign{{model.Evidence{Target: s.target, At: &e.Start,
				Text: fmt.Sprintf("%s had failed at its own address before its deletion as well: %s", s.pod.Name, quantity.ClassCounts(e.Classes))}, Watched}}
		}
	}
	return nil
}

// failedSo returns an outage of a Pod's own address before its deletion in which it failed as it did while it ended;
// nil if there was none.
func (v *index) failedSo(w *model.Window, p *model.Pod, e endFailure) *model.Window {
	for _, t := range v.directOf(w, p) {
		for i := range v.probed(t).Outages {
			u := &v.probed(t).Outages[i]
			if u.Kind != model.Slow && u.Start.Latest < e.from.Earliest && !v.canBeItsEnd(p, t, u) && (p.Ready == nil || u.End.Earliest > p.Ready.Earliest) && sharesClass(u, e.outage) {
				return u
			}
		}
	}
	return nil
}

// sharesClass reports whether requests failed alike in two windows.
func sharesClass(w, o *model.Window) bool {
	for class, n := range w.Classes {
		if n > 0 && o.Classes[class] > 0 {
			return true
		}
	}
	return false
}

// serveOn says how a Pod is to serve for so long after it was asked to end.
func (v *index) serveOn(s *podStop, c *formCount, needs time.Duration) string {
	least := quantity.Span(needs)
	hook, stops := v.stoppingHook(s.pod)
	switch {
	case s.restarted():
		return fmt.Sprintf("let SIGTERM end the server and not restart it (STOPSIGNAL of the image, or a preStop hook with the right signal), and keep serving ≥ %s before that (a preStop sleep)", least)
	case stops && hook.delays() == 0:
		return fmt.Sprintf("let the preStop hook of %s sleep ≥ %s before it runs %s", hook.container, least, hook.runs())
	case c.most() == answersErrors && len(v.containersOf(s.pod)) > 1:
		return fmt.Sprintf("keep serving ≥ %s after SIGTERM in every container that requests pass through: the same preStop sleep for %s", least, v.sleeps(s.pod))
	}
	return fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down)", least)
}

// sleeps names the containers of a Pod, with what their hooks are: "nginx (sleeps 5 s) and php-fpm (has no hook)".
func (v *index) sleeps(p *model.Pod) string {
	hooks := v.hooksOf(p)
	names := v.containersOf(p)
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
	return namedOf(names)
}

// begun says what the Pod, or Pods, had done when requests to them began to fail: "had stopped".
func (c *formCount) begun(v *index, target string) string {
	if c == nil {
		return "had stopped"
	}
	switch c.most() {
	case cutsAll:
		return "had stopped"
	case answersErrors:
		return "had begun to answer with " + c.answer(v, target)
	case isSilent:
		return "had ceased to answer, but still accepted connections"
	case failsTLS:
		return "had ceased to complete TLS handshakes"
	}
	return "had stopped"
}

// why says what a Pod that ends so is like, as far as that is known; it begins with a semicolon.
func (v *index) why(s *podStop, c *formCount) string {
	if c == nil {
		return s.afterwards()
	}
	text := ""
	switch names := v.containersOf(s.pod); {
	case c.most() == answersErrors && c.asksAnother() && len(names) > 1:
		text = fmt.Sprintf("; a proxy answers so when it cannot reach its server: one of the Pod's containers (%s) ended before the other", strings.Join(names, ", "))
	case c.most() == answersErrors && len(names) > 1:
		text = fmt.Sprintf("; one of its containers (%s) may have ended before the other, or its server answers so while it ends", strings.Join(names, ", "))
	case c.most() == answersErrors:
		text = "; its server answers so while it ends"
	case c.most() == isSilent:
		text = "; a process of it that was busy may still have held the socket"
	}
	if hook := v.endingHook(s.pod); hook != "" && c.most() != answersErrors {
		text += "; " + hook
	}
	return text + s.afterwards()
}

// asksAnother reports whether the answers are those of a proxy that cannot reach what is behind it.
func (c *formCount) asksAnother() bool {
	const unavailable = 14 // grpc-status
	return c.status[502]+c.status[503]+c.status[504]+c.status[unavailable] > 0
}

// cannotReach reports whether the answers are those of a proxy, and of nobody else, that cannot reach its server.
func (c *formCount) cannotReach() bool { return c != nil && c.status[502]+c.status[504] > 0 }

// restarted reports whether the Pod listened again after it had ceased to, before it ended.
func (s *podStop) restarted() bool {
	return slices.ContainsFunc(s.fails, func(e endFailure) bool { return e.again && some(e.outage.Classes, timeline.Refused) > 0 })
}

// afterwards says that the Pod answered again before it ended, or answered some requests meanwhile; "" if it did not.
func (s *podStop) afterwards() string {
	for _, e := range s.fails {
		if !e.again {
			continue
		}
		text := fmt.Sprintf("; %s later it answered well again", quantity.Length(e.outage.Length, false))
		if s.restarted() {
			text += ": SIGTERM, or its preStop hook, restarts its server and does not end it"
		}
		return text
	}
	return ""
}

// containersOf names the containers of a Pod that run for as long as it does, as far as its template is known.
func (v *index) containersOf(p *model.Pod) (names []string) {
	if t := v.templates[p.Template]; t != nil {
		for _, c := range t.Containers {
			names = append(names, c.Name)
		}
	}
	return names
}

// share is for how much of its requests the Pod failed at its own address: 1 if that is not known.
func (s *podStop) share() float64 {
	sent, failed := 0, 0
	for _, e := range s.fails {
		sent, failed = sent+e.outage.Sent, failed+e.outage.Failed
	}
	if failed == 0 || float64(failed) >= nearlyAll*float64(sent) {
		return 1
	}
	return float64(failed) / float64(sent)
}

// until is until when the Pod failed at its own address; never to end if it did not answer well again.
func (s *podStop) until() time.Duration {
	if n := len(s.fails); n > 0 && s.fails[n-1].again {
		return s.fails[n-1].outage.End.Latest
	}
	return model.Never
}
