// Command routes holds what `lapse routes` says of each node's routes against the truth: the nodes' own netfilter
// rules, which are looked at every 2 ms. Beside it stands kube-proxy's own figure, the network programming latency,
// read around each change.
//
//	routes --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../docs/measured
//	routes --lapse ../bin/lapse --modes '' --changes 5      on the sandbox as it is
//
// It exits 1 if more than one in a hundred of the brackets misses the truth.
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
}

const table = "routes.md"

func main() {
	s := settings{}
	s.Modes, s.N, s.Rate = drill.List{"iptables", "nftables"}, 1, 200
	s.Flags(flag.CommandLine, "runs in each mode")
	s.OutFlag(flag.CommandLine, table)
	flag.IntVar(&s.changes, "changes", 35, "Pods that a run deletes")
	drill.Main("routes", func(ctx context.Context) error { return measureAll(ctx, s) })
}

// A run is one `lapse routes`, compared.
type run struct {
	mode, command, machine, load, advice string
	began                                time.Time
	failed, sent                         int
	compared                             []comparison
	programmed                           programmed
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

func measureAll(ctx context.Context, s settings) error {
	if s.Judge != "" {
		return errors.New("-judge: the truth of these runs is not saved, so they cannot be judged again")
	}
	base := s.Base("routes")
	var runs []run
	for _, mode := range s.Modes {
		c, err := s.Open(ctx, mode, os.Stderr)
		if err != nil {
			return err
		}
		for i := range s.N {
			r, err := measure(ctx, s, c, filepath.Join(base, c.ProxyMode(), strconv.Itoa(i+1)))
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
	}
	if err := s.Publish(table, document(runs)); err != nil {
		return err
	}
	wrong, all := 0, 0
	for _, r := range runs {
		for _, c := range r.compared {
			if all++; !c.open && !c.right() {
				wrong++
			}
		}
	}
	if 100*wrong > all {
		return fmt.Errorf("%d of %d brackets miss the truth", wrong, all)
	}
	return nil
}

// measure runs `lapse routes` once, and watches the nodes' rules meanwhile.
func measure(ctx context.Context, s settings, c *drill.Cluster, dir string) (run, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return run{}, err
	}
	args := []string{"routes", "-n", "default", "--changes", strconv.Itoa(s.changes), "--rate", strconv.Itoa(s.Rate)}
	r := run{mode: c.ProxyMode(), command: "lapse " + strings.Join(args, " "), machine: drill.Machine(), load: drill.LoadAverage(), began: time.Now().UTC()}
	proxies, err := watchProgramming(ctx, c, nodes)
	if err != nil {
		return r, err
	}
	defer func() { _ = proxies.Close() }() // after an error; else it has ended
	cmd := exec.CommandContext(ctx, c.Lapse, append(args, "--out", dir)...)
	cmd.Env = c.Env()
	var printed strings.Builder
	cmd.Stdout = &printed
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	var watch *truth.Routes
	var service string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if job, ok := strings.CutPrefix(lines.Text(), "creating Job "); ok && watch == nil {
			service = job + "-canary"
			if watch, err = truth.WatchRoutes(nodes, service, "http"); err != nil {
				return r, errors.Join(err, cmd.Wait())
			}
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 4 {
		return r, fmt.Errorf("%s: %w", r.command, err)
	}
	if watch == nil {
		return r, errors.New("it never said which Job it created")
	}
	seen, err := watch.End()
	if err != nil {
		return r, err
	}
	if r.programmed, err = proxies.end(ctx, service); err != nil {
		return r, err
	}
	t, err := drill.ReadTimeline(dir)
	if err != nil {
		return r, err
	}
	r.failed, r.sent = t.Verdict.Failed, t.Verdict.Sent
	for line := range strings.Lines(printed.String()) {
		if strings.HasPrefix(line, "A preStop sleep") {
			r.advice = strings.TrimSpace(line)
		}
	}
	r.compare(t, seen)
	return r, nil
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
		c := comparison{change: route.Change, node: route.Node, was: was, open: route.Open, said: truth.Bracket{Earliest: at(route.Changed.Earliest), Latest: at(route.Changed.Latest)}}
		if route.Asked != nil {
			c.asked = at(route.Asked.Latest)
		}
		r.compared = append(r.compared, c)
	}
}
