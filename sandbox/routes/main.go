// Command routes holds what `lapse routes` says of each node's routes against the truth: the nodes' own netfilter
// rules, which are looked at every 2 ms. Beside it stands kube-proxy's own figure, the network programming latency,
// read around each change.
//
//	routes --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../runs
//	routes --lapse ../bin/lapse --modes '' --changes 5      on the sandbox as it is
//
// It exits 1 if more than one in a hundred of the brackets misses the truth.
//
//	routes --drains 20                                      its advice instead, held against drains
//
// It exits 1 then if a drain loses a request although its Pods sleep as long as advised.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

type settings struct {
	drill.Series
	changes int
	drains  int
}

const table = "routes.md"

func main() {
	s := settings{}
	s.Modes, s.N, s.Rate = drill.List{"iptables", "nftables"}, 1, 200
	s.Flags(flag.CommandLine, "runs in each mode")
	s.OutFlag(flag.CommandLine, table)
	flag.IntVar(&s.changes, "changes", 35, "Pods that a run deletes")
	flag.IntVar(&s.drains, "drains", 0, "hold the advice of 4 changes against so many drains in each mode, instead")
	drill.Main("routes", func(ctx context.Context) error {
		if s.drains > 0 {
			s.changes = min(s.changes, 4)
			return s.adviceStudy().Run(ctx, s.Series)
		}
		return s.study().Run(ctx, s.Series)
	})
}

// A run is one `lapse routes`, compared.
type run struct {
	drill.Conditions
	number       int
	load, advice string
	failed, sent int
	compared     []comparison
	programmed   programmed
}

func (r run) String() string {
	wrong, all := r.wrong()
	return fmt.Sprintf("%s, run %d: %d of %d brackets miss the truth", r.Mode, r.number, wrong, all)
}

// wrong counts the brackets that miss the truth, of all changes.
func (r run) wrong() (wrong, all int) {
	for _, c := range r.compared {
		if all++; !c.open && !c.right() {
			wrong++
		}
	}
	return wrong, all
}

// A comparison is when a node's routes changed, as Lapse says it, and as it was.
type comparison struct {
	change, node string
	said, was    truth.Bracket
	asked        time.Time // when the deletion had been asked for at the latest; of an addition zero
	open         bool      // Lapse did not see it
}

// right reports whether what was said can be what was.
func (c comparison) right() bool {
	return !c.was.Latest.Before(c.said.Earliest) && !c.said.Latest.Before(c.was.Earliest)
}

func (s settings) study() drill.Study[run] {
	return drill.Study[run]{
		Name:     "routes",
		Table:    table,
		Plan:     s.plan,
		Folder:   func(r run) string { return filepath.Join(r.Mode, strconv.Itoa(r.number)) },
		Measure:  s.measure,
		Document: document,
		Verdict:  verdict,
	}
}

func (s settings) plan(mode string) (all []run) {
	for i := range s.N {
		all = append(all, run{Conditions: drill.Conditions{Mode: mode}, number: i + 1})
	}
	return all
}

// verdict returns an error if more than one in a hundred of the brackets misses the truth.
func verdict(runs []run) error {
	wrong, all := 0, 0
	for _, r := range runs {
		w, n := r.wrong()
		wrong, all = wrong+w, all+n
	}
	if 100*wrong > all {
		return fmt.Errorf("%d of %d brackets miss the truth", wrong, all)
	}
	return nil
}

// measure runs `lapse routes` once, and watches the nodes' rules meanwhile.
func (s settings) measure(ctx context.Context, c *drill.Cluster, r *run, dir string) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	args := []string{"routes", "-n", "default", "--changes", strconv.Itoa(s.changes), "--rate", strconv.Itoa(s.Rate)}
	r.Begin("lapse " + strings.Join(args, " "))
	r.load = drill.LoadAverage()
	proxies, err := watchProgramming(ctx, c, nodes)
	if err != nil {
		return err
	}
	defer func() { _ = proxies.Close() }() // after an error; else it has ended
	cmd := exec.CommandContext(ctx, c.Lapse, append(args, "--out", dir)...)
	cmd.Env = c.Env()
	var printed strings.Builder
	cmd.Stdout = &printed
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var watch *truth.Routes
	var service string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if job, ok := strings.CutPrefix(lines.Text(), "creating Job "); ok && watch == nil {
			service = job + "-canary"
			if watch, err = truth.WatchRoutes(nodes, service, "http"); err != nil {
				return errors.Join(err, cmd.Wait())
			}
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 4 {
		return fmt.Errorf("%s: %w", r.Command, err)
	}
	if watch == nil {
		return errors.New("it never said which Job it created")
	}
	seen, err := watch.End()
	if err != nil {
		return err
	}
	if r.programmed, err = proxies.end(ctx, service); err != nil {
		return err
	}
	t, err := drill.ReadTimeline(dir)
	if err != nil {
		return err
	}
	r.failed, r.sent = t.Verdict.Failed, t.Verdict.Sent
	for line := range strings.Lines(printed.String()) {
		if strings.HasPrefix(line, "So that a drain here") {
			r.advice = strings.TrimSpace(line)
		}
	}
	r.compare(t, seen)
	return nil
}

func (r *run) compare(t drill.Timeline, seen map[string]truth.NodeRoutes) {
	address := map[string]string{}
	for _, p := range t.Pods {
		address[p.Name] = p.IP + ":8080"
	}
	at := func(d time.Duration) time.Time { return t.T0.Add(d) }
	for _, route := range t.Routes {
		was, known := seen[route.Node].Removed[address[route.Pod]]
		if route.Change == "addition" {
			was, known = seen[route.Node].Added[address[route.Pod]]
		}
		if !known {
			continue // it was there before the watch began, or still is
		}
		said := truth.Bracket{Earliest: at(route.Changed.Earliest), Latest: at(route.Changed.Latest)}
		c := comparison{change: route.Change, node: route.Node, was: was, open: route.Open, said: said}
		if route.Asked != nil {
			c.asked = at(route.Asked.Latest)
		}
		r.compared = append(r.compared, c)
	}
}
