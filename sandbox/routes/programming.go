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
		for line := range strings.Lines(string(metrics)) {
			if text, ok := strings.CutPrefix(line, programmingMetric+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil {
					return nil, fmt.Errorf("metrics of kube-proxy on %s: %q: %w", node, line, err)
				}
				samples[node] = int(n)
			}
		}
	}
	return samples, nil
}
