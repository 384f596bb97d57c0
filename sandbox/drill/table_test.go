package drill

import (
	"strconv"
	"testing"
	"time"
)

func TestTableHasACellForEachRowAndColumn(t *testing.T) {
	columns := []Column[int]{{"number", strconv.Itoa}, {"", func(n int) string { return strconv.Itoa(n * n) }}}
	if got, want := Table(columns, []int{2, 3}), "| number | |\n|---|---|\n| 2 | 4 |\n| 3 | 9 |\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSpreadIsMinimumMedianAndMaximum(t *testing.T) {
	for want, values := range map[string][]float64{
		"–": nil, "2.0 / 2.0 / 2.0": {2}, "1.0 / 4.0 / 9.0": {9, 1, 4}, "1.0 / 3.0 / 9.0": {9, 1, 4, 2},
	} {
		if got := Spread(values, 1); got != want {
			t.Errorf("of %v: %s, want %s", values, got, want)
		}
	}
}

func TestMedianIsTheMiddleOrTheMeanOfTheMiddleTwo(t *testing.T) {
	if odd, even := Median([]time.Duration{9, 1, 4}), Median([]time.Duration{9, 1, 4, 2}); odd != 4 || even != 3 {
		t.Error(odd, even)
	}
}
