package engine

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestLatenessBound(t *testing.T) {
	tests := []struct {
		late, interval time.Duration
		want           bool
	}{
		{10 * ms, ms, false}, {11 * ms, ms, true},
		{60 * ms, 20 * ms, false}, {61 * ms, 20 * ms, true},
		// however rare, what we held up is not latency
		{100 * ms, 10 * time.Second, false}, {101 * ms, 10 * time.Second, true},
	}
	for _, test := range tests {
		if got := TooLate(time.Second, time.Second+test.late, test.interval); got != test.want {
			t.Errorf("%v late at an interval of %v: %v", test.late, test.interval, got)
		}
	}
}
