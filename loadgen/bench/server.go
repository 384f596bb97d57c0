package main

import "time"

// A serverPlan says how the server misbehaves. The zero value serves well.
type serverPlan struct {
	GRPC bool // it is grpc-go's with the health check, and does not stall

	// From StallAfter the first request, and for StallFor, the server goes on accepting and reading, but answers
	// nothing; when the stall is over it answers all that it owes.
	StallAfter, StallFor time.Duration

	// The server closes the connection instead of answering: to CutCount requests, of those on connections that have
	// already served one, from the CutFrom-th on every CutEvery-th.
	CutFrom, CutEvery, CutCount int
}

// cuts tells whether the n-th request on a used connection, from 1, is cut.
func (p serverPlan) cuts(n int) bool {
	n -= p.CutFrom
	return p.CutCount > 0 && n >= 0 && n%p.CutEvery == 0 && n/p.CutEvery < p.CutCount
}

// An arrival is when a request came, on CLOCK_MONOTONIC.
type arrival struct {
	Kernel time.Duration // when the server's kernel had its last segment (SO_TIMESTAMPNS)
	Read   time.Duration // when the server's process had read it
}

// A serverReport is what the server saw.
type serverReport struct {
	Arrivals           []arrival
	StallFrom, StallTo time.Duration
	Cuts               int
	Stepped            bool // the wall clock was stepped during the run: the kernel's stamps are worthless
}

// kernel and read return when the requests of a report came.
func kernel(r *serverReport) []time.Duration {
	return instants(r.Arrivals, func(a arrival) time.Duration { return a.Kernel })
}

func read(r *serverReport) []time.Duration {
	return instants(r.Arrivals, func(a arrival) time.Duration { return a.Read })
}

func instants(arrivals []arrival, of func(arrival) time.Duration) []time.Duration {
	list := make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		list[i] = of(a)
	}
	return list
}
