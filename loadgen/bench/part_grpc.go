package main

import (
	"context"
	"time"
)

const (
	grpcRate        = 500
	grpcConnections = 10
)

// Cuts of 120 connections of gRPC, well apart.
var grpcCutPlan = serverPlan{GRPC: true, CutFrom: 500, CutEvery: 20, CutCount: 120}

// runGRPC calls the health check of a grpc-go server: a healthy one, and one that cuts connections.
func runGRPC(ctx context.Context, b *bench, page *page, _ *settings) error {
	healthy := []figure{
		{"CPU per request, µs", 1, (*result).cpuPerRequest, "", nil},
		{"requests per second that arrived", 0, achieved, "≥ 495", atLeast(495)},
		{"schedule error p50, read by the server, ms", 3, errorAt(0.5, grpcRate, read), "", nil},
		{"schedule error p99, ms", 3, errorAt(0.99, grpcRate, read), "", nil},
		{"failed", 0, failed, "0", atMost(0)},
		{"resident memory, highest, MB", 1, func(r *result) float64 { return float64(r.memory.peak) / 1e6 }, "", nil},
	}
	t := trial{
		record: true,
		load:   load{Rate: grpcRate, Connections: grpcConnections, For: b.length, CPU: -1},
		plan:   serverPlan{GRPC: true},
	}
	if err := b.grpc(ctx, page, t, healthy); err != nil {
		return err
	}
	t.plan, t.load.For = grpcCutPlan, 8*time.Second
	return b.grpc(ctx, page, t, cutFigures)
}

// grpc makes runs of every tool that speaks gRPC, in turn.
func (b *bench) grpc(ctx context.Context, page *page, t trial, figures []figure) error {
	results, err := b.compare(ctx, t, grpcTools)
	if err != nil {
		return err
	}
	page.GRPC = appendTable(page.GRPC, compareTable(grpcTools, figures, results))
	page.claim(figures, results)
	return nil
}
