// Package preflight predicts what a drain, a rollout or a crash will do to a Service, from the Service's spec and the
// placement of its Pods, before anything is measured.
//
// What is known is a [State]: read from a cluster with [FromCluster], or from manifests with [FromManifests]. Each
// [Rule] is a pure function of a State, in a file of its own, and a line in the list in rules.go. [Judge] asks all of
// them. Where a fact is missing, the rules that need it say so, and the others still judge.
//
// A prediction is no measurement. It says no more than its evidence shows: what depends on the application is "may
// lose", and a length that is assumed is called an assumption.
//
// There is no LP10. It was to be "minReadySeconds 0 and a slow start", but minReadySeconds only delays a rollout: an
// endpoint is ready as soon as its Pod is, and a probe that says yes too early is in no spec.
package preflight
