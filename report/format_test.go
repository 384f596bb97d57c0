package report

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
)

func TestLengthsReadWithTheirErrors(t *testing.T) {
	for _, test := range []struct {
		min, max string
		open     bool
		want     string
	}{
		{"73ms", "91ms", false, "82 ms ±9"},
		{"37ms", "45ms", false, "41 ms ±4"},
		{"1.23s", "1.25s", false, "1.24 s ±0.01"},
		{"1.2395s", "1.2405s", false, "1.24 s ±0.01"},
		{"82.1ms", "82.7ms", false, "82.4 ms ±0.3"},
		{"70ms", "94ms", false, "82 ms ±12"},
		{"999.4ms", "999.9ms", false, "1.000 s ±0.001"},
		{"140us", "180us", false, "160 µs ±20"},
		{"0s", "5ms", false, "< 5 ms"},
		{"0s", "4.51ms", false, "< 4.6 ms"},
		{"0s", "0s", false, "0 s"},
		{"0s", "1.04s", false, "< 1.1 s"},
		{"1ms", "40ms", false, "1 ms to 40 ms"},
		{"1.234ms", "48.01ms", false, "1.23 ms to 49 ms"},
		{"20ms", "60ms", false, "40 ms ±20"},
		{"623ms", "10.41s", false, "623 ms to 11 s"},
		{"500ms", "500ms", false, "500 ms"},
		{"3.1s", "9s", true, "≥ 3.1 s"},
		{"3.1482s", "9s", true, "≥ 3.14 s"},
		{"0s", "9s", true, "unknown"},
		{"316.2s", "317.9s", false, "317 s ±1"},
	} {
		if got := FormatLength(model.Length{Min: parse(t, test.min), Max: parse(t, test.max)}, test.open); got != test.want {
			t.Errorf("[%s, %s] open %v reads %q, want %q", test.min, test.max, test.open, got, test.want)
		}
	}
}

func TestOffsetsReadWithTheirSign(t *testing.T) {
	for _, test := range []struct{ earliest, latest, want string }{
		{"-80ms", "-62ms", "-71 ms ±9"},
		{"61ms", "79ms", "+70 ms ±9"},
		{"-4ms", "4ms", "+0 ms ±4"},
		{"-1.014s", "-6ms", "-510 ms ±504"}, // before, and never shown as perhaps after
		{"0s", "0s", "+0 s"},
		{"-1.5s", "-1.5s", "-1.5 s"},
	} {
		if got := FormatOffset(model.Instant{Earliest: parse(t, test.earliest), Latest: parse(t, test.latest)}); got != test.want {
			t.Errorf("[%s, %s] reads %q, want %q", test.earliest, test.latest, got, test.want)
		}
	}
}

func TestDurationsReadWithThreeDigits(t *testing.T) {
	for in, want := range map[string]string{
		"1.912ms": "1.91 ms", "1.9ms": "1.9 ms", "1.0432s": "1.04 s", "212.4ms": "212 ms", "87us": "87 µs", "0s": "0 s",
		"80s": "80 s", "2m5.4s": "2 min 5 s", "1h2m3s": "1 h 2 min", "999.9ms": "1 s",
	} {
		if got := FormatDuration(parse(t, in)); got != want {
			t.Errorf("%s reads %q, want %q", in, got, want)
		}
	}
}

func TestSharesAreNeverNicerThanTheTruth(t *testing.T) {
	for _, test := range []struct {
		share float64
		want  string
	}{
		{0, "0%"}, {1, "100%"}, {0.5, "50%"}, {0.9998, "99.98%"}, {0.99996, "99.99%"}, {0.9999999, "99.99%"}, {0.99, "99%"},
		{0.0002, "0.02%"}, {0.00021, "0.03%"}, {0.000001, "0.0001%"}, {0.0161, "1.6%"}, {0.083, "8.3%"}, {0.009, "0.9%"}, {0.00999, "1%"},
	} {
		if got := FormatShare(test.share); got != test.want {
			t.Errorf("%v reads %q, want %q", test.share, got, test.want)
		}
	}
}

// What is printed holds what was measured, whatever it was.
func TestPrintedBoundsHoldTheMeasured(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		size := int64(1) << random.IntN(30)
		lo := time.Duration(random.Int64N(2*size)-size) * time.Microsecond
		hi := lo + time.Duration(random.Int64N(size)+1)*time.Microsecond
		text := FormatOffset(model.Instant{Earliest: lo, Latest: hi})
		from, to := bounds(t, text)
		if from > float64(lo)+0.01 || to < float64(hi)-0.01 {
			t.Fatalf("[%v, %v] reads %q", lo, hi, text)
		}
		if lo > 0 && from <= 0 || hi < 0 && to >= 0 {
			t.Fatalf("[%v, %v] reads %q, which reaches across zero", lo, hi, text)
		}
	}
}

// bounds reads "+70 ms ±9" back.
func bounds(t *testing.T, text string) (from, to float64) {
	t.Helper()
	fields := strings.Fields(strings.ReplaceAll(text, "±", ""))
	unit := map[string]float64{"s": 1e9, "ms": 1e6, "µs": 1e3}[fields[1]]
	mid, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	half, err := strconv.ParseFloat(fields[2], 64)
	if err != nil {
		t.Fatal(err)
	}
	return (mid - half) * unit, (mid + half) * unit
}

func parse(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCoverageIsNeverShownAboveWhatItIs(t *testing.T) {
	for share, want := range map[float64]string{1: "100%", 0.99999: "99.99%", 0.99: "99%", 0.9897: "98.97%", 0.989999: "98.99%", 0.5: "50%", 0: "0%"} {
		if got := FormatCoverage(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}
