package main

import (
	"context"
	"fmt"
	"time"
)

// runRecording runs the engine with and without a recording, in turn.
func runRecording(ctx context.Context, b *bench, page *page, _ *settings) error {
	t := trial{tool: lapseEngine, load: load{Rate: peerRate, Connections: peerConnections, For: b.length, CPU: -1}}
	var on []result
	var ratio []float64
	for i := range max(b.runs, 5) {
		var pair [2]result
		for j := range pair {
			t.record = (i+j)%2 == 0 // the order changes from pair to pair
			r, err := b.run(ctx, t)
			if err != nil {
				return err
			}
			if t.record {
				pair[0] = r
			} else {
				pair[1] = r
			}
		}
		on = append(on, pair[0])
		with, without := pair[0].cpuPerRequest(), pair[1].cpuPerRequest()
		ratio = append(ratio, 100*(with/without-1))
		fmt.Fprintf(b.talk, "  pair %d: %.1f µs with a recording, %.1f without\n", i+1, with, without)
	}
	size := figure{"bytes per request in the recording", 2, bytesPerRequest, "≤ 4", atMost(4)}
	more := figure{"more CPU per request with it, % (of each pair)", 1, nil, "≤ 10", atMost(10)}
	page.Recording = claimsOf([][]string{
		page.row("recording: ", size, size.spreadOver(on)), page.row("recording: ", more, spreadOf(ratio)),
	})
	return nil
}

const soakFigure = "%v at 2000 rps, resident memory of `lapse run`, last fifth against second fifth, %%"

// runSoak runs the whole program for a long time, and measures its memory.
func runSoak(ctx context.Context, b *bench, page *page, s *settings) error {
	t := trial{
		tool:   lapseRun,
		record: true,
		load:   load{Rate: peerRate, Connections: peerConnections, For: s.soak, CPU: -1},
	}
	r, err := b.run(ctx, t)
	if err != nil {
		return err
	}
	early, late := grown(r.memory.samples)
	more := 100 * (late/early - 1)
	page.Soak = soakText(&r)
	page.Claims = append(page.Claims, claim{
		Figure:   fmt.Sprintf(soakFigure, s.soak),
		Must:     "≤ 5 more (flat)",
		Measured: fmt.Sprintf("%+.1f", more),
		Held:     more <= 5,
	})
	return nil
}

// grown returns the median resident memory of the second and of the last fifth of a run, in bytes. The first fifth is
// for warming up.
func grown(samples []memorySample) (early, late float64) {
	if len(samples) == 0 {
		return 1, 1
	}
	end := samples[len(samples)-1].at
	return medianIn(samples, end/5, end*2/5), medianIn(samples, end*4/5, end+1)
}

func medianIn(samples []memorySample, from, to time.Duration) float64 {
	var values []float64
	for _, s := range samples {
		if s.at >= from && s.at < to {
			values = append(values, float64(s.bytes))
		}
	}
	if len(values) == 0 {
		return 1
	}
	return spreadOf(values).Median
}

// soakText returns how a long run went, in one sentence.
func soakText(r *result) string {
	const text = "%d requests arrived, %d failed, %d not sent, %d late; " +
		"peak %.1f MB, %.1f µs of CPU and %.2f bytes recorded per request.\n"
	return fmt.Sprintf(text, len(r.server.Arrivals), r.Failed, r.NotSent, r.Late,
		float64(r.memory.peak)/1e6, r.cpuPerRequest(), bytesPerRequest(r))
}
