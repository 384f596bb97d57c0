package quantity

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
)

// The page's test reads the same examples (dashboard/ui/test/format.test.ts): both write each value alike.
func TestValuesReadAsInTheExamplesThatThePageShares(t *testing.T) {
	data, err := os.ReadFile("testdata/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples []struct {
		Kind  string
		Value json.RawMessage
		Text  string
	}
	if err := json.Unmarshal(data, &examples); err != nil {
		t.Fatal(err)
	}
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	writers := map[string]func(json.RawMessage) string{
		"span":        func(v json.RawMessage) string { return Span(read[time.Duration](t, v)) },
		"lowest":      func(v json.RawMessage) string { return Lowest(read[time.Duration](t, v)) },
		"highest":     func(v json.RawMessage) string { return Highest(read[time.Duration](t, v)) },
		"length":      func(v json.RawMessage) string { return Length(readLength(t, v), false) },
		"open length": func(v json.RawMessage) string { return Length(readLength(t, v), true) },
		"percent":     func(v json.RawMessage) string { return Percent(read[float64](t, v)) },
		"coverage":    func(v json.RawMessage) string { return Coverage(read[float64](t, v)) },
		"number":      func(v json.RawMessage) string { return Number(read[float64](t, v)) },
		"count":       func(v json.RawMessage) string { return Count(read[int](t, v), "request") },
		"classes":     func(v json.RawMessage) string { return ClassCounts(read[map[string]int](t, v)) },
	}
	for _, e := range examples {
		write, ok := writers[e.Kind]
		if !ok {
			t.Fatalf("unknown kind %q", e.Kind)
		}
		if got := write(e.Value); got != e.Text {
			t.Errorf("%s %s reads %q, want %q", e.Kind, e.Value, got, e.Text)
		}
	}
}

func read[T any](t *testing.T, raw json.RawMessage) (value T) {
	t.Helper()
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func readLength(t *testing.T, raw json.RawMessage) model.Length {
	t.Helper()
	bounds := read[[2]time.Duration](t, raw)
	return model.Length{Min: bounds[0], Max: bounds[1]}
}

func TestOffsetsReadWithTheirSign(t *testing.T) {
	for _, test := range []struct {
		earliest, latest time.Duration
		want             string
	}{
		{-80 * time.Millisecond, -62 * time.Millisecond, "−71 ms ±9"},
		{61 * time.Millisecond, 79 * time.Millisecond, "+70 ms ±9"},
		{-4 * time.Millisecond, 4 * time.Millisecond, "+0 ms ±4"},
		{-1014 * time.Millisecond, -6 * time.Millisecond, "−510 ms ±504"}, // before, and never shown as perhaps after
		{0, 0, "+0 s"},
		{-1500 * time.Millisecond, -1500 * time.Millisecond, "−1.5 s"},
	} {
		if got := Offset(model.Instant{Earliest: test.earliest, Latest: test.latest}); got != test.want {
			t.Errorf("[%s, %s] reads %q, want %q", test.earliest, test.latest, got, test.want)
		}
	}
}

func TestBoundsOfSharesAreRoundedOutward(t *testing.T) {
	for _, test := range []struct {
		lo, hi float64
		want   string
	}{
		{0.00519, 0.0552, "0.51 % to 5.6 %"}, {0, 0.0141, "0 % to 1.5 %"}, {0.99119, 0.99991, "99.11 % to 100 %"},
		{0.5, 0.5, "50 %"}, {0.499, 1, "49 % to 100 %"},
	} {
		if got := Percents(test.lo, test.hi); got != test.want {
			t.Errorf("[%v, %v] reads %q, want %q", test.lo, test.hi, got, test.want)
		}
	}
}

func TestMeasuredRatesHaveThreeDigits(t *testing.T) {
	for rate, want := range map[float64]string{0: "0", 0.98765: "0.988", 66.67: "66.7", 99.97: "100", 998.2: "998",
		12345.6: "12346"} {
		if got := Rate(rate); got != want {
			t.Errorf("%v reads %q, want %q", rate, got, want)
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
		text := Offset(model.Instant{Earliest: lo, Latest: hi})
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
	fields := strings.Fields(strings.NewReplacer("±", "", "−", "-").Replace(text))
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
