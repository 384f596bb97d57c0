// Command paired compares drains with Lapse's fleet and drains without Lapse: does measuring change what it measures?
// It drains the same node again and again, with and without Lapse by turns, and compares the exit codes of
// `kubectl drain`, which Pods it evicted, in which order they ended, and how long that took.
//
//	paired --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../runs
//	paired --lapse ../bin/lapse --modes '' -n 1                one pair on the sandbox as it is: too few to judge
//	paired --lapse ../bin/lapse --judge ../runs/paired-…       the table again, from saved runs
//	paired --lapse ../bin/lapse --guard                        drains with a guard in the cluster, and without it
//
// It exits 1 if a drain with Lapse ended otherwise, if the lengths differ by more than chance, or if there are too
// few pairs to tell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const (
	namespace = "paired"
	table     = "no-influence.md"
	node      = "node2" // which is drained

	guardTable = "no-influence-guard.md"
)

// The Pods of the drained node, one of each Deployment: for how long each serves on after SIGTERM. They are so far
// apart that the order in which they end is no chance.
var servers = []struct {
	name  string
	drain string
}{{"first", "0s"}, {"second", "2s"}, {"third", "4s"}, {"fourth", "6s"}}

func main() {
	s := settings{Series: drill.Series{Modes: drill.List{"iptables"}, N: 10, Rate: 100}}
	s.Flags(flag.CommandLine, "pairs of drains in each mode, 6 or more to judge")
	s.OutFlag(flag.CommandLine, table+", or with -guard "+guardTable)
	flag.BoolVar(&s.guard, "guard", false, "with a guard in the cluster, in place of lapse run")
	drill.Main("paired", func(ctx context.Context) error { return paired(ctx, s) })
}

type settings struct {
	drill.Series
	guard bool
}

func paired(ctx context.Context, s settings) error {
	if s.N < 1 {
		return fmt.Errorf("-n %d: at least one pair", s.N)
	}
	name, table := "paired", table
	if s.guard {
		name, table = "paired-guard", guardTable
	}
	return drill.Study[drain]{
		Name:    name,
		Table:   table,
		File:    "outcome.json",
		Plan:    s.plan,
		Folder:  func(d drain) string { return filepath.Join(d.Mode, fmt.Sprintf("%d-%s", d.Pair, d.arm())) },
		Measure: s.measure,
		End: func(ctx context.Context, c *drill.Cluster) error {
			return errors.Join(c.Uncordon(ctx), c.Remove(ctx, namespace), c.Remove(ctx, drill.GuardNamespace))
		},
		Document: func(drains []drain) string { return document(byMode(drains)) },
		Verdict:  func(drains []drain) error { return judgement(byMode(drains)) },
	}.Run(ctx, s.Series)
}

// A drain is one drain, with Lapse or without it. It is saved as it is.
type drain struct {
	drill.Conditions
	Pair    int
	First   bool // of its pair
	Lapse   bool
	Guard   bool   // what measures is a guard
	Load    string // as it began
	Outcome outcome
}

func (d drain) String() string { return fmt.Sprintf("pair %d, %s: %+v", d.Pair, d.arm(), d.Outcome) }

func (d drain) arm() string {
	if d.Lapse {
		return "with"
	}
	return "without"
}

func (s settings) plan(mode string) (all []drain) {
	for i := range s.N {
		for turn := range 2 {
			all = append(all, drain{
				Conditions: drill.Conditions{Mode: mode},
				Pair:       i + 1,
				First:      turn == 0,
				Lapse:      (i+turn)%2 == 1,
			})
		}
	}
	return all
}

