package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const (
	namespace   = "advice"
	adviceTable = "advice.md"
	tries       = 5 // drains without a sleep, at most, until one loses a request and is given advice
)

// An advised is the advice that was given in a mode, and drains of a workload that follows the shorter one.
type advised struct {
	drill.Conditions
	Load     string
	OfRoutes int // seconds to serve on, by `lapse routes`
	OfRun    int // by `lapse run` of a drain without a sleep
	Without  int // requests that this drain lost

	Lost     []int // requests, by each drain with the sleep
	Sent     int
	Coverage float64
}

func (a advised) sleep() int { return min(a.OfRoutes, a.OfRun) }

func (a advised) String() string {
	lossy, failed := a.lost()
	return fmt.Sprintf("%s: %d s and %d s advised; with %d s %d of %d drains lost %d requests",
		a.Mode, a.OfRoutes, a.OfRun, a.sleep(), lossy, len(a.Lost), failed)
}

// lost returns how many drains lost a request, and how many requests all of them lost.
func (a advised) lost() (drains, requests int) {
	for _, n := range a.Lost {
		if requests += n; n > 0 {
			drains++
		}
	}
	return drains, requests
}

// adviceStudy holds the advice of `lapse routes` and of `lapse run` against drains.
func (s settings) adviceStudy() drill.Study[advised] {
	return drill.Study[advised]{
		Name:  "advice",
		Table: adviceTable,
		File:  "advice.json",
		Plan: func(mode string) []advised {
			return []advised{{Conditions: drill.Conditions{Mode: mode}}}
		},
		Folder:   func(a advised) string { return filepath.Join(a.Mode, "advice") },
		Measure:  s.measureAdvice,
		End:      func(ctx context.Context, c *drill.Cluster) error { return c.Remove(ctx, namespace) },
		Document: adviceDocument,
		Verdict:  adviceVerdict,
	}
}

func (s settings) measureAdvice(ctx context.Context, c *drill.Cluster, a *advised, dir string) error {
	a.Load = drill.LoadAverage()
	routes, err := c.Command(ctx, "routes", "-n", "default", "--changes", strconv.Itoa(s.changes),
		"--rate", strconv.Itoa(s.Rate), "--out", filepath.Join(dir, "routes")).Finish(filepath.Join(dir, "routes"))
	if err != nil {
		return err
	}
	if a.OfRoutes, err = secondsIn(routes.Output); err != nil {
		return err
	}
	// New connections alone: a sleep does not save a persistent one, which ends with its Pod.
	w := drill.Workload{Namespace: namespace, Name: "web", Replicas: 2, Neighbours: 6,
		Args: []string{"--on-sigterm", "graceful", "--drain-for", "0s"}}
	args := []string{"--from", "all", "--target", "new", "--rate", strconv.Itoa(s.Rate),
		"--baseline", "2s", "--settle", "3s"}
	if err := c.Deploy(ctx, w); err != nil {
		return err
	}
	for try := 1; a.OfRun == 0; try++ {
		run, err := c.Drain(ctx, w, filepath.Join(dir, "without-"+strconv.Itoa(try)), args...)
		if err != nil {
			return err
		}
		a.Without = run.Timeline.Verdict.Failed
		if a.OfRun, err = secondsIn(run.Output); err != nil && try == tries {
			return fmt.Errorf("%d drains without a sleep: %w", tries, err)
		}
	}
	if err := sleeps(ctx, c, w, a.sleep()); err != nil {
		return err
	}
	return s.drainAgain(ctx, c, w, a, filepath.Join(dir, "with"), args)
}

var advice = regexp.MustCompile(`serve on for (\d+) s after a Pod's deletion`)

// secondsIn returns how long Lapse advised to serve on. The words may be wrapped.
func secondsIn(output string) (int, error) {
	found := advice.FindStringSubmatch(strings.Join(strings.Fields(output), " "))
	if found == nil {
		return 0, fmt.Errorf("no advice how long to serve on in %q", output)
	}
	return strconv.Atoi(found[1])
}

// sleeps gives the workload's Pods a preStop sleep.
func sleeps(ctx context.Context, c *drill.Cluster, w drill.Workload, seconds int) error {
	const patch = `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":%d,"containers":[` +
		`{"name":"server","lifecycle":{"preStop":{"sleep":{"seconds":%d}}}}]}}}}`
	if err := c.Uncordon(ctx); err != nil {
		return err
	}
	_, err := c.Kubectl(ctx, "-n", w.Namespace, "patch", "deployment", w.Name,
		"-p", fmt.Sprintf(patch, seconds+30, seconds))
	if err != nil {
		return err
	}
	return c.Ready(ctx, w)
}

