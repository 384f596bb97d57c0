// Package timeline defines the facts of a run: when each request was sent and how it ended, and what changed in the
// cluster meanwhile. It knows no socket, no client and no judgement. All other packages use its types.
//
// Instants are a time.Duration on one source's monotonic clock, from the run's start (see [Clock]). A time that another
// machine states stays a time.Time, with the name of that machine. Facts are stored as measured. Placing them on a
// common axis widens error bars and changes no fact.
package timeline
