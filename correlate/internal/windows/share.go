package windows

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// ConfirmationsNeeded returns k: how many successes in a row prove health, given how many requests failed and how many
// succeeded from the first failure to the last.
//
// While a fault fails a share p of requests, k successes in a row have a probability of (1−p)^k. The measured share,
// failed ÷ sent, is too large, because a window begins and ends with a failure: one failure less corrects this. The
// limit of 0.1 % leaves room for the uncertainty of p in few requests, so that both brackets hold in 99 % of cases: see
// docs/decisions/0003-how-many-successes-prove-health.md.
//
// If no request succeeded, half a request counts as a success. From [FewFailures] failures on, one success is enough.
func ConfirmationsNeeded(failed, succeeded int) int {
	lost, sent := float64(failed-1), float64(failed+succeeded)
	if succeeded == 0 {
		lost, sent = lost+0.5, sent+1
	}
	return int(math.Ceil(math.Log(0.001) / math.Log1p(-lost/sent)))
}

// FewFailures is the number of failures, without a success between them, from which on every request is taken to
// fail, so that one success proves health. Of the faults that fail every second request at random, one in 128 fails
// this many in a row.
const FewFailures = 8

// confirmations are k at the start and at the end of a window.
type confirmations struct{ start, end int }

// BoundaryFailures are the numbers of failures at an end of a window by which the share that fails there is
// estimated: by each of them.
var BoundaryFailures = [...]int{3, 5, 10, mostBoundaryFailures}

const mostBoundaryFailures = 20

// boundaryCounts hold what is needed to estimate the share of requests that fail at the start and at the end of a
// window. A window can hold an outage of every request and, less than join later, one of a few: then the share in the
// whole window describes neither.
//
//	x x x x x x ok x ok ok ok x ok ok ok ok x ok   →   at the start one success proves health, at the end one does not
type boundaryCounts struct {
	first [mostBoundaryFailures + 1]int // successes inside, by the number of failures so far
	last  [mostBoundaryFailures]int     // successes inside when the last ones had failed, in turn

	inARow, mostInARow int // failures without a success sent between them: the last ones, and at most
}

// note adds a failure: how many had failed with it, and how many successes had been sent since the first failure.
func (e *boundaryCounts) note(failed, succeeded int) {
	if failed <= mostBoundaryFailures {
		e.first[failed] = succeeded
	}
	if failed > 1 && e.last[(failed-1)%mostBoundaryFailures] != succeeded {
		e.inARow = 0
	}
	e.inARow++
	e.mostInARow = max(e.mostInARow, e.inARow)
	e.last[failed%mostBoundaryFailures] = succeeded
}

// succeededAmid returns how many successes were sent between the first failure and the last.
func (e *boundaryCounts) succeededAmid(failed int) int { return e.last[failed%mostBoundaryFailures] }

// needed returns what the share in the whole window requires, or more where the share at one end is smaller. Where no
// success is inside, one is enough only if enough failures came in a row: else the successes that were sent among
// them may be those that a share spares.
//
//	x ok x x x x x x x x x ok   →   one success; the first ok may have been decided before all failed
//	x ok x x ok x x x ok x ok   →   several, also where failures are known so late that no ok is proven to lie inside
func (e *boundaryCounts) needed(failed, inside int) confirmations {
	if inside == 0 && e.mostInARow >= FewFailures {
		return confirmations{1, 1}
	}
	succeeded := e.succeededAmid(failed)
	all := ConfirmationsNeeded(failed, succeeded)
	p := confirmations{all, all}
	for _, n := range BoundaryFailures {
		if n >= failed {
			break
		}
		since := e.last[(failed-n+1)%mostBoundaryFailures] // when the first of the last n had failed
		p.start = max(p.start, ConfirmationsNeeded(n, e.first[n]))
		p.end = max(p.end, ConfirmationsNeeded(n, succeeded-since))
	}
	return p
}

// boundShare bounds the share of requests that failed.
func (w *window) boundShare() {
	w.shareLow, _ = ShareInterval(w.failed, w.failed+w.amid)
	_, w.shareHigh = ShareInterval(w.failed, w.failed+w.inside+w.confirmed.start+w.confirmed.end)
}

// ShareInterval returns the Clopper-Pearson interval for the share of requests that fail, if failed of n
// did. It holds the truth with a probability of at least 99 %, whatever the truth is.
func ShareInterval(failed, n int) (low, high float64) { return ClopperPearson(failed, n, 0.005) }

// ClopperPearson returns bounds of the share of which k in n independent draws are a sample. Each bound is wrong with a
// probability of tail at most, whatever the share is. Of no draws they are 0 and 1.
func ClopperPearson(k, n int, tail float64) (low, high float64) {
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(float64(k), float64(n-k+1), tail)
	}
	if k < n {
		high = mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-tail)
	}
	return low, high
}
