package drill

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// GuardNamespace is that of a guard of all namespaces.
const GuardNamespace = "lapse"

// Guard installs a guard of all namespaces with flags, in place of one that is there, and waits until both of its Pods
// measure all Services that are annotated.
func (c *Cluster) Guard(ctx context.Context, flags ...string) error {
	if err := c.Remove(ctx, GuardNamespace); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", GuardNamespace); err != nil {
		return err
	}
	gen := c.Command(ctx, append([]string{"gen", "guard", "-A", "--"}, flags...)...)
	if err := gen.Run(); err != nil {
		return fmt.Errorf("lapse gen guard: %w", err)
	}
	if err := c.Apply(ctx, gen.out.String()); err != nil {
		return err
	}
	_, err := c.Kubectl(ctx, "-n", GuardNamespace, "rollout", "status", "deployment/lapse-guard", "--timeout=3m")
	return err
}

// Metrics calls each with every series that Prometheus would get from a path of the API server.
func (c *Cluster) Metrics(ctx context.Context, path string, each func(series string, value float64)) error {
	text, err := c.Kubectl(ctx, "get", "--raw", path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64); err == nil && line[0] != '#' {
			each(line[:at], value)
		}
	}
	return nil
}

// GuardMetrics is Metrics of a Pod of the guard.
func (c *Cluster) GuardMetrics(ctx context.Context, pod string, each func(series string, value float64)) error {
	return c.Metrics(ctx, "/api/v1/namespaces/"+GuardNamespace+"/pods/"+pod+":7117/proxy/metrics", each)
}

// GuardPods names the Pods of the guard.
func (c *Cluster) GuardPods(ctx context.Context) ([]string, error) {
	out, err := c.Kubectl(ctx, "-n", GuardNamespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard",
		"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
	return strings.Fields(out), err
}
