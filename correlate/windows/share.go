package windows

import "math"

// Confirmations is k of the design: how many successes in a row prove health beside failures of which so many were met, and so
// many successes from the first to the last.
//
// While a fault fails a share p of requests, k successes in a row have a probability of (1−p)^k.
// The share that shows, failed ÷ sent, is too large, for a window begins and ends with a failure;
// one failure less makes up for it. And 0.1 % leaves room for what a small number of requests says
// about p, so that both brackets hold in 99 % of cases: see docs/decisions/0003-how-many-successes-prove-health.md.
//
// Failures without a success between them make a share of which half a request succeeded: where they are enough for more, see
// fewFailures.
func Confirmations(failed, succeeded int) int {
	lost, sent := float64(failed-1), float64(failed+succeeded)
	if succeeded == 0 {
		lost, sent = lost+0.5, sent+1
	}
	return int(math.Ceil(math.Log(0.001) / math.Log1p(-lost/sent)))
}

// FewFailures is from how many failures on, with no success among them, every request is taken to have failed, so that one
// success is proof: of the faults that fail every second request, one in 128 fails so many in a row.
const FewFailures = 8

// proofs is k of the design at either end of a window.
type proofs struct{ start, end int }

// EdgeFailures are how many failures at either end of a window tell which share fails there: each of these numbers of them does.
var EdgeFailures = [...]int{3, 5, 10, mostEdgeFailures}

const mostEdgeFailures = 20

// edges are what is known of the share of requests that fail at the ends of a window. A window can hold an outage of every request
// and then, closer than join, one of a few: then the share in all of it says little of either.
type edges struct {
	first [mostEdgeFailures + 1]int // successes inside when so many had failed
	last  [mostEdgeFailures]int     // successes inside when the last ones had failed, in turn
}

// note is told of each failure, with how many had failed by then and how many successes had been sent since the first.
func (e *edges) note(failed, succeeded int) {
	if failed <= mostEdgeFailures {
		e.first[failed] = succeeded
	}
	e.last[failed%mostEdgeFailures] = succeeded
}

// proofs are as many as the share in the whole window asks for, or more where fewer failed at an end of it.
func (e *edges) proofs(failed, inside int) proofs {
	if inside == 0 && failed >= FewFailures {
		return proofs{1, 1}
	}
	succeeded := e.last[failed%mostEdgeFailures]
	all := Confirmations(failed, succeeded)
	p := proofs{all, all}
	for _, n := range EdgeFailures {
		if n >= failed {
			break
		}
		since := e.last[(failed-n+1)%mostEdgeFailures] // when the first of the last n had failed
		p.start = max(p.start, Confirmations(n, e.first[n]))
		p.end = max(p.end, Confirmations(n, succeeded-since))
	}
	return p
}

// weigh bounds the share of requests that failed.
func (w *window) weigh() {
	w.shareLow, _ = ShareInterval(w.failed, w.failed+w.inside)
	_, w.shareHigh = ShareInterval(w.failed, w.failed+w.inside+w.beside.start+w.beside.end)
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
