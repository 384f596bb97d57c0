package correlate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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
