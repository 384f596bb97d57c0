// Package deploy runs Lapse inside a cluster and brings its result home.
//
// A run in the cluster is a Job with one Pod, the agent. The agent measures, watches and judges
// there; the command line on a workstation only creates it, follows it and cleans up. This package
// holds both halves of that conversation:
//
//   - the objects a run needs, as Go values ([Config.Objects]) and, rendered from the same values,
//     as YAML ([WriteYAML], and deploy/kustomize for use without the command line);
//   - the workstation's side: [CheckRights], [Create], [Run.WaitMeasuring], [Run.Delete], [List], [Leftovers], [Remove];
//   - what the agent does of that for a run that somebody has applied: [HandOutKeys], [DismissProbers];
//   - the agent's API and the way to it, in package agent, and that of the probers on other nodes: a DaemonSet and its [Keys];
//   - the ways home for when nobody was listening: [Retrieve], from the waiting agent, the markers
//     in the Pod's log, or the termination message.
//
// Connections break, and a drain of some node is just what makes them break. So every request of
// the API can be repeated without harm, and the recording is fetched by offset: what arrived is
// never asked for again, and the copy is compared with the agent's SHA-256 before it is acknowledged.
package deploy
