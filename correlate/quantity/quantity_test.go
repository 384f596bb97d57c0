package quantity

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

func TestLengthsArePrintedToThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 41 * time.Millisecond: "41 ms", 41_234 * time.Microsecond: "41.2 ms", 1_376 * time.Millisecond: "1.38 s", 123_456 * time.Microsecond: "123 ms",
		999_900 * time.Microsecond: "1 s", 11_240 * time.Millisecond: "11.2 s", 250 * time.Nanosecond: "0.25 µs", 3725 * time.Second: "3725 s", -41 * time.Millisecond: "-41 ms",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestBoundsArePrintedNoNarrowerThanTheyAre(t *testing.T) {
	for l, want := range map[model.Length]string{
		{Min: 12_244 * time.Microsecond, Max: 12_244 * time.Microsecond}:          "12.2 ms",
		{Min: 12_256 * time.Microsecond, Max: 12_341 * time.Microsecond}:          "12.2 ms to 12.4 ms",
		{Min: 0, Max: 999_900 * time.Microsecond}:                                 "0 s to 1 s",
		{Min: 41 * time.Millisecond, Max: 1_300 * time.Millisecond}:               "41 ms to 1.3 s",
		{Min: 9_999 * time.Millisecond, Max: 3724*time.Second + time.Millisecond}: "9.99 s to 3725 s",
	} {
		if got := Spans(l); got != want {
			t.Errorf("%v is %q, want %q", l, got, want)
		}
	}
}

func TestSharesNeverRoundToAllOrNothing(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.493: "49 %", 0.0004: "0.04 %", 0.9998: "99.98 %", 0.989: "99 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is %q, want %q", share, got, want)
		}
	}
}

func TestLengthsAreSaidWithTheirBounds(t *testing.T) {
	for _, tt := range []struct {
		length model.Length
		want   string
	}{
		{model.Length{Min: 910 * time.Millisecond, Max: 990 * time.Millisecond}, "950 ms ±40"},
		{model.Length{Min: 39800 * time.Microsecond, Max: 57 * time.Millisecond}, "48 ms ±9"},
		{model.Length{Min: 3194 * time.Millisecond, Max: 3206 * time.Millisecond}, "3.20 s ±0.01"},
		{model.Length{Min: 0, Max: 780 * time.Millisecond}, "≤ 780 ms"},
		{model.Length{Min: 503 * time.Millisecond, Max: 3200 * time.Millisecond}, "≥ 503 ms"},
		{model.Length{Min: time.Second, Max: time.Second}, "1 s"},
		{model.Length{}, "≤ 0 s"},
	} {
		if got := About(tt.length); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.length, got, tt.want)
		}
	}
}
