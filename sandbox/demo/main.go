// Command demo shows the main job of Lapse on the sandbox: a node is drained while Lapse measures from every node,
// first with servers that exit at SIGTERM, then with servers that go on serving for a while.
//
//	demo --lapse ../bin/lapse --runs ../runs
//
// Then a guard is installed, and a drain, a rollout and another drain happen that nobody announces to it.
//
// It exits 0 only if the drain without the fix lost requests because routes outlived a Pod, and the one with it lost
// none. The first is repeated until a request is lost, for whether one meets the stale route is luck; each try is
// printed. The second happens once: it must pass. The guard must have one run of each, and its gate answer as they
// were.
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

const (
	cause  = "route-outlives-pod"
	drains = 5 // without the fix, at most, until one loses a request
	voids  = 3 // with the fix, at most, until enough was observed

	// Pods of another Service on the three nodes, so that the drained one has more than a single Pod, as nodes do.
	neighbours = 6

	// What Lapse exits with.
	exitPassed     = 0
	exitGateFailed = 3
	exitUndecided  = 4 // too little was observed
)

func main() {
	var files drill.Files
	files.Flags(flag.CommandLine)
	rate := flag.Int("rate", 150, "requests per second, each of new and reused connections, from all nodes together")
	drill.Main("demo", func(ctx context.Context) error { return demo(ctx, files, *rate) })
}

func demo(ctx context.Context, files drill.Files, rate int) error {
	c, err := drill.Open(files.Lapse, os.Stderr)
	if err != nil {
		return err
	}
	d := drainer{cluster: c, base: files.Base("demo"), rate: rate}

	say("1. Two replicas on two nodes that exit at SIGTERM, as most servers do. Draining one of the nodes.")
	before, tries, err := d.before(ctx)
	if err != nil {
		return err
	}
	say("2. The same drain, with servers that answer `Connection: close` and serve on for 8 s after SIGTERM.")
	after, err := d.after(ctx)
	if err != nil {
		return err
	}
	guarded, err := d.guard(ctx)
	if err != nil {
		return err
	}
	earlier := ""
	if tries > 1 {
		earlier = fmt.Sprintf(" (Drain %d: those before it lost none.)", tries)
	}
	say(fmt.Sprintf("Before: %d of %d requests failed: %s.%s",
		before.Timeline.Verdict.Failed, before.Timeline.Verdict.Sent, cause, earlier))
	say(fmt.Sprintf("After:  none of %d failed. An outage of all requests shorter than %s may have gone unseen.",
		after.Timeline.Verdict.Sent, atMost(after.Timeline.LongestGap())))
	say("The guard: " + guarded)
	fmt.Printf("\nThe page of either run, and of the guard's:\n  bin/lapse serve %s\n  bin/lapse serve %s\n"+
		"  bin/lapse serve %s\n", show(before.Dir), show(after.Dir), show(d.guarded()))
	return nil
}

type drainer struct {
	cluster *drill.Cluster
	base    string
	rate    int
}

// before drains until a request on a new connection is lost, and returns how many drains that took.
func (d drainer) before(ctx context.Context) (run drill.Run, tries int, err error) {
	w := drill.Workload{Namespace: "shop", Name: "web", Replicas: 2, Neighbours: neighbours,
		Args: []string{"--on-sigterm", "exit"}}
	if err := d.cluster.Deploy(ctx, w); err != nil {
		return drill.Run{}, 0, err
	}
	for try := 1; try <= drains; try++ {
		run, err := d.drain(ctx, w, "before-"+strconv.Itoa(try))
		if err != nil {
			return run, try, err
		}
		lost, fresh := 0, run.Timeline.OfKind("new")
		for _, target := range fresh {
			lost += target.Failed
		}
		switch {
		case len(fresh) == 0:
			return run, try, errors.New("no target with new connections was measured")
		case lost == 0:
			say(fmt.Sprintf("This drain lost no request on new connections: none met the stale route, or an outage "+
				"shorter than %s went unseen. Again.",
				atMost(run.Timeline.LongestGap())))
		case run.ExitCode != exitGateFailed || len(run.Timeline.CausedBy(cause)) == 0:
			return run, try, fmt.Errorf("the drain lost %d requests on new connections, and Lapse ended with %d and "+
				"named no %s", lost, run.ExitCode, cause)
		default:
			return run, try, nil
		}
	}
	return drill.Run{}, drains, fmt.Errorf("none of %d drains lost a request", drains)
}

// after drains with the fix, and must pass. A drain in which nothing failed decides nothing if the machine let a prober
// stand still for too long: it is repeated, and says why.
func (d drainer) after(ctx context.Context) (run drill.Run, err error) {
	w := drill.Workload{Namespace: "shop", Name: "web", Replicas: 2, Neighbours: neighbours,
		Args: []string{"--on-sigterm", "graceful", "--drain-for", "8s"}}
	if err := d.cluster.Deploy(ctx, w); err != nil {
		return drill.Run{}, err
	}
	for try := 1; try <= voids; try++ {
		run, err = d.drain(ctx, w, "after-"+strconv.Itoa(try))
		if err != nil || run.ExitCode == exitPassed {
			return run, err
		}
		verdict := run.Timeline.Verdict
		why := strings.Join(verdict.Reasons, "; ")
		err = fmt.Errorf("the drain with the fix did not pass: exit code %d, %d requests failed, coverage %.2f %%: %s",
			run.ExitCode, verdict.Failed, 100*verdict.Coverage, why)
		if run.ExitCode != exitUndecided || verdict.Failed > 0 {
			break
		}
		say("This drain proves nothing: " + why + ". Again.")
	}
	return run, err
}

func (d drainer) drain(ctx context.Context, w drill.Workload, name string) (drill.Run, error) {
	run, err := d.cluster.Drain(ctx, w, filepath.Join(d.base, name), "--from", "all",
		"--rate", strconv.Itoa(d.rate), "--fail-if", "failed>0")
	fmt.Print(run.Output)
	return run, err
}

// atMost writes an upper bound as Lapse's summary does: rounded up, a space before the unit.
func atMost(d time.Duration) string {
	return fmt.Sprintf("%d ms", (d + time.Millisecond - 1).Milliseconds())
}

func say(text string) { fmt.Printf("\n=== %s\n\n", text) }

// show returns a path as a reader would type it.
func show(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	wd, err := os.Getwd()
	if err != nil {
		return abs
	}
	rel, err := filepath.Rel(filepath.Dir(wd), abs) // the demo runs in sandbox/, its reader one above
	if err != nil {
		return abs
	}
	return cmp.Or(rel, abs)
}
