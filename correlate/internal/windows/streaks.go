package windows

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Streaks are a target's successes in a row, between its failures. While a route to a stopped Pod is one of N, k
// successes in a row have a probability of (1−1/N)^k: enough of them prove that the route is gone.
//
// A long streak is not kept whole. Its first and last successes are, because questions are about times near failures.
// Of those in between only some are, fewer the longer the streak: they answer for failures of another target.
type Streaks struct {
	ended   []streak
	current streak
	kept    int // marks in ended
}

// A streak is a row of successes.
type streak struct {
	from time.Duration // Sent of the failure before it, or -1
	to   time.Duration // Sent of the last success
	n    int
	done time.Duration // when all of them were done
	head []mark
	mid  []mark // between head and tail, rest apart at least
	tail []mark
	rest time.Duration
}

// A mark says that success number n of a streak was sent at an instant, and that by another all up to it were done.
type mark struct {
	n          int
	sent, done time.Duration
}

const (
	shortestStreak = 4                      // one with fewer successes is not kept
	mostMarks      = 1 << 15                // of streaks that are over
	headMarks      = 64                     // of one streak
	tailMarks      = 256                    // of one streak, at least
	markEvery      = 10 * time.Millisecond  // at least, between marks of a tail
	midMarks       = 256                    // of one streak, at most
	restEvery      = 100 * time.Millisecond // between these marks, while they are few enough
)

// take reads the next request, by Sent.
func (s *Streaks) take(r *Sample) {
	switch {
	case r.Class == timeline.OK:
		s.current.add(r)
	case r.Class.Failed():
		s.end()
		s.current = streak{from: r.Sent}
	}
}

// end keeps the current streak.
func (s *Streaks) end() {
	c := s.current
	if c.n < shortestStreak || s.kept >= mostMarks {
		return
	}
	c.head, c.mid, c.tail = slices.Clone(c.head), slices.Clone(c.mid), slices.Clone(c.tail)
	s.ended = append(s.ended, c)
	s.kept += len(c.head) + len(c.mid) + len(c.tail)
}

func (c *streak) add(r *Sample) {
	c.n++
	c.to, c.done = r.Sent, max(c.done, r.Done)
	m := mark{n: c.n, sent: r.Sent, done: c.done}
	if n := len(c.head); n < headMarks && (n == 0 || c.n >= c.head[n-1].n+max(1, c.n/16)) {
		c.head = append(c.head, m)
	}
	if n := len(c.tail); n == 0 || r.Sent >= c.tail[n-1].sent+markEvery {
		if n >= 2*tailMarks {
			c.thin(c.tail[:n-tailMarks])
			c.tail = c.tail[:copy(c.tail, c.tail[n-tailMarks:])]
		}
		c.tail = append(c.tail, m)
	}
}

// thin keeps some of these marks in the middle, at twice the distance each time they become too many.
func (c *streak) thin(marks []mark) {
	c.rest = max(c.rest, restEvery)
	for _, m := range marks {
		if n := len(c.mid); n > 0 && m.sent < c.mid[n-1].sent+c.rest {
			continue
		}
		if len(c.mid) == midMarks {
			for i := range midMarks / 2 {
				c.mid[i] = c.mid[2*i]
			}
			c.mid, c.rest = c.mid[:midMarks/2], 2*c.rest
		}
		c.mid = append(c.mid, m)
	}
}

// clone returns streaks that can go on while s stands still.
func (s *Streaks) clone() Streaks {
	c := *s
	c.ended = slices.Clip(c.ended)
	c.current.head, c.current.mid, c.current.tail = slices.Clone(c.current.head), slices.Clone(c.current.mid),
		slices.Clone(c.current.tail)
	return c
}

// Placed returns the streaks on another clock: each success sent as early, and done as late, as place says.
func (s *Streaks) Placed(place func(time.Duration) model.Instant) *Streaks {
	placed := &Streaks{ended: make([]streak, len(s.ended)), current: s.current.placed(place), kept: s.kept}
	for i := range s.ended {
		placed.ended[i] = s.ended[i].placed(place)
	}
	return placed
}

func (c streak) placed(place func(time.Duration) model.Instant) streak {
	if c.from >= 0 {
		c.from = place(c.from).Earliest
	}
	c.to, c.done = place(c.to).Earliest, place(c.done).Latest
	c.head, c.mid, c.tail = placedMarks(c.head, place), placedMarks(c.mid, place), placedMarks(c.tail, place)
	return c
}

// placedMarks places marks and keeps them in order where the clock jumped.
func placedMarks(marks []mark, place func(time.Duration) model.Instant) []mark {
	placed := make([]mark, len(marks))
	for i, m := range marks {
		placed[i] = mark{n: m.n, sent: place(m.sent).Earliest, done: place(m.done).Latest}
		if i > 0 {
			placed[i].done = max(placed[i].done, placed[i-1].done)
		}
	}
	for i := len(placed) - 2; i >= 0; i-- {
		placed[i].sent = min(placed[i].sent, placed[i+1].sent)
	}
	return placed
}

// Proof returns an instant by which k successes in a row, all sent since from, were done; Never if there were none.
func (s *Streaks) Proof(k int, from time.Duration) time.Duration {
	if s == nil {
		return model.Never
	}
	i, _ := slices.BinarySearchFunc(s.ended, from, func(c streak, t time.Duration) int { return cmp.Compare(c.to, t) })
	for _, c := range s.ended[i:] {
		if at := c.proof(k, from); at < model.Never {
			return at
		}
	}
	return s.current.proof(k, from)
}

func (c *streak) proof(k int, from time.Duration) time.Duration {
	before := 0 // an upper bound of those sent before from
	if c.from < from {
		m, ok := c.first(func(m mark) bool { return m.sent >= from })
		if !ok {
			return model.Never
		}
		before = m.n - 1
	}
	m, ok := c.first(func(m mark) bool { return m.n >= before+k })
	switch {
	case ok:
		return m.done
	case c.n >= before+k:
		return c.done
	}
	return model.Never
}

// first returns the first known mark that satisfies ok; all after it do, too.
func (c *streak) first(ok func(mark) bool) (best mark, found bool) {
	for _, marks := range [][]mark{c.head, c.mid, c.tail} {
		i, _ := slices.BinarySearchFunc(marks, true, func(m mark, _ bool) int {
			if ok(m) {
				return 1
			}
			return -1
		})
		if i < len(marks) && (!found || marks[i].n < best.n) {
			best, found = marks[i], true
		}
	}
	return best, found
}

// InARow returns k: how many successes in a row show with 99.9 % confidence that none of n routes leads to one Pod.
func InARow(n int) int { return InARowOfTries(n, 0) }

// InARowOfTries returns k after this many rows of successes that were too short: the confidence holds for all of them
// together.
func InARowOfTries(n, before int) int {
	if n < 2 {
		return shortestStreak
	}
	tries := float64(before+1) * float64(before+1) // the sum of 1 ÷ tries is below 2
	return max(shortestStreak, int(math.Ceil(math.Log(0.001/tries)/math.Log1p(-1/float64(n)))))
}
