package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"lapse/sandbox/drill"
)

// programmingMetric counts the samples of kube-proxy's own figure, the network programming latency: one for each change that its endpoints'
// last-change-trigger-time names. See https://github.com/kubernetes/community/blob/master/sig-scalability/slos/network_programming_latency.md.
const programmingMetric = "kubeproxy_network_programming_duration_seconds_count"

// syncMetric is a figure that every kube-proxy shows.
const syncMetric = "kubeproxy_sync_proxy_rules_duration_seconds"

// programmed is how many samples the kube-proxy of each node has.
func programmed(ctx context.Context, c *drill.Cluster, nodes []string) (map[string]int, error) {
	samples := map[string]int{}
	for _, node := range nodes {
		cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "sandbox"), "--dir", c.Dir, "exec", node, "--",
			"bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/10249; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`)
		metrics, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("metrics of kube-proxy on %s: %w", node, err)
		}
		if !strings.Contains(string(metrics), syncMetric) {
			return nil, fmt.Errorf("metrics of kube-proxy on %s: no %s among %d bytes", node, syncMetric, len(metrics))
		}
		samples[node] = 0 // it shows no figure that has no sample yet
		for line := range strings.Lines(string(metrics)) {
			fields := strings.Fields(line)
			if name, _, _ := strings.Cut(line, "{"); len(fields) != 2 || name != programmingMetric && fields[0] != programmingMetric { // with labels, or without
				continue
			}
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return nil, fmt.Errorf("metrics of kube-proxy on %s: %q: %w", node, line, err)
			}
			samples[node] += int(n)
		}
	}
	return samples, nil
}
