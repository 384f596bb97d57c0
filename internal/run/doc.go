// Package run is one run of Lapse in a cluster or on this machine: it joins what was asked for (run/spec) with what a
// cluster says of it, what measures (run/measure, run/source) and what people see (run/screen).
//
// On this machine and in the Job's Pod, a measurement looks up the Services, starts their targets, and lets the loop of
// run/measure go through the phases. Watchers, probers on other nodes (fleet) and the prober on the workstation are
// parts of it. In the Pod, the agent serves the recording, takes requests, and holds the result.
//
// On the workstation, a clusterRun creates the Job (deploy), copies the recording while it is written, runs the command
// and sends what the command does to the agent. attach only watches.
package run