// measure deploys a new workload, drains the node and observes what becomes of the Pods.
func (s settings) measure(ctx context.Context, c *drill.Cluster, d *drain, dir string) error {
	if err := deploy(ctx, c); err != nil {
		return err
	}
	if s.guard {
		if err := s.guarded(ctx, c, d.Lapse); err != nil {
			return err
		}
	}
	var log podLog
	end, err := c.Watch(ctx, log.add, "pods", "-n", namespace)
	if err != nil {
		return err
	}
	defer func() { _ = end() }() // after an error; else it has ended
	command := []string{"kubectl", "drain", node, "--ignore-daemonsets"}
	d.Load = drill.LoadAverage()
	var of ended
	switch {
	case s.guard:
		of, err = without(ctx, c, d, command)
		if err == nil && d.Lapse {
			d.Guard = true
			err = records(ctx, c)
		}
	case d.Lapse:
		of, err = s.with(ctx, c, d, dir, command)
	default:
		of, err = without(ctx, c, d, command)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(end(), log.err); err != nil {
		return err
	}
	d.Outcome = log.outcome(of)
	return nil
}

// guarded puts a guard into the cluster that measures the Services, or leaves none there.
func (s settings) guarded(ctx context.Context, c *drill.Cluster, with bool) error {
	if !with {
		return c.Remove(ctx, drill.GuardNamespace)
	}
	if _, err := c.Kubectl(ctx, "-n", namespace, "annotate", "services", "--all", "lapse/guard=on"); err != nil {
		return err
	}
	return c.Guard(ctx, "--rate="+strconv.Itoa(s.Rate))
}

// records returns an error unless a Pod of the guard measures the disruption of every Service.
func records(ctx context.Context, c *drill.Cluster) error {
	pods, err := c.GuardPods(ctx)
	if err != nil {
		return err
	}
	most := 0
	for _, pod := range pods {
		recording := 0
		err = errors.Join(err, c.GuardMetrics(ctx, pod, func(series string, value float64) {
			if strings.HasPrefix(series, "lapse_guard_state{") && strings.Contains(series, `state="recording"`) {
				recording += int(value)
			}
		})) // one that was evicted, or has just replaced it, may not answer
		most = max(most, recording)
	}
	if most != len(servers) {
		short := fmt.Errorf("the guards %q measure the drain of %d Services, of %d", pods, most, len(servers))
		return errors.Join(err, short)
	}
	return nil
}

// ended says when `kubectl drain` ran, and its exit code.
type ended struct {
	from, to time.Time
	code     int
}

// with drains while Lapse measures from every node.
func (s settings) with(ctx context.Context, c *drill.Cluster, d *drain, dir string, command []string) (ended, error) {
	args := []string{"run"}
	for _, server := range servers {
		args = append(args, "svc/"+server.name)
	}
	args = append(args, "-n", namespace, "--from", "all", "--rate", strconv.Itoa(s.Rate),
		"--baseline", "3s", "--settle", "5s")
	d.Begin("lapse " + strings.Join(slices.Concat(args, []string{"--"}, command), " "))
	run, err := c.Command(ctx, slices.Concat(args, []string{"--out", dir, "--"}, command)...).Finish(dir)
	if err != nil {
		return ended{}, err
	}
	t := run.Timeline
	of := t.Run.Command
	if t.Run.Aborted != "" || of.Start == nil || of.End == nil || of.ExitCode == nil {
		return ended{}, fmt.Errorf("the run says nothing of the command's end (aborted: %q): see %s",
			t.Run.Aborted, dir)
	}
	for _, target := range t.Targets {
		if target.Kind == "new" && target.Sent == 0 {
			return ended{}, fmt.Errorf("%s was not measured: see %s", target.Name, dir)
		}
	}
	return ended{from: t.T0.Add(*of.Start), to: t.T0.Add(*of.End), code: *of.ExitCode}, nil
}

// without drains, and nothing else.
func without(ctx context.Context, c *drill.Cluster, d *drain, command []string) (ended, error) {
	d.Begin(strings.Join(command, " "))
	of := ended{from: time.Now()}
	_, err := c.Kubectl(ctx, command[1:]...)
	of.to = time.Now()
	code, err := exitCode(err)
	of.code = code
	return of, err
}

// deploy puts one Pod of each Deployment on the node that is drained: the others take none until they are there.
func deploy(ctx context.Context, c *drill.Cluster) error {
	if err := errors.Join(c.Remove(ctx, namespace), c.Uncordon(ctx)); err != nil {
		return err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
	if len(others) == 0 || len(others) == len(nodes) {
		return fmt.Errorf("nodes %q: %s and others are needed", nodes, node)
	}
	if _, err := c.Kubectl(ctx, append([]string{"cordon"}, others...)...); err != nil {
		return err
	}
	for _, server := range servers {
		w := drill.Workload{
			Namespace: namespace,
			Name:      server.name,
			Replicas:  1,
			Args:      []string{"--on-sigterm", "graceful", "--drain-for", server.drain},
		}
		if err := c.Apply(ctx, w.Manifest()); err != nil {
			return err
		}
	}
	for _, server := range servers {
		if err := c.Ready(ctx, drill.Workload{Namespace: namespace, Name: server.name, Replicas: 1}); err != nil {
			return err
		}
		if err := c.Routed(ctx, namespace, server.name); err != nil {
			return err
		}
	}
	return c.Uncordon(ctx)
}
