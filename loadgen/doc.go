// Package loadgen sends requests at a steady rate, whether or not earlier ones were answered, and turns each
// into a fact: when it was due, when it was sent, how and when it ended.
//
// A [Prober] paces any number of targets from one thread. What it stands on is in packages of its own, and each imports
// only those below it:
//
//	loadgen    the prober: its pacing thread, schedules, the control server
//	engine     which connection a request takes, and how it ended
//	protocol   what is said on a connection, one file for each protocol
//	stall      stops of the prober, and what they may have done to a request
//	polled     replies that the pacing thread itself reads
//	wire       connections: looking up, dialling, local ports, how they fail
//
// HTTP replies are read by a reader of our own, because net/http's client silently sends some requests again and
// reports only the success.
package loadgen
