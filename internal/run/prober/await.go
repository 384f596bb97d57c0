package prober

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/deploy/agent"
	"lapse/loadgen"
)

const (
	// routesWithin is how long to wait for this node's routes to a new Service. A call to a prober may take longer.
	routesWithin = 5 * time.Second
	// dialWithin is the time for one connection.
	dialWithin = 200 * time.Millisecond
)

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// awaitRoutes waits until each target's Service accepts a connection from here. The Service of `lapse routes` is some
// seconds old, and nodes learn of it as late as of any change. It waits for routesWithin at most: a route that is
// still missing is then measured.
func awaitRoutes(ctx context.Context, targets []agent.Assigned, dial dialer) {
	ctx, cancel := context.WithTimeout(ctx, routesWithin)
	defer cancel()
	for _, t := range targets {
		to, err := url.Parse(t.URL)
		if err != nil || to.Host == "" {
			continue // the prober's own control server
		}
		if p, _ := loadgen.ProtocolOf(to.Scheme); p.Transport() != "tcp" {
			continue // nothing is accepted
		}
		address := net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), to.Scheme))
		_ = wait.PollUntilContextCancel(ctx, dialWithin/4, true, func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, dialWithin)
			defer cancel()
			conn, err := dial(ctx, "tcp", address)
			if err != nil {
				return false, nil
			}
			return true, conn.Close()
		})
	}
}
