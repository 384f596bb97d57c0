package correlate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lapse/correlate/verdict"
)

// Few latencies or many: the quantiles are an HdrHistogram's.
func TestQuantilesAreAnHdrHistograms(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 999, 1000, fewLatencies - 1, fewLatencies, fewLatencies + 1, 20_000} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		hdr := hdrhistogram.New(1, longestLatency, 3)
		var all latencies
		slowest := time.Duration(0)
		for range n {
			d := time.Duration(math.Exp(random.NormFloat64()*3) * float64(2*time.Millisecond))
			slowest = max(slowest, d)
			_ = hdr.RecordValue(min(d.Microseconds(), longestLatency))
			all.add(d)
			if random.IntN(100) == 0 {
				all.quantiles() // looking changes nothing
			}
		}
		got := all.quantiles()
		for percent, have := range map[float64]time.Duration{50: got.P50, 90: got.P90, 99: got.P99, 99.9: got.P999} {
			if want := min(time.Duration(hdr.ValueAtPercentile(percent))*time.Microsecond, slowest); have != want {
				t.Errorf("%d latencies: p%v is %v, want %v", n, percent, have, want)
			}
		}
		if got.Max != slowest {
			t.Errorf("%d latencies: max %v, want %v", n, got.Max, slowest)
		}
	}
}

// Whatever the late ones took, the bounds hold the percentile of all.
func TestBoundsOfThe99thPercentileHoldLatenciesOfWhichOnlyTheMostIsKnown(t *testing.T) {
	for _, n := range []int{1, 10, 99, 1000, 3 * fewLatencies} {
		for _, share := range []float64{0.001, 0.005, 0.01, 0.02, 0.5, 0.999} {
			random := rand.New(rand.NewPCG(uint64(n), uint64(1000*share)))
			var known, most latencies
			var truth []time.Duration
			for i := range n {
				d := time.Duration(math.Exp(random.NormFloat64()) * float64(2*time.Millisecond))
				truth = append(truth, d)
				if i > 0 && random.Float64() < share {
					most.add(d + time.Duration(random.Float64()*float64(50*time.Millisecond)))
				} else {
					known.add(d)
				}
			}
			slices.Sort(truth)
			want, got := truth[rank(99, n)-1], known.p99Bounds(&most)
			least, _ := verdict.LatencyBounds(got.Min)
			if _, longest := verdict.LatencyBounds(got.Max); want < least || want > longest {
				t.Errorf("%v of %d latencies were late: %v is not within %+v", share, n, want, got)
			}
		}
	}
}
