// Package held judges what became of the connections of a held target: from the changes on record it makes cuts, each
// with its bracket and how long the connection was missing, and windows in which connections were cut. It knows one
// clock and no word of Kubernetes.
//
//	conn 0   opened ─────────── cut  failed  opened ────────────────
//	conn 1   opened ─────────── cut  opened ───────────── cut opened ─
//	windows                    └────────────┘             └────┘
package held

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Ledger takes in changes, in any order. The zero value is empty.
type Ledger struct {
	changes []numbered
	sorted  bool
}

type numbered struct {
	seq uint64
	timeline.HeldChange
}

// Add takes in a change with its number among those of its source.
func (l *Ledger) Add(seq uint64, c timeline.HeldChange) {
	l.sorted = l.sorted && (len(l.changes) == 0 || l.changes[len(l.changes)-1].seq < seq)
	l.changes = append(l.changes, numbered{seq, c})
}

// Len returns how many changes were taken in.
func (l *Ledger) Len() int { return len(l.changes) }

// inOrder sorts the changes as they were numbered.
func (l *Ledger) inOrder() []numbered {
	if !l.sorted {
		slices.SortStableFunc(l.changes, func(a, b numbered) int { return cmp.Compare(a.seq, b.seq) })
		l.sorted = true
	}
	return l.changes
}

// Options say how a ledger is judged.
type Options struct {
	Target  timeline.Target
	Join    time.Duration       // cuts that are less than this apart are one window
	End     time.Duration       // when measuring ended, or how far it has come
	Live    bool                // more changes may come
	Backend func(uint16) string // names of backends
	Peer    func(uint16) string // addresses of peers
}

// Judge returns what became of the connections. Cuts are by when they were noticed; windows have no IDs yet.
func (l *Ledger) Judge(o Options) (h model.Held, cuts []model.HeldCut) {
	h = model.Held{Target: o.Target.Name, Connections: o.Target.Connections, Heartbeat: o.Target.Heartbeat(),
		List: []model.HeldCut{}, Windows: []model.CutWindow{}}
	b := newBook(o, &h)
	for _, c := range l.inOrder() {
		b.take(c.HeldChange)
	}
	b.close()
	slices.SortStableFunc(b.cuts, func(a, b *cut) int {
		return cmp.Or(cmp.Compare(a.Cut.Latest, b.Cut.Latest), cmp.Compare(a.Conn, b.Conn))
	})
	for _, group := range b.groups() {
		h.Windows = append(h.Windows, b.window(group))
		for _, c := range group {
			c.Window = len(h.Windows) // its place, until windows have IDs
		}
	}
	cuts = make([]model.HeldCut, len(b.cuts))
	for i, c := range b.cuts {
		cuts[i] = c.HeldCut
	}
	return h, cuts
}

// A cut is one on the way to being published, with the attempts that followed it.
type cut struct {
	model.HeldCut
	attempts []timeline.HeldChange
}

// untried returns how long before an instant no attempt was made.
func (c *cut) untried(until time.Duration) time.Duration {
	last := c.Cut.Latest
	if n := len(c.attempts); n > 0 {
		last = c.attempts[n-1].At
	}
	return max(0, until-last)
}

// A conn is where one connection stands.
type conn struct {
	stood    bool // at least once
	standing bool
	backend  uint16
	cut      *cut // since when it does not stand; nil before it was ever cut, and after it was opened
	wasCut   bool
	unwarned bool
}

// A book is kept over all connections while their changes are read in order.
type book struct {
	o     Options
	h     *model.Held
	conns map[uint32]*conn
	cuts  []*cut
}

func newBook(o Options, h *model.Held) *book { return &book{o: o, h: h, conns: map[uint32]*conn{}} }

func (b *book) take(c timeline.HeldChange) {
	at := b.conns[c.Conn]
	if at == nil {
		at = &conn{}
		b.conns[c.Conn] = at
	}
	switch c.Kind {
	case timeline.HeldOpened:
		b.opened(at, c)
	case timeline.HeldFailed:
		b.h.Attempts++
		b.h.Failed = counted(b.h.Failed, c.Class.String())
		if at.cut != nil {
			at.cut.Failed++
			at.cut.attempts = append(at.cut.attempts, c)
		}
	case timeline.HeldCut:
		b.cut(at, c)
	case timeline.HeldClosed:
		b.h.Standing++
		b.h.After = counted(b.h.After, b.o.Backend(c.Backend))
		if c.Class != timeline.OK {
			b.h.Unproven++
		}
		at.standing, at.cut = false, nil
	}
}

func (b *book) opened(at *conn, c timeline.HeldChange) {
	b.h.Attempts++
	if !at.stood {
		b.h.Stood++
	}
	at.stood = true
	if cut := at.cut; cut != nil {
		cut.Waited = cut.untried(c.From)
		cut.attempts = append(cut.attempts, c)
		cut.Back, cut.After = &model.Instant{Earliest: c.From, Latest: c.At}, new(c.At-cut.Cut.Latest)
		cut.To, cut.ToAddr = b.o.Backend(c.Backend), b.o.Peer(c.Peer)
	}
	at.standing, at.backend, at.cut = true, c.Backend, nil
}

