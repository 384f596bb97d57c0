package perfetto

import (
	"fmt"
	"testing"
	"time"

	"lapse/correlate/model"
)

// Slices of one thread may only nest, and an arrow that begins with a slice must not meet another one that ends there.
func TestSlicesThatOverlapStandInRows(t *testing.T) {
	k := (&trace{tl: new(model.Timeline)}).process("p").track("k")
	for _, test := range []struct{ from, to, row int }{
		{0, 10, 0}, {10, 20, 0}, {15, 30, 1}, {20, 20, 0}, {20, 25, 2}, {25, 25, 0}, {40, 35, 0},
	} {
		got := k.slice(event{Name: "x"}, time.Duration(test.from)*time.Microsecond, time.Duration(test.to)*time.Microsecond)
		if got.Thread != k.row(test.row).number || *got.Length != int64(max(0, test.to-test.from)) {
			t.Errorf("%d to %d: thread %d, %d long; want row %d", test.from, test.to, got.Thread, *got.Length, test.row)
		}
	}
	named := 0
	for _, e := range k.process.trace.events {
		if e.Name == "thread_name" && fmt.Sprint(e.Args) == "map[name:k]" {
			named++
		}
	}
	if named != 3 {
		t.Errorf("%d rows are called k, want 3", named)
	}
}
