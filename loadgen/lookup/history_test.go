package lookup

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"lapse/timeline"
)

// A server's set changes at random instants, answers take their time, and some are lost. Each event's bracket holds a
// change, and after the last event the set is the last one.
func TestBracketsHoldTheChanges(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
		var changes []time.Duration // a is in the set, then not, and so on
		for at := upTo(3 * time.Second); at < 10*time.Second; at += 200*time.Millisecond + upTo(3*time.Second) {
			changes = append(changes, at)
		}
		setAt := func(at time.Duration) []netip.Addr {
			i, _ := slices.BinarySearch(changes, at)
			if i%2 == 0 {
				return []netip.Addr{a, b}
			}
			return []netip.Addr{b}
		}
		h, events := history{patient: time.Second}, []timeline.Event(nil)
		for sent := time.Millisecond; sent < 12*time.Second; sent += Interval {
			computed := sent + upTo(30*time.Millisecond)
			o := outcome{done: computed + upTo(30*time.Millisecond), addrs: setAt(computed), ttl: 5 * time.Second}
			if lost := rng.IntN(10) == 0 || seed%3 == 0 && sent > 4*time.Second && sent < 6*time.Second; lost {
				o = outcome{done: sent + Timeout, why: "no answer"}
			}
			if e, changed := h.next(sent, o); changed {
				events = append(events, e)
			}
		}
		var before []netip.Addr
		gap := false
		for i, e := range events {
			if e.To == timeline.LookupUnanswered {
				gap = true
				continue
			}
			if i > 0 && !slices.Equal(before, e.Lookup.Addrs) && !slices.ContainsFunc(changes, func(at time.Duration) bool { return e.Since <= at && at <= e.Seen }) {
				t.Errorf("seed %d: %v is not between %v and %v", seed, changes, e.Since, e.Seen)
			}
			before = e.Lookup.Addrs
		}
		if !slices.Equal(before, setAt(12*time.Second)) || gap != (seed%3 == 0) {
			t.Errorf("seed %d: at the end %v, of %v; unanswered %v", seed, before, changes, gap)
		}
	}
}