// drainAgain drains the workload's two nodes by turns, while one run measures. After each drain all Pods are ready
// again, so that the next one finds a Pod to evict.
func (s settings) drainAgain(
	ctx context.Context, c *drill.Cluster, w drill.Workload, a *advised, dir string, args []string,
) error {
	out, err := c.Kubectl(ctx, "-n", w.Namespace, "get", "pods", "-l", "app="+w.Name,
		"-o", "jsonpath={.items[*].spec.nodeName}")
	nodes := strings.Fields(out)
	if err != nil || len(nodes) != 2 {
		return fmt.Errorf("the nodes of two Pods: %q, %w", out, err)
	}
	for _, node := range nodes {
		args = append(args, "--avoid-node", node)
	}
	script := drainScript(w, nodes, s.drains)
	a.Begin("lapse run svc/" + w.Name + " -n " + w.Namespace + " " + strings.Join(args, " ") +
		" -- sh -c '" + script + "'")
	run, err := c.Measure(ctx, w, dir, append(args, "--", "sh", "-c", script)...)
	if err != nil {
		return err
	}
	if of := run.Timeline.Run; of.Aborted != "" || of.Command.ExitCode == nil || *of.Command.ExitCode != 0 {
		return fmt.Errorf("the drains did not end well (aborted: %q): see %s", of.Aborted, dir)
	}
	verdict := run.Timeline.Verdict
	a.Sent, a.Coverage = verdict.Sent, verdict.Coverage
	if a.Lost = lostByDrain(run.Timeline); len(a.Lost) != s.drains {
		return fmt.Errorf("%d drains are on record, of %d: see %s", len(a.Lost), s.drains, dir)
	}
	if _, failed := a.lost(); failed != verdict.Failed {
		return fmt.Errorf("%d of %d failures are on record: see %s", failed, verdict.Failed, dir)
	}
	return nil
}

// drainMark is the line that each drain begins with.
const drainMark = "drain number "

// drainScript returns the shell command that drains nodes by turns. Of a workload of two Pods on three nodes, the Pod
// of a drained node goes to the third one, and the next drain finds one on the other node.
func drainScript(w drill.Workload, nodes []string, times int) string {
	var b strings.Builder
	b.WriteString("set -e")
	for i := range times {
		node := nodes[i%len(nodes)]
		fmt.Fprintf(&b, "; echo %s%d; kubectl drain %[3]s --ignore-daemonsets; kubectl uncordon %[3]s",
			drainMark, i+1, node)
		for _, name := range []string{w.Name, "neighbour"} {
			fmt.Fprintf(&b, "; kubectl -n %s rollout status deployment/%s --timeout=60s", w.Namespace, name)
		}
	}
	return b.String()
}

// lostByDrain returns how many requests each drain lost: those sent from its mark until the next one's.
func lostByDrain(t drill.Timeline) (lost []int) {
	var marks []time.Duration
	for _, e := range t.Events {
		if e.Kind == "command-output" && strings.HasPrefix(e.Detail, drainMark) {
			marks = append(marks, e.At.Latest)
		}
	}
	lost = make([]int, len(marks))
	for _, f := range t.Failures {
		of := 0
		for i, at := range marks {
			if f.Sent >= at {
				of = i
			}
		}
		if of < len(lost) {
			lost[of]++
		}
	}
	return lost
}

// adviceVerdict returns an error for each mode in which a drain lost a request although its Pods slept as advised.
func adviceVerdict(all []advised) error {
	var errs []error
	for _, a := range all {
		if drains, requests := a.lost(); drains > 0 {
			const text = "%s: %d of %d drains lost %d requests in spite of a preStop sleep of %d s"
			errs = append(errs, fmt.Errorf(text, a.Mode, drains, len(a.Lost), requests, a.sleep()))
		}
	}
	return errors.Join(errs...)
}

const adviceHead = `## The advice, held against drains

Two replicas on two of three nodes stop at SIGTERM, beside six Pods of another Service. ` + "`lapse routes`" + `
and one ` + "`lapse run`" + ` of a drain say how long they should serve on. They are given a preStop sleep as long as
the shorter advice, and their nodes are drained by turns. New connections are made from every node.

`

func adviceDocument(all []advised) string {
	var b strings.Builder
	b.WriteString(adviceHead)
	for _, a := range all {
		fmt.Fprintf(&b, "%s on %s, load %s.\n", a.Mode, a.Machine, a.Load)
	}
	b.WriteString("\n" + drill.Table(adviceColumns, all) + "\nMade by `make routes ROUTES=-drains=20`.\n")
	return b.String()
}

var adviceColumns = []drill.Column[advised]{
	{Head: "kube-proxy", Cell: func(a advised) string { return a.Mode }},
	{Head: "advised by `lapse routes`", Cell: func(a advised) string { return strconv.Itoa(a.OfRoutes) + " s" }},
	{Head: "advised by a drain, which lost", Cell: func(a advised) string {
		return fmt.Sprintf("%d s, %d", a.OfRun, a.Without)
	}},
	{Head: "slept", Cell: func(a advised) string { return strconv.Itoa(a.sleep()) + " s" }},
	{Head: "drains", Cell: func(a advised) string { return strconv.Itoa(len(a.Lost)) }},
	{Head: "drains with a lost request", Cell: func(a advised) string {
		drains, _ := a.lost()
		return strconv.Itoa(drains)
	}},
	{Head: "failed requests", Cell: func(a advised) string {
		_, requests := a.lost()
		return fmt.Sprintf("%d of %d", requests, a.Sent)
	}},
	{Head: "observed", Cell: func(a advised) string { return fmt.Sprintf("%.2f %%", 100*a.Coverage) }},
}
