package model

import (
	"testing"
	"time"

	"lapse/timeline"
)

// One end of a Pod is one sample, and may have met nothing of the time that a proxy waits: a sleep is longer by that
// time, by a quarter of what was measured, and never by less than 1 s.
func TestMarginOfASleep(t *testing.T) {
	for _, tt := range []struct {
		cluster        *timeline.Cluster
		measured, want time.Duration
	}{
		{nil, 200 * time.Millisecond, time.Second},
		{&timeline.Cluster{Version: "v1.36.3"}, 200 * time.Millisecond, time.Second},
		{&timeline.Cluster{MinSyncPeriod: 500 * time.Millisecond}, 200 * time.Millisecond, time.Second},
		{&timeline.Cluster{MinSyncPeriod: 10 * time.Second}, 200 * time.Millisecond, 10 * time.Second},
		{&timeline.Cluster{MinSyncPeriod: 2 * time.Second}, 12 * time.Second, 3 * time.Second},
	} {
		run := RunInfo{Cluster: tt.cluster}
		if got := run.SleepMargin(tt.measured); got != tt.want {
			t.Errorf("%+v: %v is added to %v, want %v", tt.cluster, got, tt.measured, tt.want)
		}
	}
}
