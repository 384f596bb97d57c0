// Package deploy runs Lapse inside a cluster and retrieves its result.
//
// A run in the cluster is a Job with one Pod, the agent. The agent measures, watches and judges
// there. The command line on a workstation creates the Job, follows it and cleans up.
//
// Each file uses only files that are further down in this list:
//
//	create.go, delete.go, leftovers.go    the workstation creates a run, deletes it, finds what others left
//	startup.go                            it waits until the agent measures
//	retrieve.go, logged.go                it fetches the result: from the agent, a log or a termination message
//	absent.go                             why a node has no prober
//	rights.go                             which rights the user lacks
//	run.go, connect.go                    a run that exists: its Job, its Pod, the way to its agent
//	judge.go, ending.go                   what the status of a Pod means (pure functions)
//	unattended.go, keys.go                what the agent does for a run that was applied; the certificates of a run
//	kustomize.go, yaml.go                 the objects as files
//	objects.go                            the objects of a run; each kind in pod.go, probers.go, canary.go, access.go
//	kinds.go                              the table of kinds: requests, and the rights they need
//	placement.go                          the nodes to run on
//	validate.go, metadata.go, config.go   what a run is configured with
//	names.go                              names, labels and environment variables
//
// The agent's API and the connection to it are in package agent.
//
// Connections break, and a drain of some node is a frequent reason. So every request of the API can be repeated
// without harm. The recording is fetched by offset: a second request continues where the first one broke. The
// copy is compared with the agent's SHA-256 before it is acknowledged.
package deploy