func (b *book) cut(at *conn, c timeline.HeldChange) {
	if b.h.Cuts++; b.h.Before == nil && !c.Stopped {
		for _, other := range b.conns {
			if other.standing {
				b.h.Before = counted(b.h.Before, b.o.Backend(other.backend))
			}
		}
	}
	found := &cut{HeldCut: model.HeldCut{
		Conn: int(c.Conn), Cut: model.Instant{Earliest: c.From, Latest: c.At}, Class: c.Class.String(),
		Warned: c.Warned, Stopped: c.Stopped,
		Idle: model.Length{Min: c.At - c.Answered, Max: c.At - c.From}, From: b.o.Backend(c.Backend),
		FromAddr: b.o.Peer(c.Peer),
	}}
	if c.Stopped {
		b.h.Stopped++
	} else {
		at.wasCut, at.unwarned = true, at.unwarned || !c.Warned
	}
	b.cuts = append(b.cuts, found)
	at.standing, at.cut = false, found
}

// close counts what is left when the last change was read.
func (b *book) close() {
	for _, at := range b.conns {
		if at.standing { // not closed: the run goes on, or its record breaks off
			b.h.Standing++
			b.h.After = counted(b.h.After, b.o.Backend(at.backend))
		}
		if at.wasCut {
			b.h.Cut++
		}
		if at.unwarned {
			b.h.Unwarned++
		}
		if at.cut == nil {
			continue
		}
		at.cut.Waited = at.cut.untried(b.o.End)
		if !at.cut.Stopped {
			b.h.Missing++
		}
	}
	for _, c := range b.cuts {
		if c.After != nil && !c.Stopped {
			b.h.Back = longer(b.h.Back, *c.After)
		}
	}
}

// longer makes a length hold d, too.
func longer(l *model.Length, d time.Duration) *model.Length {
	if l == nil {
		return &model.Length{Min: d, Max: d}
	}
	return &model.Length{Min: min(l.Min, d), Max: max(l.Max, d)}
}

func counted(counts map[string]int, key string) map[string]int {
	if counts == nil {
		counts = map[string]int{}
	}
	counts[key]++
	return counts
}

// groups returns the cuts that share a window, each: one begins less than join after another's connection stood again.
// The cuts are sorted.
func (b *book) groups() (groups [][]*cut) {
	var until time.Duration
	for _, c := range b.cuts {
		if c.Stopped {
			continue
		}
		if len(groups) == 0 || c.Cut.Latest >= until+b.o.Join {
			groups = append(groups, nil)
			until = 0
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], c)
		until = max(until, b.over(c))
	}
	return groups
}

// over returns when a cut's connection stood again, or when measuring ended.
func (b *book) over(c *cut) time.Duration {
	if c.Back == nil {
		return max(b.o.End, c.Cut.Latest)
	}
	return c.Back.Latest
}

// window returns the window of some cuts, by when they were noticed.
func (b *book) window(group []*cut) model.CutWindow {
	first := group[0]
	w := model.CutWindow{Window: model.Window{
		Target: b.o.Target.Name, Kind: model.CutKind, Basis: model.Exact, Sent: b.o.Target.Connections,
		Classes: map[string]int{}, Causes: []model.Cause{},
		Start: first.Cut, Cut: new(first.Cut),
	}}
	conns, unwarned := map[int]bool{}, map[int]bool{}
	var attempts []time.Duration
	for _, c := range group {
		w.Start.Earliest = min(w.Start.Earliest, c.Cut.Earliest)
		w.End.Earliest, w.End.Latest = max(w.End.Earliest, c.Cut.Latest), max(w.End.Latest, b.over(c))
		if w.Cut != nil {
			if w.Cut.Earliest, w.Cut.Latest = max(w.Cut.Earliest, c.Cut.Earliest),
				min(w.Cut.Latest, c.Cut.Latest); w.Cut.Earliest > w.Cut.Latest {
				w.Cut = nil
			}
		}
		conns[c.Conn] = true
		w.Cuts++
		w.Classes[c.Class]++
		w.From = counted(w.From, c.From)
		if !c.Warned {
			unwarned[c.Conn] = true
		}
		for _, a := range c.attempts {
			attempts = append(attempts, a.From)
			if a.Kind == timeline.HeldFailed {
				w.Refused = counted(w.Refused, a.Class.String())
			}
		}
		if c.Back == nil {
			w.End.Earliest = max(w.End.Earliest, b.over(c))
			w.Missing++
			w.Open.End = true
			continue
		}
		w.End.Earliest = max(w.End.Earliest, c.Back.Earliest)
		w.Back = longer(w.Back, *c.After)
		w.To = counted(w.To, c.To)
	}
	w.Live = b.o.Live && (w.Open.End || b.o.End < w.End.Latest+b.o.Join)
	w.Failed, w.Unwarned, w.Attempts, w.Busiest = len(conns), len(unwarned), len(attempts), busiest(attempts)
	if len(conns) < 2 {
		w.Cut = nil
	}
	w.Share = float64(w.Failed) / float64(max(1, w.Sent))
	w.Length = model.Length{Min: max(0, w.End.Earliest-w.Start.Latest), Max: w.End.Latest - w.Start.Earliest}
	return w
}

// busiest returns the most instants that lie within one second.
func busiest(instants []time.Duration) (most int) {
	slices.Sort(instants)
	from := 0
	for i, at := range instants {
		for instants[from] < at-time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
