package windows

import (
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Answers are when each backend of a target answered first and last, by its own name, and how the requests around these ended. While a
// route to it is one of N, k requests in a row that others answer have a probability of (1−1/N)^k: enough of them prove that there is none.
type Answers struct {
	n    int
	ring []answer // the latest, of which number i lies at i % mostAround
	of   map[uint16]answered
}

// An answer is how a request ended, of those that tell something of the target.
type answer struct {
	sent, done time.Duration
	backend    uint16
	ok         bool
}

// An answered is what is known of one backend.
type answered struct {
	first, last answer
	at          int      // the number of the last
	before      []answer // the latest before the first
	after       []answer // after the last, once so many have followed that the ring no longer holds them
}

const (
	mostAround = 1024 // answers that are kept in all
	mostBefore = 256  // and of those before a first one
)

// take reads the next request, by Sent.
func (a *Answers) take(r Sample) {
	now := answer{sent: r.Sent, done: r.Done, backend: r.Backend, ok: r.Class == timeline.OK}
	if now.ok && now.backend != 0 {
		b, known := a.of[now.backend]
		if !known {
			b.first, b.before = now, a.since(a.n-mostBefore)
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
			b.after = a.since(b.at + 1)
			a.of[old.backend] = b
		}
	}
	a.ring[slot] = now
	a.n++
}

// since are the answers from number i on, as far as the ring has them.
func (a *Answers) since(i int) []answer {
	var list []answer
	for i = max(i, a.n-len(a.ring), 0); i < a.n; i++ {
		list = append(list, a.ring[i%mostAround])
	}
	return list
}

func (a *Answers) clone() Answers {
	return Answers{n: a.n, ring: slices.Clone(a.ring), of: maps.Clone(a.of)}
}

// Left bounds when the last request was routed to a backend: not before it answered last, and not after k successes in a row that followed,
// all of others. Latest is [model.Never] where fewer are known; ok is false if the backend never answered.
func (a *Answers) Left(backend uint16, k int) (left model.Instant, ok bool) {
	b, known := a.of[backend]
	if !known {
		return left, false
	}
	left = model.Instant{Earliest: b.last.sent, Latest: model.Never}
	after := b.after
	if after == nil {
		after = a.since(b.at + 1)
	}
	row, done := 0, b.last.done
	for _, next := range after {
		done = max(done, next.done)
		if row++; !next.ok {
			row = 0
		}
		if row == k {
			left.Latest = done
			break
		}
	}
	return left, true
}

// Came bounds when the first request could be routed to a backend: not before k successes in a row of others, and not after its first answer.
// Earliest is [model.Unbounded] where fewer are known.
func (a *Answers) Came(backend uint16, k int) (came model.Instant, ok bool) {
	b, known := a.of[backend]
	if !known {
		return came, false
	}
	came = model.Instant{Earliest: model.Unbounded, Latest: b.first.done}
	for row, before := range slices.Backward(b.before) {
		if !before.ok {
			break
		}
		if len(b.before)-row == k {
			came.Earliest = before.sent
			break
		}
	}
	return came, true
}
