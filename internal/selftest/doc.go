// Package selftest plans outages, and compares what a run reports with what happened.
//
// A [Plan] is a list of known outages, a pure function of a seed, a rate and a duration. The caller lets a
// faultserver fail accordingly, measures that server, and hands over what the server did ([Outages], [Ledger]) and
// what the run reports (its timeline and its recorded requests). [Judge] compares the two and writes the [Report]:
// which outages were found, which windows were invented, how far off the edges were, whether every bracket holds the
// truth (see package truth), and whether the counts agree. Nothing here reads a clock or opens a socket.
package selftest
