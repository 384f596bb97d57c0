package truth

import (
	"errors"
	"fmt"
)

// Routes are watches of how several nodes route to a Service.
type Routes struct{ watches []*routeWatch }

// NodeRoutes says when a node began to route to addresses, and when it no longer did. Added lacks the addresses that
// it routed to from the beginning.
type NodeRoutes struct{ Added, Removed map[string]Bracket }

// namespaceOf returns the name of a node's network namespace.
func namespaceOf(node string) string { return "lapse-" + node }

// WatchRoutes begins to watch the routes of nodes to a Service's port ("shop/web", "http").
func WatchRoutes(nodes []string, service, port string) (*Routes, error) {
	r := &Routes{}
	for _, node := range nodes {
		w, err := watchRoutes(node, namespaceOf(node), service, port)
		if err != nil {
			_, _ = r.End()
			return nil, fmt.Errorf("watch the routes of %s: %w", node, err)
		}
		r.watches = append(r.watches, w)
	}
	return r, nil
}

// End ends the watches, and returns what they saw, by node.
func (r *Routes) End() (map[string]NodeRoutes, error) {
	seen := map[string]NodeRoutes{}
	var errs []error
	for _, w := range r.watches {
		removed, err := w.end()
		if err != nil {
			errs = append(errs, fmt.Errorf("watch the routes of %s: %w", w.node, err))
		}
		seen[w.node] = NodeRoutes{Added: w.added, Removed: removed}
	}
	return seen, errors.Join(errs...)
}
