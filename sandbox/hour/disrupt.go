package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// A service is a Deployment and its Service.
type service struct {
	name  string
	drops bool // its only Pod ends at once: whatever ends it drops requests. Else two serve on after SIGTERM
}

// services are disrupted by turns.
var services = []service{
	{"web-0", false}, {"web-1", true}, {"web-2", false}, {"web-3", false}, {"web-4", true},
	{"web-5", false}, {"web-6", true}, {"web-7", false}, {"web-8", false}, {"web-9", true},
}

// What is done to services of either kind, by turns.
var (
	smooth = []string{"rollout", "eviction", "scale-down", "deletion"}
	abrupt = []string{"deletion", "crash", "eviction"}
)

func (s service) workload() drill.Workload {
	if s.drops {
		return drill.Workload{Namespace: namespace, Name: s.name, Replicas: 1, Args: []string{"--on-sigterm", "exit"}}
	}
	return drill.Workload{Namespace: namespace, Name: s.name, Replicas: 2,
		Args: []string{"--on-sigterm", "graceful", "--drain-for", "5s"}}
}

func deploy(ctx context.Context, c *drill.Cluster) error {
	for _, remove := range []string{namespace, drill.GuardNamespace} {
		if err := c.Remove(ctx, remove); err != nil {
			return err
		}
	}
	for _, s := range services {
		if err := c.Apply(ctx, s.workload().Manifest()); err != nil {
			return err
		}
	}
	for _, s := range services {
		if err := c.Ready(ctx, s.workload()); err != nil {
			return err
		}
		if err := c.Routed(ctx, namespace, s.name); err != nil {
			return err
		}
	}
	_, err := c.Kubectl(ctx, "-n", namespace, "annotate", "services", "--all", "lapse/guard=on")
	return err
}

// A disruption is one that was made.
type disruption struct {
	Service      string
	What         string
	Drops        bool
	Began, Ended time.Time
}

// disturb makes the disruption of that number, and waits until its Service is whole again.
func disturb(ctx context.Context, c *drill.Cluster, number int) (disruption, error) {
	s, round := services[number%len(services)], number/len(services)
	kinds := smooth
	if s.drops {
		kinds = abrupt
	}
	d := disruption{Service: namespace + "/" + s.name, What: kinds[(number/2+round)%len(kinds)], Drops: s.drops}
	pod, node, ip, err := podOf(ctx, c, s.name)
	if err != nil {
		return d, err
	}
	d.Began = time.Now()
	do := func(args ...string) {
		if err == nil {
			_, err = c.Kubectl(ctx, args...)
		}
	}
	switch in := []string{"-n", namespace}; d.What {
	case "rollout":
		do(append(in, "rollout", "restart", "deployment/"+s.name)...)
	case "deletion":
		do(append(in, "delete", "pod", pod, "--wait=false")...)
	case "eviction":
		do("drain", node, "--ignore-daemonsets", "--pod-selector=app="+s.name)
		do("uncordon", node)
	case "scale-down":
		do(append(in, "scale", "deployment/"+s.name, "--replicas=1", "--timeout=1m")...)
		do(append(in, "scale", "deployment/"+s.name, "--replicas=2")...)
	case "crash": // the request ends with its server
		const crash = `printf 'GET /crash/3 HTTP/1.0\r\n\r\n' >&3; cat <&3`
		_, _ = c.On(ctx, node, "bash", "-c", "exec 3<>/dev/tcp/"+ip+"/8080; "+crash).Output()
	}
	if err == nil {
		err = c.Ready(ctx, s.workload())
	}
	d.Ended = time.Now()
	if err != nil {
		return d, fmt.Errorf("%s of %s: %w", d.What, d.Service, err)
	}
	return d, nil
}

func podOf(ctx context.Context, c *drill.Cluster, app string) (pod, node, ip string, err error) {
	out, err := c.Kubectl(ctx, "-n", namespace, "get", "pods", "-l", "app="+app,
		"-o", "jsonpath={.items[0].metadata.name} {.items[0].spec.nodeName} {.items[0].status.podIP}")
	if fields := strings.Fields(out); err == nil && len(fields) == 3 {
		return fields[0], fields[1], fields[2], nil
	}
	return "", "", "", fmt.Errorf("no Pod of %s: %q, %w", app, out, err)
}
