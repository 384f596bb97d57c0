package main

import (
	"testing"
	"time"

	"lapse/timeline"
)

// What failed by our own fault tells nothing of the server, and is not counted as a failure of it.
func TestEngineCountsAsTheReportDoes(t *testing.T) {
	of := func(class timeline.Class, late time.Duration) timeline.Request {
		return timeline.Request{Sent: late, Outcome: timeline.Outcome{Class: class}}
	}
	var k keeper
	k.take(timeline.Batch{Requests: []timeline.Request{
		of(timeline.OK, 0), of(timeline.OK, 6*time.Millisecond), of(timeline.EOF, 0), of(timeline.NotSent, time.Second), of(timeline.Local, 0),
	}})
	if want := (outcome{Requests: 3, Failed: 1, NotSent: 2, Late: 1}); k.outcome != want {
		t.Errorf("%+v, want %+v", k.outcome, want)
	}
}
