package judging

import "testing"

func TestCoverageThatNoRunCanMissOrReachIsRefused(t *testing.T) {
	for text, want := range map[string]float64{"99%": 0.99, "0.9": 0.9, "100%": 1, "0": 0, "101%": 0, "-1%": 0, "much": 0, "": 0} {
		if got, err := ParseCoverage(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("--min-coverage %q: %v, %v; want %v", text, got, err, want)
		}
	}
}
