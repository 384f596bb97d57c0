package model

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestAHistogramIsSparseCountsInJSON(t *testing.T) {
	for _, counts := range []SparseCounts{
		{},
		{0, 1},
		{84, 199, 130, 1},
		{3, 1 << 40, 300, 128, 415, 1},
	} {
		want, err := json.Marshal(counts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(NewHistogram(counts))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is written as %s, %v", want, got, err)
		}
		var read Histogram
		if err := json.Unmarshal(want, &read); err != nil || read != NewHistogram(counts) {
			t.Errorf("%s is read as %q, %v", want, read, err)
		}
	}
}

func TestAHistogramIsNotReadFromNonsense(t *testing.T) {
	for _, text := range []string{`[1]`, `[1,2,3]`, `[5,1,4,1]`, `[5,1,5,1]`, `[-1,1]`, `[1,-1]`, `[1.5,1]`, `"x"`} {
		var h Histogram
		if err := json.Unmarshal([]byte(text), &h); err == nil {
			t.Errorf("%s is read as %q", text, h)
		}
	}
}

func TestEveryLatencyHasASlotInATray(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, 0, time.Minute, math.MaxInt64} {
		if slot := LatencyBin(d); slot < 0 || slot >= LatencyBins {
			t.Errorf("%v is in slot %d of %d", d, slot, LatencyBins)
		}
	}
}
