// Package run is one run of Lapse: from a workstation through a Job in the cluster, or on this machine.
//
// On the workstation, run/workstation creates the Job, copies the recording while it is written, runs the command, and
// sends what the command does to the Job. In the Job's Pod, or on this machine where there is no Job, run/coordinator
// measures, watches, records and judges. Probers on other nodes and on the workstation measure for it (run/prober).
// run/resolve finds out what the options mean in a cluster.
package run
