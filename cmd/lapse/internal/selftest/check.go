package selftest

import (
	"fmt"
	"math"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A check holds what a run says against one promise, thing by thing.
type check struct {
	text    string
	things  string // what is counted
	judged  int
	wrong   []Wrong
	lacking bool   // some of what must be judged was not there
	idle    int    // things of which nothing can be said
	excuse  string // why
	also    string // more figures
}

// judge notes whether a thing is as promised. w tells of it if not.
func (c *check) judge(ok bool, w Wrong) {
	c.judged++
	if !ok {
		c.wrong = append(c.wrong, w)
	}
}

// promise is undecided where there was nothing to judge, or not enough.
func (c *check) promise() Promise {
	p := Promise{Text: c.text, Outcome: Kept}
	switch {
	case len(c.wrong) > 0:
		p.Outcome = Broken
	case c.judged == 0 || c.lacking:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("%d of %d %s", c.judged-len(c.wrong), c.judged, c.things) + also(c.idle, c.excuse) + c.also
	return p
}

// wrongly is what is wrong with a sight.
func (s Sight) wrongly(what string, at time.Duration) Wrong {
	return Wrong{Target: s.Target.Name, Class: s.Truth.Class(), What: what, At: at, Join: Join}
}

// each calls yield with every sight of a kind that was found, and what is on record of its truth.
func (t Trial) each(views []View, yield func(Sight, recorded, trace)) {
	for _, v := range views {
		on := t.Books.of(v.Target.ID)
		for i, s := range v.Sights {
			if s.Fate != Found {
				continue
			}
			if tr, ok := on.traceOf(i, s.Truth); ok {
				yield(s, on, tr)
			}
		}
	}
}

// bracketed wants a bracket at every edge, unless it ends at unobserved time: without one nothing is said that could be wrong.
func (t Trial) bracketed(views []View) *check {
	c := &check{text: "every edge has a bracket, but for those beside unobserved time", things: "edges", excuse: "beside it"}
	for _, v := range views {
		for _, s := range v.Sights {
			if s.Fate != Found {
				continue
			}
			start, end := s.windows[0].Start.Earliest, s.windows[len(s.windows)-1].End.Latest
			t.bracket(c, s, s.Start, start, "start without a bracket")
			t.bracket(c, s, s.End, end, "end without a bracket")
		}
	}
	return c
}

// bracket judges an edge; at is how far what should be its bracket reaches.
func (t Trial) bracket(c *check, s Sight, e *Edge, at time.Duration, what string) {
	unmeasured := at <= s.Target.Measured.Earliest || at >= s.Target.Measured.Latest
	if e == nil && (unmeasured || dark(t.Live, s.Target.Name, at, at)) {
		c.idle++
		return
	}
	c.judge(e != nil, s.wrongly(what, at))
}

// narrow wants no bracket to be wider than the recording makes it: from the good answer before the outage to the first
// failure, and from the last failure to the good answer after it. Where one good answer proves nothing it is the
// n-th; see proofs.
func (t Trial) narrow(views []View) *check {
	c := &check{text: "no bracket is wider than the requests beside the edge make it", things: "brackets"}
	t.each(views, func(s Sight, on recorded, tr trace) {
		w, one := s.window()
		n := s.Truth.proofs(w.Basis, len(tr.spoilt))
		if !one || n == 0 {
			return
		}
		good := func(f flight) bool { return f.class == timeline.OK && !s.Truth.spoils(f) }
		if before, ok := on.lastGood(n, tr, good); ok && s.Start != nil {
			c.judge(within(s.Start.Bracket, before, tr.known), s.wider("start", s.Start, before, tr.known))
		}
		if after, ok := on.nextGood(n, tr, good); ok && s.End != nil {
			lasted := tr.lasted()
			c.judge(within(s.End.Bracket, lasted, after), s.wider("end", s.End, lasted, after))
		}
	})
	return c
}

func within(bracket model.Instant, from, to time.Duration) bool {
	return from <= bracket.Earliest && bracket.Latest <= to
}

func (s Sight) wider(side string, e *Edge, from, to time.Duration) Wrong {
	w := s.wrongly(side+" too wide", e.Bracket.Earliest)
	w.Detail = fmt.Sprintf("to %.6f, not within %.6f to %.6f", e.Bracket.Latest.Seconds(), from.Seconds(), to.Seconds())
	return w
}

// proofs are how many good answers beside an outage may be needed to prove that it was over. If all requests fail, one is.
// Of a share p it takes k = ln 0.001 ÷ ln(1−p), see decision 3. But how large a share is must be told from
// few requests, so p may be taken for a third: of 20 failures, that few never come of it by chance. And of an outage
// that does not say that its brackets are exact, because some of it was too short or too slow to tell, nothing
// worse is to be thought than that half of the requests failed; of fewer than three failures nothing at all, and it is 0.
func (t Truth) proofs(b model.Basis, spoilt int) int {
	switch {
	case t.Class() == Random:
		return proofs(t.Outages[0].Share / 3)
	case b == model.Exact:
		return 1
	case spoilt < 3:
		return 0
	}
	return proofs(0.5 / 3)
}

func proofs(share float64) int { return int(math.Ceil(math.Log(0.001) / math.Log1p(-share))) }

// lasted is until when an outage surely lasted: until its last request was sent. One for which there was no free connection was
// never sent; it tells of one that was, up to Timeout before.
func (tr trace) lasted() time.Duration {
	last := tr.spoilt[len(tr.spoilt)-1]
	if last.class == timeline.NoSlot {
		return last.sent - Timeout
	}
	return last.sent
}

// kinds wants an outage of every request to be called one, with brackets that are exact if enough of them failed, and one of a share to be called a share; and
// each is to be one window. Only what cannot be anything else is judged, and something of both kinds must be.
func (t Trial) kinds(views []View) *check {
	c := &check{text: "an outage of every request is called that, and exact if 8 failed; one of a share is not", things: "windows"}
	judged := map[model.WindowKind]int{}
	t.each(views, func(s Sight, _ recorded, tr trace) {
		kind, basis := s.must(tr)
		margin := 2 * s.interval()
		if kind == "" || s.shared || dark(t.Live, s.Target.Name, s.Truth.Start.From-margin, s.Truth.End.To+margin) {
			return
		}
		w, one := s.window()
		wrong := s.wrongly(fmt.Sprintf("not %s, %s", kind, basis), s.Truth.Start.From)
		wrong.Detail = fmt.Sprintf("%d windows: %s, %s", len(s.windows), s.windows[0].Kind, s.windows[0].Basis)
		c.judge(one && w.Kind == kind && w.Basis == basis, wrong)
		judged[kind]++
	})
	c.lacking = judged[model.Outage] == 0 || judged[model.Partial] == 0
	c.also = fmt.Sprintf(", %d of every request and %d of a share", judged[model.Outage], judged[model.Partial])
	return c
}

// enough requests have failed for an outage of every request to be exact: see [correlate.Exact].
const enough = 8

// must is what the requests leave no doubt that an outage is to be called; "" if they leave any. An outage of every request leaves none
// if it was three times as long as any answer took until then: had it been a share, good answers would have come within. (A request
// sent within that the server read when it was over has a good answer all the same.) A share leaves none if some did.
func (s Sight) must(tr trace) (model.WindowKind, model.Basis) {
	switch {
	case tr.reach >= Join:
	case s.Truth.Class() == Random && tr.among >= 3:
		return model.Partial, model.Statistical
	case !s.Truth.Class().total() || !tr.fitting || tr.amid > 0 || tr.last()-tr.known <= 3*tr.answer:
	case len(tr.spoilt) >= enough:
		return model.Outage, model.Exact
	case len(tr.spoilt) >= 3:
		return model.Outage, model.Statistical
	}
	return "", ""
}

// lengths wants a window's length, downtime and blackout to hold the truth, if both brackets do. The downtime of a share is that
// share of the length: how long it would have lasted, had every request failed. Slow answers are none. And the blackout
// within a share is a matter of chance, which nobody keeps books of.
func (t Trial) lengths(views []View) *check {
	c := &check{text: "where both brackets hold the truth, so do length, downtime and blackout", things: "windows"}
	t.each(views, func(s Sight, on recorded, tr trace) {
		w, one := s.window()
		if !one || s.Start == nil || s.End == nil || !s.Start.Held || !s.End.Held || dark(t.Live, s.Target.Name, w.Start.Earliest, w.End.Latest) {
			return
		}
		whole := model.Length{Min: s.Truth.Length(), Max: s.Truth.End.To - s.Truth.Start.From}
		down, blackout := whole, w.Blackout
		switch s.Truth.Class() {
		case Slow:
			down, blackout = model.Length{}, nil
		case Random:
			share := on.share(s.Truth, len(tr.spoilt))
			blackout = nil
			down = model.Length{Min: scale(whole.Min, share), Max: scale(whole.Max, share)}
		}
		wrong := s.wrongly("length", s.Truth.Start.From)
		wrong.Detail = fmt.Sprintf("length %v to %v, downtime %v to %v; was %v and %v",
			w.Length.Min, w.Length.Max, w.Downtime.Min, w.Downtime.Max, whole.Min, down.Min)
		c.judge(holds(w.Length, whole) && holds(w.Downtime, down) && (blackout == nil || holds(*blackout, whole)), wrong)
	})
	return c
}

func holds(l, truth model.Length) bool { return l.Min <= truth.Max && truth.Min <= l.Max }

func scale(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * share)
}

// share is which part of the requests of a target that an outage met was spoilt by it.
func (r recorded) share(t Truth, spoilt int) float64 {
	spared := r.count(func(f flight) bool {
		return f.class == timeline.OK && f.sent >= t.Start.To && f.done <= t.End.From
	})
	return float64(spoilt) / float64(spoilt+spared)
}
