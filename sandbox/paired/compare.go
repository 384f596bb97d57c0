package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// A pair is a drain with Lapse and one without.
type pair struct{ with, without drain }

// byMode returns the whole pairs of each mode.
func byMode(drains []drain) (groups [][]pair) {
	drains = slices.SortedStableFunc(slices.Values(drains), func(a, b drain) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Pair, b.Pair))
	})
	var pairs []pair
	for i := 1; i < len(drains); i++ {
		switch a, b := drains[i-1], drains[i]; {
		case a.Mode != b.Mode || a.Pair != b.Pair || a.Lapse == b.Lapse:
		case a.Lapse:
			pairs = append(pairs, pair{with: a, without: b})
		default:
			pairs = append(pairs, pair{with: b, without: a})
		}
	}
	return drill.Group(pairs, func(p pair) string { return p.with.Mode })
}

// differences returns in what the drains of a pair ended differently, apart from the time they took.
func (p pair) differences() (found []string) {
	with, without := p.with.Outcome, p.without.Outcome
	say := func(what string, with, without any) {
		found = append(found, fmt.Sprintf("pair %d: %s %v with Lapse, %v without", p.with.Pair, what, with, without))
	}
	if with.ExitCode != without.ExitCode {
		say("exit code", with.ExitCode, without.ExitCode)
	}
	if !slices.Equal(with.evicted(), without.evicted()) {
		say("evicted", with.evicted(), without.evicted())
	}
	if !slices.Equal(with.Gone, without.Gone) {
		say("ended", with.Gone, without.Gone)
	}
	return found
}

// A measure is a length that drains have.
type measure struct {
	name, short string
	of          func(outcome) time.Duration
}

var measures = []measure{
	{"`kubectl drain`", "drain", func(o outcome) time.Duration { return o.Command }},
	{"first Pod told to end → last Pod gone", "Pods", func(o outcome) time.Duration { return o.Pods }},
}

// differences returns one of each pair: with Lapse minus without.
func (m measure) differences(pairs []pair) (all []time.Duration) {
	for _, p := range pairs {
		all = append(all, m.of(p.with.Outcome)-m.of(p.without.Outcome))
	}
	return all
}

// An interval holds the median of what values are drawn from, with some confidence.
type interval struct {
	min, max   time.Duration
	confidence float64
}

// leastConfidence is the least confidence of an interval.
const leastConfidence = 0.95

// medianInterval returns the shortest interval between two of the values, as far from either end, that holds the median
// with at least [leastConfidence]. It supposes only that each value lies on either side of the median with a chance
// of one half. The median is below the value with k below it if at most k values are below the median, and as well
// above. There is no interval for fewer than 6 values.
func medianInterval(values []time.Duration) (in interval, ok bool) {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	outside, exactly := 0., math.Pow(0.5, float64(n)) // exactly: the chance that k values are below the median
	for k := range n / 2 {
		outside += 2 * exactly
		if 1-outside < leastConfidence {
			break
		}
		in, ok = interval{values[k], values[n-1-k], 1 - outside}, true
		exactly *= float64(n-k) / float64(k+1)
	}
	return in, ok
}

// judgement returns an error for each difference, in any mode.
func judgement(groups [][]pair) error {
	if len(groups) == 0 {
		return errors.New("no pairs")
	}
	var errs []error
	for _, pairs := range groups {
		mode := pairs[0].with.Mode
		for _, p := range pairs {
			if found := p.differences(); len(found) > 0 {
				errs = append(errs, fmt.Errorf("%s: %s", mode, strings.Join(found, "; ")))
			}
			if len(p.without.Outcome.Asked) != len(servers) {
				errs = append(errs, fmt.Errorf("%s: pair %d: without Lapse %d Pods were evicted, of %d",
					mode, p.without.Pair, len(p.without.Outcome.Asked), len(servers)))
			}
		}
		for _, m := range measures {
			in, ok := medianInterval(m.differences(pairs))
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("%s: %d pairs are too few to tell whether %s takes as long",
					mode, len(pairs), m.name))
			case in.min > 0 || in.max < 0:
				errs = append(errs, fmt.Errorf("%s: %s takes %v to %v longer with Lapse",
					mode, m.name, in.min, in.max))
			}
		}
	}
	return errors.Join(errs...)
}
