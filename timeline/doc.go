// Package timeline holds the facts of a run: which requests were sent when and how each ended, and
// what changed in the cluster meanwhile. It knows no socket, no client and no judgement; every
// other package speaks in its words.
//
// All instants are a time.Duration on one source's monotonic clock, counted from the run's start
// (see [Clock]). What another machine claims about time stays a time.Time beside the name of who
// claimed it. Facts are stored as measured; whoever places them on a common axis widens error bars
// and rewrites nothing.
package timeline
