package connections

import (
	"fmt"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// idle-timeout: the server, or something on the way to it, closes connections on which nothing was sent for some
// time. Each is closed at the same age of its last answer, whenever that was.
//
//	conn 0   ok ──── 2 s ──── x                ok ──── 2 s ──── x
//	conn 1             ok ──── 2 s ──── x                ok ──── 2 s ──── x

var IdleTimeout = rule.Rule{
	Name: "idle-timeout",
	Doc:  "Connections were closed because they had been idle for some time, always the same.",
	Held: testIdleTimeout,
}

// This many cuts at ages this close to each other, relative to the heartbeat, are no chance: three cuts at random ages
// are so 1 in 130 times.
const (
	leastAge      = 500 * time.Millisecond // no server closes idle connections sooner
	leastIdleCuts = 3
	alikeAges     = 20
)

func testIdleTimeout(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	beat := v.Traffic.Target(w).Heartbeat()
	ages := idleAges(v.Traffic.CutsIn(w), beat)
	switch {
	case len(ages) < leastIdleCuts:
		ages = idleAges(v.Cuts[v.Traffic.Target(w).ID], beat) // one window may hold too few
		if len(ages) < leastIdleCuts || len(idleAges(v.Traffic.CutsIn(w), beat)) == 0 {
			return rule.No("fewer than 3 connections were closed between two heartbeats")
		}
	}
	age := ages[len(ages)/2]
	alike := slices.DeleteFunc(slices.Clone(ages), func(a time.Duration) bool {
		return (a - age).Abs() > beat/alikeAges/2
	})
	if 10*len(alike) < 9*len(ages) {
		return rule.No(fmt.Sprintf("the connections were idle for different times when they were closed, %s to %s",
			quantity.Span(ages[0]), quantity.Span(ages[len(ages)-1])))
	}
	least, most := alike[0], alike[len(alike)-1]
	own := len(idleAges(v.Traffic.CutsIn(w), beat))
	f := rule.Finding{
		Text: fmt.Sprintf("%s closed, %s, when the last answer was %s old (%s to %s): the server, or something on "+
			"the way, keeps idle connections no longer",
			quantity.Count(evidence.CutConns(v.Traffic.CutsIn(w)), "connection")+" "+
				quantity.Was(evidence.CutConns(v.Traffic.CutsIn(w))), quantity.Count(len(alike), "time"),
			quantity.Span(age), quantity.Span(least), quantity.Span(most)),
		Fix: fmt.Sprintf("let the server keep idle connections for longer than the %s between two heartbeats, "+
			"or send these more often than every %s", quantity.Span(beat), quantity.Span(least)),
		For: []evidence.Sign{evidence.Measured.Target(w.Target, &w.Start,
			fmt.Sprintf("the ages of the last answers are within %s of each other, with heartbeats every %s",
				quantity.Span(most-least), quantity.Span(beat)))},
		Measures: []model.Measure{{Name: "idle-age", Object: w.Target, Length: model.Length{Min: least, Max: most}}},
	}
	for _, p := range v.Services.Pods(w) {
		if p.Exited != nil && p.Exited.Overlaps(w.Span()) && p.TerminatingBy(p.Exited.Latest) {
			f.Oppose(evidence.Close.Doubt(p.Name + " exited meanwhile"))
			break
		}
	}
	f.ExplainsAtMost(w, min(own, w.Failed))
	return f
}

// idleAges returns the ages of the last answer on connections that were closed while no heartbeat was open, sorted. A
// connection that was found dead by a heartbeat may have been so for as long as it was idle.
func idleAges(cuts []model.HeldCut, beat time.Duration) (ages []time.Duration) {
	for _, c := range cuts {
		closed := c.Class == timeline.EOF.String() || c.Class == timeline.Reset.String()
		if age := c.Idle.Min; closed && !c.Warned && !c.Stopped && age >= leastAge && age < beat-beat/alikeAges {
			ages = append(ages, age)
		}
	}
	slices.Sort(ages)
	return ages
}
