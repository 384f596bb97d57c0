// Package run is one run of Lapse: from this machine, in the Job's Pod, or followed from a workstation while a Pod
// measures.
//
// A run here is a loop that one goroutine owns. Probes (loadgen), the cluster's events (watcher) and the wrapped
// command put their facts into a queue, which never makes them wait. The loop takes the facts out, numbers the
// events, records them (record), judges them (correlate), and shows them on the terminal and the page (dashboard).
//
// In the cluster the same loop runs in a Job's Pod, as an agent that serves its recording. The workstation creates
// the Job (deploy), copies the recording while it is written, runs the command there and sends what the command does
// to the agent. With --from, the agent follows a prober on each chosen node in the same way.
package run
