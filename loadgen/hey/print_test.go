package hey

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestCalibrationReadsAsATable(t *testing.T) {
	const ms = time.Millisecond
	found := Calibration{
		Ladder:      []Step{{Workers: 1, Rate: 98.76, P50: 10 * ms, P99: 12 * ms, CPU: 0.02, Machine: 0.31}, {Workers: 2, Rate: 1197, P50: 10 * ms, Failed: 3, Unanswered: 1}},
		Repeats:     []Step{{Workers: 2, Rate: 190, PerRequest: true, Unanswered: 2}},
		Kept:        Capacity{Median: 200, Min: 190, Max: 1197, Steps: 5},
		Suggestions: []Suggestion{{Targets: []string{"new", "reused"}, Rate: 0.95, DetectionLimit: 1053 * ms}},
		Notes:       []string{"a note of µs"},
	}
	for unicode, words := range map[bool][]string{
		true: {
			" STEPS  closed loop, http://web/\n",
			"1        98.8  10 ms  12 ms       0      2 %     31 %", "2        1197", "0 % (1 unanswered a second after its end)\n",
			"0 % with a connection for each request (2 unanswered a second after its end)\n",
			"CAPACITY  200/s, median of 5 steps from 190 to 1197/s, on kept", "not known with a connection for each request",
			"--rate 0.95 for new, reused: costs at most 1 % of the least (--rate 200 would cost 211 %)", "shorter than 1.05 s can go unseen", "note      a note of µs",
		},
		false: {"a note of us"},
	} {
		var b bytes.Buffer
		if err := found.Print(&b, "http://web/", 200, unicode); err != nil {
			t.Fatal(err)
		}
		for _, want := range words {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
	}
}
