// Package watcher turns what Kubernetes' API says of a Service into facts: its Pods, the endpoints in its
// EndpointSlices, the nodes, the Service itself, what makes its Pods (Deployments, ReplicaSets, StatefulSets), the
// PodDisruptionBudgets that guard them, and the Events about them.
//
// Each kind has a file with a pure function from an object's old and new state to events; watch.go has the loop that
// lists, watches, and says where it may have missed something. Instants are when we learned of a change. What the
// object says about time goes beside it, with the name of who said it.
//
// The Services of a namespace share one watch of each kind, and all namespaces one of the nodes: what concerns
// several Services is one event. Where a watch was off or had a gap, the fact names the Services that it concerns.
//
// Nothing but get, list and watch is needed. Without the right to see nodes, Events, workloads or budgets the rest is
// still watched.
package watcher
