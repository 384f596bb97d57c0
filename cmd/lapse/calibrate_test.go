package main

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"lapse/loadgen/hey"
)

func TestCalibrationReadsAsATable(t *testing.T) {
	const ms = time.Millisecond
	result := calibrated{URL: "http://web/", Notes: []string{"a note"}, Calibration: hey.Calibration{
		Ladder:  []hey.Step{{Workers: 1, Rate: 98.76, P50: 10 * ms, P99: 12 * ms, CPU: 0.02, Machine: 0.31}, {Workers: 2, Rate: 1197, P50: 10 * ms, Failed: 3, Unanswered: 1}},
		Repeats: []hey.Step{{Workers: 2, Rate: 190, Fresh: true, Unanswered: 2}}, Knee: 1,
		Kept:        hey.Throughput{Min: 190, Max: 1197, Steps: 6, AtLeast: "this machine's processors were the limit"},
		Suggestions: []hey.Suggestion{{Targets: []string{"new", "reused"}, Rate: 0.95, DetectionLimit: 1053 * ms}},
	}}
	for unicode, words := range map[bool][]string{
		true: {
			"1        98.8  10 ms  12 ms       0       2%      31%", "2        1197", "0% 1 unanswered", "0% on fresh connections, 2 unanswered a second after its end\n", "KNEE      1 worker: no fewer",
			"≥ 190/s (190 to 1197/s in 6 steps; this machine's processors were the limit) on kept", "not known with a connection for each request",
			"--rate 0.95 for new, reused: costs at most 1% of that (--rate 200 would cost 100%)", "shorter than 1.05 s can go unseen", "note      a note",
		},
		false: {">= 190/s"},
	} {
		var b bytes.Buffer
		if err := result.write(&b, unicode); err != nil {
			t.Fatal(err)
		}
		for _, want := range words {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
	}
}

// What failed later has no capacity, and no "at least".
func TestCalibrationOfATargetThatFailedLaterNamesNoCapacity(t *testing.T) {
	for _, tt := range []struct {
		kept hey.Throughput
		want string
	}{
		{hey.Throughput{Max: 20439.4, Steps: 6, Broken: "nothing was answered in 5 of 6 steps"}, "not known (0 to 20439/s in 6 steps; nothing was answered in 5 of 6 steps) on kept"},
		{hey.Throughput{Min: 90, Max: 90, Steps: 1}, "90/s in 1 step on kept"},
		{hey.Throughput{Min: 90, Max: 90, Steps: 1, AtLeast: "a reason"}, "≥ 90/s (90/s in 1 step; a reason) on kept"},
		{hey.Throughput{}, "not known on kept"},
	} {
		var b bytes.Buffer
		if err := (calibrated{Calibration: hey.Calibration{Kept: tt.kept}}).write(&b, true); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "CAPACITY  "+tt.want) {
			t.Errorf("no %q in\n%s", tt.want, b.String())
		}
	}
}

func TestCalibrationWithoutARateIsInconclusive(t *testing.T) {
	if err := (calibrated{Calibration: hey.Calibration{Suggestions: []hey.Suggestion{{}}}}).verdict(); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[exitCode]((calibrated{}).verdict()); !ok || e.code != 4 {
		t.Errorf("%+v, want exit code 4", e)
	}
}

func TestCalibrationNotesWhatItsFiguresRestOn(t *testing.T) {
	here := &url.URL{Scheme: "http", Host: "[::1]:80"}
	there := &url.URL{Scheme: "http", Host: "192.0.2.1"}
	known := hey.Calibration{Suggestions: []hey.Suggestion{{}}}
	if got := strings.Join(notes(here, known), "\n"); !strings.Contains(got, "on this machine") || strings.Contains(got, "no rate") {
		t.Errorf("%s", got)
	}
	if got := strings.Join(notes(there, hey.Calibration{}), "\n"); strings.Contains(got, "on this machine") || !strings.Contains(got, "no rate is suggested: what a request on a fresh connection costs is not known") {
		t.Errorf("%s", got)
	}
	broken := hey.Calibration{Kept: hey.Throughput{Broken: "x"}}
	if got := strings.Join(notes(there, broken), "\n"); !strings.Contains(got, "no rate is suggested: the target did not answer all of its steps well") || !strings.Contains(got, "--max-workers") {
		t.Errorf("%s", got)
	}
}
