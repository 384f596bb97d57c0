// Command sweep holds the keep-serving curve against drains. It drains a node while Lapse measures from every node,
// some times with servers that stop at SIGTERM and some times with servers that serve on for five lengths of time.
// Each drain's timeline says how many requests would still have failed had its Pod served longer; the drains whose
// Pods did serve longer say how many that is.
//
//	sweep --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../runs
//	sweep --lapse ../bin/lapse --modes '' -n 1                 one drain of each length, on the sandbox as it is
//	sweep --lapse ../bin/lapse --judge ../runs/sweep-…         the table again, from saved runs
//
// It exits 1 if a prediction does not hold, or if there are too few drains to tell, as with -n 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// servesOn lists how long the servers serve after SIGTERM. A pair of them is compared if its difference is one of them,
// too: a curve says something of these lengths.
var servesOn = []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond,
	2 * time.Second, 3 * time.Second}

const (
	// stale is how long kube-proxy of every node is stopped after the Pod's deletion: routes outlive a Pod for about
	// the same time in every drain.
	stale = 2 * time.Second

	// mostDrains bounds the work of an exact test.
	mostDrains = 12

	namespace = "sweep"
	table     = "keep-serving.md"
)

func main() {
	s := settings{drill.Series{Modes: drill.List{"iptables"}, N: 6, Rate: 300}}
	s.Flags(flag.CommandLine, "drains of each length in each mode, 6 or more to judge")
	s.OutFlag(flag.CommandLine, table)
	drill.Main("sweep", func(ctx context.Context) error {
		if s.N < 1 || s.N > mostDrains {
			return fmt.Errorf("-n %d: from 1 to %d drains of each length", s.N, mostDrains)
		}
		return s.study().Run(ctx, s.Series)
	})
}

type settings struct{ drill.Series }

// A drain is one run. What is exported is saved with the recording.
type drain struct {
	drill.Conditions
	ServesOn time.Duration
	Number   int
	Load     string // as it began

	timeline drill.Timeline
}

func (d drain) String() string {
	return fmt.Sprintf("%v, drain %d: %d failed", d.ServesOn, d.Number, d.failed())
}

func (s settings) study() drill.Study[drain] {
	return drill.Study[drain]{
		Name:    "sweep",
		Table:   table,
		File:    "drain.json",
		Plan:    s.plan,
		Folder:  func(d drain) string { return filepath.Join(d.Mode, fmt.Sprintf("%v-%d", d.ServesOn, d.Number)) },
		Measure: s.measure,
		End:     func(ctx context.Context, c *drill.Cluster) error { return c.Remove(ctx, namespace) },
		Judge: func(ctx context.Context, d *drain, dir string) error {
			run, err := drill.Judge(ctx, s.Lapse, dir)
			d.timeline = run.Timeline
			return err
		},
		Document: document,
		Verdict:  judgement,
	}
}

// plan takes the lengths in turn, so that what changes on the machine meets them all.
func (s settings) plan(mode string) (all []drain) {
	for i := range s.N {
		for _, length := range servesOn {
			all = append(all, drain{Conditions: drill.Conditions{Mode: mode}, ServesOn: length, Number: i + 1})
		}
	}
	return all
}

// measure drains once, with a workload that is new.
func (s settings) measure(ctx context.Context, c *drill.Cluster, d *drain, dir string) error {
	w := drill.Workload{
		Namespace: namespace,
		Name:      "web",
		Replicas:  2,
		Args:      []string{"--on-sigterm", "graceful", "--drain-for", d.ServesOn.String()},
	}
	if err := c.Deploy(ctx, w); err != nil {
		return err
	}
	node, err := c.NodeOf(ctx, w)
	if err != nil {
		return err
	}
	pod, err := c.Kubectl(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name,
		"--field-selector", "spec.nodeName="+node, "-o", "name")
	if err != nil {
		return err
	}
	words, resume, err := c.StaleRoutes("kubectl drain "+node+" --ignore-daemonsets",
		untilStale(w.Namespace, strings.TrimSpace(pod)))
	if err != nil {
		return err
	}
	defer resume()
	args := append([]string{"--from", "all", "--rate", strconv.Itoa(s.Rate), "--baseline", "3s", "--settle", "4s",
		"--avoid-node", node, "--"}, words...)
	before, script := args[:len(args)-1], args[len(args)-1]
	d.Begin("lapse run svc/" + w.Name + " -n " + w.Namespace + " " + strings.Join(before, " ") + " '" + script + "'")
	d.Load = drill.LoadAverage()
	run, err := c.Measure(ctx, w, dir, args...)
	if err != nil {
		return err
	}
	if of := run.Timeline.Run; of.Aborted != "" || of.Command.ExitCode == nil || *of.Command.ExitCode != 0 {
		return fmt.Errorf("the drain did not end well (aborted: %q): see %s", of.Aborted, dir)
	}
	d.timeline = run.Timeline
	return nil
}

// untilStale returns the shell command that lasts until kube-proxy may go on.
func untilStale(namespace, pod string) string {
	const deleted = "kubectl -n %s wait %s --for=jsonpath={.metadata.deletionTimestamp} --timeout=60s; sleep %g"
	return fmt.Sprintf(deleted, namespace, pod, stale.Seconds())
}
