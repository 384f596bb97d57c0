package chart

import (
	"testing"
	"time"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestRunsOfAnyLengthFitTheirCells(t *testing.T) {
	for run := time.Second; run < 60*time.Hour; run = run*5/4 + 7*time.Millisecond {
		for _, bucket := range []time.Duration{10 * ms, 100 * ms, 250 * ms, s, 3 * s, 60 * s} {
			size, cells := cellSize(run, bucket, 57)
			if size%bucket != 0 || cells > 57 || time.Duration(cells)*size+size/10 < run || time.Duration(cells-1)*size >= run {
				t.Fatalf("a run of %v in buckets of %v: %d cells of %v", run, bucket, cells, size)
			}
		}
	}
}
