package windows

import (
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Answers holds when each backend of a target, by the name in its replies, answered first and last, and how the
// requests around these ended. While a route to it is one of N, k requests in a row that others answer have a
// probability of (1−1/N)^k: enough of them prove that there is none.
type Answers struct {
	n    int
	ring []answer // the latest; number i lies at i % mostAround
	of   map[uint16]answered
}

// An answer is how a request ended that is evidence of the target.
type answer struct {
	sent, done time.Duration
	backend    uint16
	ok         bool
}

// An answered is what is known of one backend.
type answered struct {
	first, last answer
	at          int   // the number of the last
	before      []row // of others, up to the first: when they began
	after       []row // of others, after the last: when they were done; nil while the ring holds them
}

// A row is a number of successes in a row, and when they began, or were done.
type row struct {
	n  int
	at time.Duration
}

// mostAround is how many answers are kept in all. Of the rows around a backend's answers only some lengths are kept,
// each a quarter longer than the one before.
const mostAround = 1024

// take reads the next request, by Sent.
func (a *Answers) take(r *Sample) {
	if r.Class == timeline.DNS {
		return // it was routed nowhere
	}
	now := answer{sent: r.Sent, done: r.Done, backend: r.Backend, ok: r.Class == timeline.OK}
	if now.ok && now.backend != 0 {
		b, known := a.of[now.backend]
		if !known {
			b.first, b.before = now, rowsBefore(a.since(0))
		}
		b.last, b.at, b.after = now, a.n, nil
		if a.of == nil {
			a.of = map[uint16]answered{}
		}
		a.of[now.backend] = b
	}
	if len(a.ring) < mostAround {
		a.ring = append(a.ring, now)
		a.n++
		return
	}
	slot := a.n % mostAround
	if old := a.ring[slot]; old.ok {
		if b, known := a.of[old.backend]; known && b.at == a.n-mostAround {
			b.after = rowsAfter(a.since(b.at + 1))
			a.of[old.backend] = b
		}
	}
	a.ring[slot] = now
	a.n++
}

// since returns the answers from number i on, as far as the ring has them.
func (a *Answers) since(i int) []answer {
	var list []answer
	for i = max(i, a.n-len(a.ring)); i < a.n; i++ {
		list = append(list, a.ring[i%mostAround])
	}
	return list
}

// rowsBefore returns the rows of successes that end with the last of a list.
func rowsBefore(list []answer) []row {
	rows, next := []row{}, 1
	for i, before := range slices.Backward(list) {
		if !before.ok {
			break
		}
		if n := len(list) - i; n == next {
			rows, next = append(rows, row{n, before.sent}), longer(n)
		}
	}
	return rows
}

// rowsAfter returns the first rows of each length after the last failure. A row before it may have come by chance,
// while a route that makes requests fail was there.
func rowsAfter(list []answer) []row {
	rows, next, n, done := []row{}, 1, 0, time.Duration(0)
	for _, after := range list {
		done = max(done, after.done)
		if n++; !after.ok {
			rows, next, n = rows[:0], 1, 0
		}
		if n == next {
			rows, next = append(rows, row{n, done}), longer(n)
		}
	}
	return rows
}

func longer(n int) int { return n + 1 + n/4 }

// ofLength returns the shortest row of n or more.
func ofLength(rows []row, n int) (at time.Duration, ok bool) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.n >= n })
	if i < 0 {
		return 0, false
	}
	return rows[i].at, true
}

func (a *Answers) clone() Answers {
	return Answers{n: a.n, ring: slices.Clone(a.ring), of: maps.Clone(a.of)}
}

// Left bounds when the last request was routed to a backend: not before it answered last, and not after k successes
// in a row that followed, all of others. Latest is [model.Never] where fewer are known; ok is false if the backend
// never answered.
func (a *Answers) Left(backend uint16, k int) (left model.Instant, ok bool) {
	b, known := a.of[backend]
	if !known {
		return left, false
	}
	after := b.after
	if after == nil {
		after = rowsAfter(a.since(b.at + 1))
	}
	left = model.Instant{Earliest: b.last.sent, Latest: model.Never}
	if done, ok := ofLength(after, k); ok {
		left.Latest = max(done, b.last.done)
	}
	return left, true
}

// Came bounds when the first request could be routed to a backend: not before k successes in a row of others, and not
// after its first answer. Earliest is [model.Unbounded] where fewer are known.
func (a *Answers) Came(backend uint16, k int) (came model.Instant, ok bool) {
	b, known := a.of[backend]
	if !known {
		return came, false
	}
	came = model.Instant{Earliest: model.Unbounded, Latest: b.first.done}
	if begun, ok := ofLength(b.before, k); ok {
		came.Earliest = begun
	}
	return came, true
}
