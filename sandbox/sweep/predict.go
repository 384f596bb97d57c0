package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"lapse/sandbox/drill"
)

// A count is a number of failed requests, of which only bounds are known.
type count struct{ min, max int }

func (c count) String() string {
	if c.min == c.max {
		return fmt.Sprint(c.min)
	}
	return fmt.Sprintf("%d to %d", c.min, c.max)
}

func (d drain) failed() int { return d.timeline.Verdict.Failed }

// left returns how many requests would still have failed, by the drain's own curve, had its Pod served longer by this
// much. If the curve says nothing, it is any number up to those that failed.
func (d drain) left(longer time.Duration) count {
	k := d.timeline.KeepServing
	if k == nil || len(k.Left) == 0 {
		return count{0, d.failed()}
	}
	if i := slices.IndexFunc(k.Left, func(l drill.ServedLonger) bool { return l.Longer == longer }); i >= 0 {
		return count{k.Left[i].Min, k.Left[i].Max + k.Others}
	}
	if last := k.Left[len(k.Left)-1]; last.Longer < longer && last.Max == 0 {
		return count{0, k.Others}
	}
	return count{0, d.failed()}
}

// A prediction is what the curves of drains with one length say of drains with another, longer one.
type prediction struct {
	from, to time.Duration
	said     []count // by each drain of from
	was      []int   // in each drain of to
}

// predictions returns one for each pair of lengths whose difference is a length, too. The drains are of one mode.
func predictions(drains []drain) (all []prediction) {
	of := func(length time.Duration) []drain {
		return slices.DeleteFunc(slices.Clone(drains), func(d drain) bool { return d.ServesOn != length })
	}
	for _, from := range servesOn {
		for _, to := range servesOn {
			if to <= from || !slices.Contains(servesOn, to-from) {
				continue
			}
			p := prediction{from: from, to: to}
			for _, d := range of(from) {
				p.said = append(p.said, d.left(to-from))
			}
			for _, d := range of(to) {
				p.was = append(p.was, d.failed())
			}
			if len(p.said) > 0 && len(p.was) > 0 {
				all = append(all, p)
			}
		}
	}
	return all
}

// sums returns what was said of all drains together, and what was.
func (p prediction) sums() (said count, was int) {
	for _, c := range p.said {
		said.min, said.max = said.min+c.min, said.max+c.max
	}
	return said, sum(p.was)
}

// The outcomes of a prediction.
const (
	inside     = "inside the bars"
	scattered  = "outside, within the scatter"
	tooFew     = "outside, too few drains to tell"
	contradict = "**does not hold**"
)

// level is how unlikely a difference must be by chance to contradict a prediction. Each is tested on two sides.
const level = 1. / 500

// outcome compares the sums. Drains differ, whatever the length: so where the sum of those that were lies outside the
// bars, the question is whether the drains of the two kinds differ more than drains of one kind do. See [chance].
func (p prediction) outcome() string {
	said, was := p.sums()
	if said.min <= was && was <= said.max {
		return inside
	}
	more, less := p.chances()
	switch {
	case min(more, less) <= level:
		return contradict
	case lowestChance(len(p.said), len(p.was)) > level:
		return tooFew
	default:
		return scattered
	}
}

// chances returns how likely chance alone makes more requests fail than the curves allow, and how likely fewer.
func (p prediction) chances() (more, less float64) {
	var least, most []int
	for _, c := range p.said {
		least, most = append(least, c.min), append(most, c.max)
	}
	return chance(p.was, most), chance(least, p.was)
}

// chance returns the one-sided p-value of an exact permutation test: how likely the sum of a is at least as large as it
// is, if the values are dealt out to a and b at random.
func chance(a, b []int) float64 {
	all := slices.Concat(a, b)
	splits, asLarge := 0, 0
	for in := range uint64(1) << len(all) {
		if bits.OnesCount64(in) != len(a) {
			continue
		}
		of := 0
		for i, v := range all {
			if in&(1<<i) != 0 {
				of += v
			}
		}
		if splits++; of >= sum(a) {
			asLarge++
		}
	}
	return float64(asLarge) / float64(splits)
}

// lowestChance returns what [chance] is if each of a values is above each of b.
func lowestChance(a, b int) float64 {
	splits := 1.
	for i := range a {
		splits = splits * float64(b+i+1) / float64(i+1)
	}
	return 1 / splits
}

func sum(values []int) (total int) {
	for _, v := range values {
		total += v
	}
	return total
}

// judgement returns an error for what does not hold, or shows nothing, in any mode.
func judgement(drains []drain) error {
	var errs []error
	for _, group := range byMode(drains) {
		mode := group[0].Mode
		lost, without := 0, 0
		for _, d := range group {
			if d.ServesOn > 0 {
				continue
			}
			if lost += d.failed(); d.failed() > 0 && d.timeline.KeepServing == nil {
				without++
			}
		}
		if lost == 0 {
			errs = append(errs, fmt.Errorf("%s: no request failed where the servers stop at SIGTERM: nothing was "+
				"tested", mode))
		}
		if without > 0 {
			errs = append(errs, fmt.Errorf("%s: %d drains lost requests and have no curve", mode, without))
		}
		for _, p := range predictions(group) {
			if is := p.outcome(); is == contradict || is == tooFew {
				said, was := p.sums()
				errs = append(errs, fmt.Errorf("%s: serving %v instead of %v was to leave %v, and %d failed: %s",
					mode, p.to, p.from, said, was, is))
			}
		}
	}
	return errors.Join(errs...)
}

// byMode returns the drains of each mode, by length and number.
func byMode(drains []drain) [][]drain {
	groups := drill.Group(drains, func(d drain) string { return d.Mode })
	for _, g := range groups {
		slices.SortFunc(g, func(a, b drain) int {
			return cmp.Or(cmp.Compare(a.ServesOn, b.ServesOn), cmp.Compare(a.Number, b.Number))
		})
	}
	return groups
}
