package prober

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lapse/deploy/agent"
	"lapse/timeline"
)

func TestRoutesToANewServiceAreAwaited(t *testing.T) {
	target := func(url string) agent.Assigned { return agent.Assigned{Target: timeline.Target{URL: url}} }
	for name, c := range map[string]struct {
		routed time.Duration // when there is a route
		waited time.Duration
	}{
		"there is one":          {0, 0},
		"it comes":              {730 * time.Millisecond, 750 * time.Millisecond},
		"it never comes":        {time.Hour, routesWithin},
		"it comes at the limit": {routesWithin - time.Millisecond, routesWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var asked []string
				dial := func(_ context.Context, _, address string) (net.Conn, error) {
					if asked = append(asked, address); time.Since(begun) < c.routed {
						return nil, errors.New("refused")
					}
					ours, theirs := net.Pipe()
					t.Cleanup(func() { theirs.Close() })
					return ours, nil
				}
				awaitRoutes(t.Context(), []agent.Assigned{target(""), target("http://10.96.0.7:8080/x"), target("http://[fd00::7]")}, dial)
				if waited := time.Since(begun); waited != c.waited {
					t.Errorf("waited %v, want %v", waited, c.waited)
				}
				if want := []string{"10.96.0.7:8080", "[fd00::7]:http"}; c.routed == 0 && !slices.Equal(asked, want) {
					t.Errorf("connected to %q, want %q", asked, want)
				}
			})
		})
	}
}
