// Package watcher watches a Service through Kubernetes' API and turns changes into facts: about its Pods, the endpoints
// in its EndpointSlices, the nodes, the Service itself, the workloads of its Pods (Deployments, ReplicaSets,
// StatefulSets, DaemonSets), their PodDisruptionBudgets, the EvictionRequests for its Pods where the API server has
// them, and the Events about all these.
//
// Each kind has a file with a pure function from an object's old and new state to events. watch.go has the loop that
// lists, watches, and records gaps. An event's instants say when this process saw the change. Its stamp is the time
// that the object states, by the clock of the event's writer.
//
// The Services of a namespace share one watch of each kind, and all namespaces share the watch of nodes: a change that
// concerns several Services is one event. If a watch was off or had a gap, the fact names the Services it concerns.
//
// The watcher needs get, list and watch only. It can do without the right to see nodes, Events, workloads, budgets or
// EvictionRequests.
package watcher
