package correlate

import "math"

// proofsNeeded is k of the design: how many successes in a row prove health beside a window in
// which failed requests met inside successes. If no success is inside, every request failed, and
// one success is proof.
//
// While a fault fails a share p of requests, k successes in a row have a probability of (1−p)^k.
// The share that shows, failed ÷ sent, is too large, for a window begins and ends with a failure;
// one failure less makes up for it. And 0.1 % leaves room for what a small number of requests says
// about p, so that both brackets hold in 99 % of cases: see docs/decisions/0003-how-many-successes-prove-health.md.
func proofsNeeded(failed, inside int) int {
	if inside == 0 {
		return 1
	}
	share := float64(failed-1) / float64(failed+inside)
	return int(math.Ceil(math.Log(0.001) / math.Log1p(-share)))
}

// proofs is k of the design at either end of a window.
type proofs struct{ start, end int }

// edgeFailures are how many failures at either end of a window tell which share fails there.
const edgeFailures = 20

// edges are what is known of the share of requests that fail at the ends of a window. A window can hold an outage of every request
// and then, closer than join, one of a few: then the share in all of it says little of either.
type edges struct {
	first int               // successes inside when edgeFailures had failed
	last  [edgeFailures]int // successes inside when the last ones had failed, in turn
}

// note is told of each failure, with how many had failed and succeeded inside by then.
func (e *edges) note(failed, inside int) {
	if failed <= edgeFailures {
		e.first = inside
	}
	e.last[failed%edgeFailures] = inside
}

// proofs are as many as the share in the whole window asks for, or more where fewer failed at an end of it.
func (e *edges) proofs(failed, inside int) proofs {
	all := proofsNeeded(failed, inside)
	if failed <= edgeFailures {
		return proofs{all, all}
	}
	since := e.last[(failed+1)%edgeFailures] // when the first of the last ones had failed
	return proofs{
		start: max(all, proofsNeeded(edgeFailures, e.first)),
		end:   max(all, proofsNeeded(edgeFailures, inside-since)),
	}
}

// shareInterval is the Clopper-Pearson interval for the share of requests that fail, if failed of n
// did. It holds the truth with a probability of at least 99 %, whatever the truth is.
func shareInterval(failed, n int) (low, high float64) {
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
		if betaIncomplete(mid, a, b) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// betaIncomplete is the regularized incomplete beta function I_x(a, b), by its continued fraction
// (https://dlmf.nist.gov/8.17#v), which converges fast for x < (a+1)/(a+b+2); elsewhere by symmetry.
func betaIncomplete(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaIncomplete(1-x, b, a)
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
