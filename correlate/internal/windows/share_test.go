package windows

import (
	"math"
	"testing"
)

func TestProofsNeeded(t *testing.T) {
	for _, test := range []struct{ failed, inside, want int }{
		{1, 0, 25}, // as if half a request had succeeded
		{3, 0, 8},
		{2, 1, 18}, // a third: one of the two failures tells nothing
		{15, 15, 11},
		{500, 500, 10}, // a half: 2^10 > 1000
		{90, 10, 4},
		{50, 950, 138},
	} {
		if got := ConfirmationsNeeded(test.failed, test.inside); got != test.want {
			t.Errorf("%d failed, %d successes inside: %d successes in a row prove health, want %d", test.failed,
				test.inside, got, test.want)
		}
	}
}

func TestProofsAtTheEdges(t *testing.T) {
	for _, test := range []struct {
		name   string
		row    []bool // whether each request failed, from the first failure to the last
		inside int
		want   confirmations
	}{
		{"every request failed: one success is proof", failures(500, 1), 0, confirmations{1, 1}},
		{"so few failed that half of them may have", failures(7, 1), 0, confirmations{8, 8}},
		{"every second request failed", failures(100, 2), 99, confirmations{14, 14}},
		{"every request failed, then every tenth, six times",
			append(failures(100, 1), append(make([]bool, 9), failures(6, 10)...)...), 54, confirmations{8, 70}},
		{"every tenth failed, six times, then every one", append(append(failures(6, 10), make([]bool, 9)...),
			failures(100, 1)...), 54, confirmations{70, 8}},
	} {
		var e boundaryCounts
		failed, succeeded := 0, 0
		for _, bad := range test.row {
			if !bad {
				succeeded++
				continue
			}
			failed++
			e.note(failed, succeeded)
		}
		if got := e.needed(failed, test.inside); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// failures are n failures, each of every so many requests.
func failures(n, every int) (row []bool) {
	for i := range every*(n-1) + 1 {
		row = append(row, i%every == 0)
	}
	return row
}

// The bounds of Clopper and Pearson are the shares at which what was seen, or more, or less, has a probability of 0.5
// %.
func TestShareInterval(t *testing.T) {
	for _, test := range []struct{ failed, n int }{{0, 10}, {1, 10}, {5, 10}, {10, 10}, {1, 1}, {3, 1000}, {500, 1000},
		{64, 128}} {
		low, high := ShareInterval(test.failed, test.n)
		if p := atLeast(test.failed, test.n, low); test.failed > 0 && math.Abs(p-0.005) > 1e-6 {
			t.Errorf("%d of %d: at %v so many or more have a probability of %v", test.failed, test.n, low, p)
		}
		if p := 1 - atLeast(test.failed+1, test.n, high); test.failed < test.n && math.Abs(p-0.005) > 1e-6 {
			t.Errorf("%d of %d: at %v so many or fewer have a probability of %v", test.failed, test.n, high, p)
		}
		if test.failed == 0 && low != 0 || test.failed == test.n && high != 1 ||
			low > float64(test.failed)/float64(test.n) || high < float64(test.failed)/float64(test.n) {
			t.Errorf("%d of %d: [%v, %v]", test.failed, test.n, low, high)
		}
	}
}

// atLeast is the probability that of n requests k or more fail if a share p does.
func atLeast(k, n int, p float64) float64 {
	sum := 0.0
	for i := k; i <= n; i++ {
		all, _ := math.Lgamma(float64(n + 1))
		hit, _ := math.Lgamma(float64(i + 1))
		miss, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(all - hit - miss + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

func TestIntervalOfManyRequestsIsFound(t *testing.T) {
	low, high := ShareInterval(300_000, 1_000_000)
	if low < 0.298 || low > 0.3 || high < 0.3 || high > 0.302 {
		t.Errorf("[%v, %v]", low, high)
	}
}
