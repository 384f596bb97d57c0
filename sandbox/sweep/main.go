// Command sweep holds the keep-serving curve against drains. It drains a node while Lapse measures from every node,
// some times with servers that stop at SIGTERM and some times with servers that serve on for five lengths of time.
// Each drain's timeline says how many requests would still have failed had its Pod served longer; the drains whose
// Pods did serve longer say how many that is.
//
//	sweep --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../docs/measured
//	sweep --lapse ../bin/lapse --modes '' -n 1                 one drain of each length on the sandbox as it is: too few to judge
//	sweep --lapse ../bin/lapse --judge ../runs/sweep-…         the table again, from saved runs
//
// It exits 1 if a prediction does not hold, or if there are too few drains to tell.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// servesOn are for how long the servers serve after SIGTERM. The differences that are among them, too, are lengths
// that a curve has.
var servesOn = []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second}

const (
	// stale is for how long kube-proxy stands still after the Pod's deletion, on every node: so that routes outlive a
	// Pod for as long in every drain.
	stale = 2 * time.Second

	// mostDrains bounds the work of an exact test.
	mostDrains = 12

	namespace = "sweep"
	table     = "keep-serving.md"
	drainFile = "drain.json"
)

func main() {
	s := drill.Series{Modes: drill.List{"iptables"}, N: 6, Rate: 300}
	s.Flags(flag.CommandLine, "drains of each length in each mode, 6 or more to judge")
	s.OutFlag(flag.CommandLine, table)
	drill.Main("sweep", func(ctx context.Context) error { return sweep(ctx, s) })
}

func sweep(ctx context.Context, s drill.Series) error {
	if s.N < 1 || s.N > mostDrains {
		return fmt.Errorf("-n %d: from 1 to %d drains of each length", s.N, mostDrains)
	}
	collect := drainAll
	if s.Judge != "" {
		collect = judgeAll
	}
	drains, err := collect(ctx, s)
	if len(drains) == 0 {
		return cmp.Or(err, errors.New("no drains"))
	}
	return errors.Join(err, s.Publish(table, document(drains)), judgement(drains))
}

// A drain is one run. What is exported is saved beside the recording.
type drain struct {
	Mode     string // kube-proxy's
	ServesOn time.Duration
	Number   int
	Began    time.Time
	Load     string // as it began
	Machine  string
	Command  string // Lapse's

	timeline drill.Timeline
}

// drainAll drains with each length in turn, so that what changes on the machine meets them all.
func drainAll(ctx context.Context, s drill.Series) (drains []drain, err error) {
	base := s.Base("sweep")
	for _, mode := range s.Modes {
		c, err := s.Open(ctx, mode, os.Stderr)
		if err != nil {
			return drains, err
		}
		for i := range s.N {
			for _, length := range servesOn {
				d := drain{Mode: c.ProxyMode(), ServesOn: length, Number: i + 1, Machine: drill.Machine()}
				if err := d.measure(ctx, s, c, filepath.Join(base, d.Mode, fmt.Sprintf("%v-%d", length, d.Number))); err != nil {
					return drains, err
				}
				drains = append(drains, d)
				fmt.Fprintln(os.Stderr, d.row())
			}
		}
		if err := c.Remove(ctx, namespace); err != nil {
			return drains, err
		}
	}
	return drains, nil
}

// judgeAll has Lapse judge saved runs again.
func judgeAll(ctx context.Context, s drill.Series) (drains []drain, err error) {
	err = drill.Saved(filepath.Join(s.Judge, "*", "*", drainFile), func(dir string, d drain) error {
		run, err := drill.Judge(ctx, s.Lapse, dir)
		if err != nil {
			return err
		}
		d.timeline = run.Timeline
		drains = append(drains, d)
		return nil
	})
	return drains, err
}

// measure drains once, with a workload that is new.
func (d *drain) measure(ctx context.Context, s drill.Series, c *drill.Cluster, dir string) error {
	w := drill.Workload{Namespace: namespace, Name: "web", Replicas: 2, Args: []string{"--on-sigterm", "graceful", "--drain-for", d.ServesOn.String()}}
	if err := c.Deploy(ctx, w); err != nil {
		return err
	}
	node, err := c.NodeOf(ctx, w)
	if err != nil {
		return err
	}
	pod, err := c.Kubectl(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name, "--field-selector", "spec.nodeName="+node, "-o", "name")
	if err != nil {
		return err
	}
	words, resume, err := c.StaleRoutes("kubectl drain "+node+" --ignore-daemonsets", untilStale(w.Namespace, strings.TrimSpace(pod)))
	if err != nil {
		return err
	}
	defer resume()
	args := append([]string{"--from", "all", "--rate", strconv.Itoa(s.Rate), "--baseline", "3s", "--settle", "4s", "--avoid-node", node, "--"}, words...)
	d.Began, d.Load = time.Now().UTC(), drill.LoadAverage()
	d.Command = "lapse run svc/" + w.Name + " -n " + w.Namespace + " " + strings.Join(args[:len(args)-1], " ") + " '" + words[len(words)-1] + "'"
	run, err := c.Measure(ctx, w, dir, args...)
	if err != nil {
		return err
	}
	if of := run.Timeline.Run; of.Aborted != "" || of.Command.ExitCode == nil || *of.Command.ExitCode != 0 {
		return fmt.Errorf("the drain did not end well (aborted: %q): see %s", of.Aborted, dir)
	}
	d.timeline = run.Timeline
	return drill.Save(dir, drainFile, d)
}

// untilStale is the shell command that lasts until kube-proxy may go on.
func untilStale(namespace, pod string) string {
	return fmt.Sprintf("kubectl -n %s wait %s --for=jsonpath={.metadata.deletionTimestamp} --timeout=60s; sleep %g", namespace, pod, stale.Seconds())
}
