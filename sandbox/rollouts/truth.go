package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"lapse/sandbox/drill"
)

// A bracket holds an instant that was not seen itself, on the machine's wall clock.
type bracket struct{ Earliest, Latest time.Time }

// podTruth is what became of a Pod that the restart ended.
type podTruth struct {
	Name    string
	Node    string
	Address string
	Stopped bracket // when its server closed its listening socket
	Routed  bracket // when the prober's node had routed to it for the last time
}

// Lag is how long the prober's node routed to the Pod after it had stopped; negative if the routes ended first.
func (p podTruth) Lag() drill.Length {
	return drill.Length{Min: p.Routed.Earliest.Sub(p.Stopped.Latest), Max: p.Routed.Latest.Sub(p.Stopped.Earliest)}
}

// A truth is one restart under observation.
type truth struct {
	pods   []podTruth
	logs   []*os.File    // of the servers, held open: the kubelet deletes them with their Pods
	routes []*routeWatch // one for each node: where the prober will be is not known yet
}

const (
	servicePort = "http"
	serverPort  = "8080"
)

func beginTruth(ctx context.Context, c *drill.Cluster, w drill.Workload) (*truth, error) {
	out, err := c.Kubectl(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID string }
			Spec     struct{ NodeName string }
			Status   struct{ PodIP string }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	t := &truth{}
	for _, p := range list.Items {
		log, err := openLog(c, p.Spec.NodeName, w.Namespace+"_"+p.Metadata.Name+"_"+p.Metadata.UID)
		if err != nil {
			t.close()
			return nil, err
		}
		t.logs = append(t.logs, log)
		t.pods = append(t.pods, podTruth{Name: p.Metadata.Name, Node: p.Spec.NodeName, Address: p.Status.PodIP + ":" + serverPort})
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		t.close()
		return nil, err
	}
	for _, node := range nodes {
		watch, err := watchRoutes(node, "lapse-"+node, w.Namespace+"/"+w.Name, servicePort)
		if err != nil {
			t.close()
			return nil, err
		}
		t.routes = append(t.routes, watch)
	}
	return t, nil
}

// openLog opens the log of a Pod's only container, in its node's own /var.
func openLog(c *drill.Cluster, node, pod string) (*os.File, error) {
	logs, err := filepath.Glob(filepath.Join(c.Dir, "nodes", node, "var/log/pods", pod, "*", "*.log"))
	if err != nil {
		return nil, err
	}
	if len(logs) != 1 {
		return nil, fmt.Errorf("pod %s has %d logs on %s: want one, of a container that never restarted", pod, len(logs), node)
	}
	return os.Open(logs[0])
}

// end returns the truth as the prober's node had it.
func (t *truth) end(prober string) ([]podTruth, error) {
	i := slices.IndexFunc(t.routes, func(w *routeWatch) bool { return w.node == prober })
	if i < 0 {
		return nil, fmt.Errorf("the prober's node %q was not watched", prober)
	}
	removed, err := t.routes[i].end()
	if err != nil {
		return nil, fmt.Errorf("watch the routes of %s: %w", prober, err)
	}
	pods := slices.Clone(t.pods)
	for i := range pods {
		if pods[i].Stopped, err = stoppedIn(t.logs[i]); err != nil {
			return nil, fmt.Errorf("log of %s: %w", pods[i].Name, err)
		}
		routed, ok := removed[pods[i].Address]
		if !ok {
			return nil, fmt.Errorf("%s was never seen to lose its route to %s (%s)", prober, pods[i].Name, pods[i].Address)
		}
		pods[i].Routed = routed
	}
	slices.SortFunc(pods, func(a, b podTruth) int { return a.Stopped.Earliest.Compare(b.Stopped.Earliest) })
	return pods, nil
}

func (t *truth) close() {
	for _, log := range t.logs {
		log.Close()
	}
	for _, watch := range t.routes {
		watch.end()
	}
}

var stopLine = regexp.MustCompile(` stopped listening between (\S+) and (\S+)`)

// stoppedIn finds the line in which the workload says when it stopped listening.
func stoppedIn(log io.Reader) (bracket, error) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		match := stopLine.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		earliest, err := time.Parse(time.RFC3339Nano, match[1])
		latest, err2 := time.Parse(time.RFC3339Nano, match[2])
		return bracket{earliest, latest}, errors.Join(err, err2)
	}
	return bracket{}, errors.Join(lines.Err(), errors.New("it does not say when it stopped listening"))
}
