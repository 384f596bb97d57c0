package windows

import "math"

// ConfirmationsNeeded is k of the design: how many successes in a row prove health, if so many requests failed and so many succeeded from
// the first failure to the last.
//
// While a fault fails a share p of requests, k successes in a row have a probability of (1−p)^k.
// The measured share, failed ÷ sent, is too large, because a window begins and ends with a failure: one failure less corrects this. The
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

// FewFailures is the number of failures, without a success between them, from which on every request is taken to fail, so that one success
// proves health. Of the faults that fail every second request at random, one in 128 fails so many in a row.
const FewFailures = 8

// confirmations are k at the start and at the end of a window.
type confirmations struct{ start, end int }

// BoundaryFailures are the numbers of failures at an end of a window by which the share that fails there is estimated: by each of them.
var BoundaryFailures = [...]int{3, 5, 10, mostBoundaryFailures}

const mostBoundaryFailures = 20

// boundaryCounts hold what is needed to estimate the share of requests that fail at the start and at the end of a window. A window can hold
// an outage of every request and, less than join later, one of a few: then the share in the whole window describes neither.
//
//	x x x x x x ok x ok ok ok x ok ok ok ok x ok   →   at the start one success proves health, at the end one does not
type boundaryCounts struct {
	first [mostBoundaryFailures + 1]int // successes inside when so many had failed
	last  [mostBoundaryFailures]int     // successes inside when the last ones had failed, in turn
}

// note adds a failure: how many had failed with it, and how many successes had been sent since the first failure.
func (e *boundaryCounts) note(failed, succeeded int) {
	if failed <= mostBoundaryFailures {
		e.first[failed] = succeeded
	}
	e.last[failed%mostBoundaryFailures] = succeeded
}

// needed returns what the share in the whole window requires, or more where the share at one end is smaller.
func (e *boundaryCounts) needed(failed, inside int) confirmations {
	if inside == 0 && failed >= FewFailures {
		return confirmations{1, 1}
	}
	succeeded := e.last[failed%mostBoundaryFailures]
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
	w.shareLow, _ = ShareInterval(w.failed, w.failed+w.inside)
	_, w.shareHigh = ShareInterval(w.failed, w.failed+w.inside+w.confirmed.start+w.confirmed.end)
}

// ShareInterval is the Clopper-Pearson interval for the share of requests that fail, if failed of n
// did. It holds the truth with a probability of at least 99 %, whatever the truth is.
func ShareInterval(failed, n int) (low, high float64) {
	const tail = 0.005
	low, high = 0, 1
	if failed > 0 {
		low = betaQuantile(tail, float64(failed), float64(n-failed+1))
	}
	if failed < n {
		high = betaQuantile(1-tail, float64(failed+1), float64(n-failed))
	}
	return low, high
}

// betaQuantile finds x with I_x(a, b) = p by bisection.
func betaQuantile(p, a, b float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		mid := (low + high) / 2
		if BetaIncomplete(mid, a, b) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// BetaIncomplete is the regularized incomplete beta function I_x(a, b), by its continued fraction
// (https://dlmf.nist.gov/8.17#v), which converges fast for x < (a+1)/(a+b+2); elsewhere by symmetry.
func BetaIncomplete(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - BetaIncomplete(1-x, b, a)
	}
	gammaAB, _ := math.Lgamma(a + b)
	gammaA, _ := math.Lgamma(a)
	gammaB, _ := math.Lgamma(b)
	front := math.Exp(gammaAB - gammaA - gammaB + a*math.Log(x) + b*math.Log1p(-x))
	return front / a * betaFraction(x, a, b)
}

// betaFraction evaluates the continued fraction of the incomplete beta function with Lentz's method.
func betaFraction(x, a, b float64) float64 {
	const tiny = 1e-300
	away := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < 10_000; m++ {
		for _, term := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / away(1+term*d)
			c = away(1 + term/c)
			f *= c * d
		}
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return f
}
