package main

import (
	"context"
	"fmt"
	"time"
)

const (
	grpcRate        = 500
	grpcConnections = 10
)

// Cuts of 120 connections of gRPC, well apart.
var grpcCutPlan = serverPlan{GRPC: true, CutFrom: 500, CutEvery: 20, CutCount: 120}

const (
	cutOff      = "of 120 requests whose reused connection was cut without a reply, reported as failed"
	grpcOutcome = "  run %d, %s: %d requests arrived, %d cut, %d reported as failed, %.1f µs of CPU each, " +
		"late %d, not sent %d\n"
)

func failed(r *result) float64 { return float64(r.Failed) }

// runGRPC calls the health check of a grpc-go server: a healthy one, and one that cuts connections.
func runGRPC(ctx context.Context, b *bench, page *page, _ *settings) error {
	healthy := []figure{
		{"CPU per request, µs", 1, (*result).cpuPerRequest, "", nil},
		{"requests per second that arrived", 0, achieved, "≥ 495", atLeast(495)},
		{"schedule error p50, read by the server, ms", 3, grpcErrorAt(0.5), "", nil},
		{"schedule error p99, ms", 3, grpcErrorAt(0.99), "", nil},
		{"failed", 0, failed, "0", atMost(0)},
		{"resident memory, highest, MB", 1, func(r *result) float64 { return float64(r.memory.peak) / 1e6 }, "", nil},
	}
	t := trial{
		load: load{Rate: grpcRate, Connections: grpcConnections, For: b.length, CPU: -1},
		plan: serverPlan{GRPC: true},
	}
	if err := b.grpc(ctx, page, t, healthy); err != nil {
		return err
	}
	cut := []figure{{cutOff, 0, failed, "120", func(v float64) bool { return v == 120 }}}
	t.plan, t.load.For = grpcCutPlan, 8*time.Second
	return b.grpc(ctx, page, t, cut)
}

func grpcErrorAt(p float64) func(*result) float64 {
	return func(r *result) float64 {
		return percentile(evennessOf(middle(r.server.read()), time.Second/grpcRate).Errors, p).Seconds() * 1000
	}
}

// grpc makes runs of every tool that speaks gRPC, in turn.
func (b *bench) grpc(ctx context.Context, page *page, t trial, figures []figure) error {
	results := map[string][]result{}
	for i := range b.runs {
		for _, tool := range grpcTools {
			t.tool = tool
			t.record = tool.name == lapseEngine.name || tool.name == lapseRun.name // the others cannot
			r, err := b.run(ctx, t)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.talk, grpcOutcome, i+1, tool.name, len(r.server.Arrivals), r.server.Cuts, r.Failed,
				r.cpuPerRequest(), r.Late, r.NotSent)
			results[tool.name] = append(results[tool.name], r)
		}
	}
	page.GRPC = appendTable(page.GRPC, compareTable(grpcTools, figures, results))
	page.claim(figures, results)
	return nil
}
