// Package selftest plans outages, and holds what a run says of them against what happened.
//
// A [Plan] is a list of known outages, a pure function of a seed, a rate and a duration. Whoever runs it lets a
// faultserver fail accordingly, measures that, and brings here what the server did (its [Truths] and [Books]) and
// what the run says (its timeline and requests). [Judge] compares the two and writes the [Report]: which promises of the
// tool were kept, and how wrong its figures were. Nothing here looks at a clock or opens a socket.
//
// # When a bracket holds the truth
//
// The truth is not known to the nanosecond either. The server knows of an edge that it came between two readings of its
// clock, which is the run's clock: before and after the system call that closed the listener, for example. So the
// truth of an edge is a span as well, some microseconds wide. A bracket holds it if the two have an instant in
// common: if they have none, the bracket is proven wrong.
//
//	truth             [====]                    [==]
//	bracket     |--------|         |-----|
//	             holds                    does not hold
//
// Faults of requests (reset, 5xx, …) begin and end at an instant known exactly: the server looks at the clock when it
// has read a request, and decides by that.
//
// # What else must be so
//
// A bracket that is wide or missing holds anything. So the requests on record, which must agree with the server's books, say how narrow a
// bracket can be, what an outage must be called, and which figures follow: see check. A promise of which nothing was to be
// seen is undecided, never kept.
package selftest
