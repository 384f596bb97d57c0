package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

func service(i int) string { return fmt.Sprintf("web-%d", i) }

// deploy makes the Services and their Pods, and waits until the endpoints are ready.
func deploy(ctx context.Context, c *drill.Cluster, services, endpoints int) error {
	if err := c.Remove(ctx, namespace); err != nil {
		return err
	}
	var yaml strings.Builder
	fmt.Fprintf(&yaml, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\napiVersion: v1\nkind: Node\n"+
		"metadata: {name: %s}\nspec: {unschedulable: true}\n", namespace, node)
	for i := range services {
		fmt.Fprintf(&yaml, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %[1]s, namespace: %[2]s}\nspec:\n"+
			"  selector: {app: %[1]s}\n  ports: [{name: http, port: 80, targetPort: %[3]d}]\n",
			service(i), namespace, port)
	}
	if err := c.Apply(ctx, yaml.String()); err != nil {
		return err
	}
	var pods []pod
	for n := range endpoints {
		pods = append(pods, pod{service(n % services), n})
	}
	if err := create(ctx, c, pods); err != nil {
		return err
	}
	for {
		out, err := c.Kubectl(ctx, "-n", namespace, "get", "endpointslices",
			"-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err != nil {
			return err
		}
		if strings.Count(out, "true") == endpoints {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d endpoints, %d ready: %w", endpoints, strings.Count(out, "true"), ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// A pod is one without a kubelet. Its number gives its name and its address.
type pod struct {
	app    string
	number int
}

func (p pod) name() string { return fmt.Sprintf("%s-%d", p.app, p.number) }
func (p pod) address() string {
	return fmt.Sprintf("10.250.%d.%d", 1+p.number/250%250, 1+p.number%250)
}

// create makes Pods and writes the status that a kubelet would.
func create(ctx context.Context, c *drill.Cluster, pods []pod) error {
	var spec, status strings.Builder
	for _, p := range pods {
		head := fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {app: %s}}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  enableServiceLinks: false
  tolerations: [{operator: Exists}]
  containers: [{name: server, image: "none:none"}]
`, p.name(), namespace, p.app, node)
		spec.WriteString(head)
		now := time.Now().UTC().Format(time.RFC3339)
		fmt.Fprintf(&status, `%sstatus:
  phase: Running
  podIP: %[2]s
  podIPs: [{ip: %[2]s}]
  startTime: %[3]s
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: %[3]s}
  - {type: ContainersReady, status: "True", lastTransitionTime: %[3]s}
`, head, p.address(), now)
	}
	if err := c.Apply(ctx, spec.String()); err != nil {
		return err
	}
	return c.ApplyStatus(ctx, status.String())
}

// churn replaces a Pod of each Service again and again: it is deleted, serves for some seconds more, and another
// takes its place.
func churn(ctx context.Context, c *drill.Cluster, s settings, endpoints int) error {
	next, oldest := endpoints, 0
	tick := time.NewTicker(s.churn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var leaving []string
		var coming []pod
		for i := range s.services {
			leaving = append(leaving, pod{service(i), oldest + i}.name())
			coming = append(coming, pod{service(i), next + i})
		}
		oldest, next = oldest+s.services, next+s.services
		err := create(ctx, c, coming)
		if err == nil {
			_, err = c.Kubectl(ctx, append([]string{"-n", namespace, "delete", "pods", "--wait=false"}, leaving...)...)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.churn / 3):
		}
		if err == nil {
			_, err = c.Kubectl(ctx, append([]string{"-n", namespace, "delete", "pods", "--force", "--grace-period=0"},
				leaving...)...)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("replace Pods: %w", err)
		}
	}
}
