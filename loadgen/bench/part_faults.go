package main

import (
	"context"
	"time"
)

// A stall of a second, in which 2000 requests are due.
var stallPlan = serverPlan{StallAfter: 1500 * time.Millisecond, StallFor: time.Second}

func runStall(ctx context.Context, b *bench, page *page, _ *settings) error {
	sent := []figure{{"of 2000 requests due during a 1 s stall, sent", 0, sentInStall, "≥ 1995", atLeast(1995)}}
	t := trial{load: load{Rate: peerRate, Connections: peerConnections, For: 5 * time.Second, CPU: -1},
		plan: stallPlan}
	return b.faults(ctx, page, t, sent)
}

func sentInStall(r *result) float64 {
	return float64(within(kernel(&r.server), r.server.StallFrom, r.server.StallTo))
}

// Cuts of 120 connections, well apart.
var cutPlan = serverPlan{CutFrom: 1000, CutEvery: 40, CutCount: 120}

var cutFigures = []figure{
	{
		"of 120 requests whose reused connection was cut without a reply, reported as failed", 0, failed,
		"120", func(v float64) bool { return v == 120 },
	},
}

func failed(r *result) float64 { return float64(r.Failed) }

func runCut(ctx context.Context, b *bench, page *page, _ *settings) error {
	t := trial{load: load{Rate: peerRate, Connections: peerConnections, For: 5 * time.Second, CPU: -1}, plan: cutPlan}
	return b.faults(ctx, page, t, cutFigures)
}

func (b *bench) faults(ctx context.Context, page *page, t trial, figures []figure) error {
	results, err := b.compare(ctx, t, tools)
	if err != nil {
		return err
	}
	page.Faults = appendTable(page.Faults, compareTable(tools, figures, results))
	page.claim(figures, results)
	return nil
}

const coreRate = 20_000

// runCore confines Lapse's engine to one CPU.
func runCore(ctx context.Context, b *bench, page *page, _ *settings) error {
	figures := []figure{
		{"schedule error p50, read by the server, ms", 3, errorAt(0.5, coreRate, read), "", nil},
		{"schedule error p99, read by the server, ms", 3, errorAt(0.99, coreRate, read), "≤ 1", atMost(1)},
		{"not sent", 0, func(r *result) float64 { return float64(r.NotSent) }, "0", atMost(0)},
		{"failed", 0, failed, "0", atMost(0)},
		{"requests per second that arrived", 0, achieved, "≥ 19 990", atLeast(19_990)},
		{"CPU per request, every fact recorded to disk, µs", 1, (*result).cpuPerRequest, "", nil},
	}
	t := trial{record: true,
		load: load{Rate: coreRate, Connections: peerConnections, For: min(b.length, 10*time.Second), CPU: 0}}
	results, err := b.compare(ctx, t, []tool{lapseEngine})
	if err != nil {
		return err
	}
	page.Core = claimTable(page, "one core, 20 000 rps: ", figures, results[lapseEngine.name])
	return nil
}

// achieved is the rate at which requests arrived.
func achieved(r *result) float64 { return rateOf(middle(read(&r.server))) }
