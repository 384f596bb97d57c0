package main

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
	"time"

	"lapse/loadgen"
)

func TestCalibrationReadsAsATable(t *testing.T) {
	const ms = time.Millisecond
	result := calibrated{URL: "http://web/", Notes: []string{"a note"}, Calibration: loadgen.Calibration{
		Ladder:  []loadgen.Step{{Workers: 1, Rate: 98.76, P50: 10 * ms, P99: 12 * ms, CPU: 0.02, Machine: 0.31}, {Workers: 2, Rate: 1197, P50: 10 * ms, Failed: 3}},
		Repeats: []loadgen.Step{{Workers: 2, Rate: 190, Fresh: true}}, Knee: 1,
		Kept:        loadgen.Throughput{Min: 190, Max: 1197, Steps: 6, AtLeast: "this machine's processors were the limit"},
		Suggestions: []loadgen.Suggestion{{Targets: []string{"new", "reused"}, Rate: 0.95, DetectionLimit: 1053 * ms}},
	}}
	for unicode, words := range map[bool][]string{
		true: {
			"1        98.8  10 ms  12 ms       0       2%      31%", "2        1197", "0% on fresh connections", "KNEE      1 worker: no fewer",
			"≥ 190/s (190 to 1197 in 6 steps; this machine's processors were the limit) on kept", "not known with a connection for each request",
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

func TestCalibrationNotesWhatItsFiguresRestOn(t *testing.T) {
	here := &url.URL{Scheme: "http", Host: "[::1]:80"}
	there := &url.URL{Scheme: "http", Host: "192.0.2.1"}
	known := loadgen.Calibration{Suggestions: []loadgen.Suggestion{{}}}
	if got := strings.Join(notes(here, known), "\n"); !strings.Contains(got, "on this machine") || strings.Contains(got, "no rate") {
		t.Errorf("%s", got)
	}
	if got := strings.Join(notes(there, loadgen.Calibration{}), "\n"); strings.Contains(got, "on this machine") || !strings.Contains(got, "no rate is suggested") {
		t.Errorf("%s", got)
	}
}
