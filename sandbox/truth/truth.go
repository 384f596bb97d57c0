// Package truth finds out what becomes of Pods that end, independently of Lapse: when each server stopped
// listening, by its own word, and when a node stopped routing to it, by the node's netfilter rules. Both are on the
// machine's wall clock, which all nodes of the sandbox share. [Contradictions] holds what Lapse says against it.
//
//	watch, err := truth.Begin(ctx, cluster, workload)    before the Pods end
//	…                                                    lapse run
//	pods, err := watch.End(node)                         after they have ended; node is the prober's
package truth

import (
	"bufio"
	"cmp"
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

// A Bracket holds an instant that was not seen itself, on the machine's wall clock.
type Bracket struct{ Earliest, Latest time.Time }

// A Pod is one that ended, and when its server and its routes did.
type Pod struct {
	Name    string
	Node    string
	Address string
	Stopped Bracket // when its server closed its listening socket
	Routed  Bracket // when the prober's node had routed to it for the last time
}

// Lag returns how long the prober's node routed to the Pod after it had stopped; negative if the routes ended first.
func (p Pod) Lag() drill.Length {
	return drill.Length{Min: p.Routed.Earliest.Sub(p.Stopped.Latest), Max: p.Routed.Latest.Sub(p.Stopped.Earliest)}
}

// A Watch observes what becomes of the Pods that a workload has when it begins.
type Watch struct {
	pods   []Pod
	logs   []*os.File    // of the servers, held open: the kubelet deletes them with their Pods
	routes []*routeWatch // one for each node: where the prober will be is not known yet
}

const (
	servicePort = "http"
	serverPort  = "8080"
)

// Begin begins to observe.
func Begin(ctx context.Context, c *drill.Cluster, w drill.Workload) (*Watch, error) {
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
	t := &Watch{}
	for _, p := range list.Items {
		log, err := openLog(c, p.Spec.NodeName, w.Namespace+"_"+p.Metadata.Name+"_"+p.Metadata.UID)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.logs = append(t.logs, log)
		t.pods = append(t.pods, Pod{Name: p.Metadata.Name, Node: p.Spec.NodeName,
			Address: p.Status.PodIP + ":" + serverPort})
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		t.Close()
		return nil, err
	}
	for _, node := range nodes {
		watch, err := watchRoutes(node, namespaceOf(node), w.Namespace+"/"+w.Name, servicePort)
		if err != nil {
			t.Close()
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
		return nil, fmt.Errorf("pod %s has %d logs on %s: want one, of a container that never restarted",
			pod, len(logs), node)
	}
	return os.Open(logs[0])
}

// End returns what was observed, with the routes of the prober's node, in the order in which the Pods stopped. Those
// that have not ended are left out.
func (t *Watch) End(prober string) ([]Pod, error) {
	removed, err := t.removed(prober)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for i, p := range t.pods {
		stopped, err := stoppedIn(t.logs[i])
		if errors.Is(err, errServes) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", p.Name, err)
		}
		routed, ok := removed[p.Address]
		if !ok {
			return nil, fmt.Errorf("%s was never seen to lose its route to %s (%s)", prober, p.Name, p.Address)
		}
		p.Stopped, p.Routed = stopped, routed
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return a.Stopped.Earliest.Compare(b.Stopped.Earliest) })
	return pods, nil
}

// Routed returns when a node had routed to each Pod for the last time, by the Pod's name, without the Pods that it
// still routes to.
func (t *Watch) Routed(node string) (map[string]Bracket, error) {
	removed, err := t.removed(node)
	if err != nil {
		return nil, err
	}
	routed := map[string]Bracket{}
	for _, p := range t.pods {
		if at, ok := removed[p.Address]; ok {
			routed[p.Name] = at
		}
	}
	return routed, nil
}

// removed ends the watch of a node's routes, and returns when each address lost its route.
func (t *Watch) removed(node string) (map[string]Bracket, error) {
	i := slices.IndexFunc(t.routes, func(w *routeWatch) bool { return w.node == node })
	if i < 0 {
		return nil, fmt.Errorf("node %q was not watched", node)
	}
	removed, err := t.routes[i].end()
	if err != nil {
		return nil, fmt.Errorf("watch the routes of %s: %w", node, err)
	}
	return removed, nil
}

func (t *Watch) Close() {
	for _, log := range t.logs {
		log.Close()
	}
	for _, watch := range t.routes {
		_, _ = watch.end()
	}
}

// errServes says that a log has no line of the server's end.
var errServes = errors.New("the server has not said that it stopped listening")

var stopLine = regexp.MustCompile(` stopped listening between (\S+) and (\S+)`)

// stoppedIn finds the line in which the workload says when it stopped listening.
func stoppedIn(log io.Reader) (Bracket, error) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		match := stopLine.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		earliest, err := time.Parse(time.RFC3339Nano, match[1])
		latest, err2 := time.Parse(time.RFC3339Nano, match[2])
		return Bracket{earliest, latest}, errors.Join(err, err2)
	}
	return Bracket{}, cmp.Or(lines.Err(), errServes)
}
