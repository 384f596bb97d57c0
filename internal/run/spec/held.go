package spec

import (
	"cmp"
	"slices"
	"time"

	"lapse/internal/run/exit"
	"lapse/loadgen"
	"lapse/timeline"
)

// DefaultHeld is the number of connections that a held target keeps open without --held.
const DefaultHeld = 100

// mostHeld is the largest number of connections of one target: there are fewer than 65 535 local ports towards one
// address.
const mostHeld = 25_000

// holds reports whether the run keeps connections open.
func (s *Spec) holds() bool { return slices.Contains(s.Kinds, string(timeline.Held)) }

func isJudged(kind string) bool { return timeline.TargetKind(kind).Judged() }

// checkHeld checks --held and --heartbeat, and adds the kind to --target where --held was given.
func checkHeld(o *Options) error {
	if o.carried {
		return nil
	}
	switch {
	case o.Held < 0 || o.Held == 0 && o.WasGiven("held"):
		return exit.Usagef("as in --held 100", "held %d: must be at least 1 connection", o.Held)
	case o.Held > mostHeld:
		return exit.Usagef("hold them from several nodes, with --from",
			"held %d: at most %d connections", o.Held, mostHeld)
	case o.Held > 0 && !o.holds():
		o.Kinds = append(slices.Clone(o.Kinds), string(timeline.Held))
	case o.Held == 0 && o.WasGiven("heartbeat") && !o.holds():
		return exit.Usagef("add --held 100, or drop it",
			"--heartbeat is for connections that are held, and there are none")
	}
	if !o.holds() {
		o.Heartbeat = 0
		return nil
	}
	o.Held = cmp.Or(o.Held, DefaultHeld)
	switch {
	case o.Heartbeat < o.Timeout:
		return exit.Usagef("as in --heartbeat 5s, or a shorter --timeout",
			"heartbeat %v: must not be shorter than the timeout of %v, "+
				"so that one heartbeat is open on a connection at most",
			o.Heartbeat, o.Timeout)
	case o.Heartbeat > time.Hour:
		return exit.Usagef("as in --heartbeat 5s", "heartbeat %v: must be at most 1h", o.Heartbeat)
	case o.Metrics != "" && !slices.ContainsFunc(o.Kinds, isJudged):
		return exit.Usagef("as in --target new,held", "--metrics counts requests, and --target held alone sends none")
	case float64(o.Held)/o.Heartbeat.Seconds() > loadgen.MaxRate:
		return exit.Usagef("hold fewer, or ask them less often",
			"%d connections with a heartbeat every %v are more than %d heartbeats per second",
			o.Held, o.Heartbeat, loadgen.MaxRate)
	}
	return nil
}

// holdOpen makes p keep n connections open.
func (s *Spec) holdOpen(p *loadgen.Probe, n int) {
	p.Connections, p.Target.Connections = n, n
	p.Rate = float64(n) / s.Heartbeat.Seconds()
}

// heldShare returns how many of all connections the ith of n nodes holds.
func heldShare(all, i, n int) int {
	share := all / n
	if i < all%n {
		share++
	}
	return share
}
