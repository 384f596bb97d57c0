// Command rollouts holds what Lapse says of a rolling restart against the truth. It restarts a Deployment of three
// servers that exit at SIGTERM, under `lapse run`, in each of kube-proxy's modes, on a quiet machine and beside a
// busy process, and takes the truth at the same time, independently of Lapse: when each Pod stopped listening, by its
// own word, and when the prober's node stopped routing to it, by the node's netfilter rules.
//
//	rollouts --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../docs/measured
//	rollouts --lapse ../bin/lapse --modes '' -n 3               three runs of each load on the sandbox as it is
//	rollouts --lapse ../bin/lapse --judge ../runs/rollouts-…    the table again, from saved runs
//
// It exits 1 if Lapse said something that the truth contradicts.
//
// The truth and what contradicts it are in sandbox/truth.
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
	"lapse/sandbox/truth"
)

type settings struct {
	drill.Series
	loads     drill.List
	namespace string
}

const (
	quiet = "quiet"
	busy  = "busy"

	replicas = 3
	table    = "rollouts.md"
)

func main() {
	s := settings{loads: drill.List{quiet, busy}}
	s.Modes, s.N, s.Rate = drill.List{"iptables", "nftables"}, 10, 200
	s.Flags(flag.CommandLine, "runs in each mode and load")
	s.OutFlag(flag.CommandLine, table)
	flag.StringVar(&s.namespace, "namespace", "rollouts", "Kubernetes namespace of the workload, made anew")
	flag.Var(&s.loads, "loads", "what else the machine does")
	drill.Main("rollouts", func(ctx context.Context) error { return rollouts(ctx, s) })
}

func rollouts(ctx context.Context, s settings) error {
	collect := measureAll
	if s.Judge != "" {
		collect = judgeAll
	}
	results, err := collect(ctx, s)
	if len(results) == 0 {
		return cmp.Or(err, errors.New("no runs"))
	}
	err = errors.Join(err, s.Publish(table, document(results)))
	var wrong int
	for _, r := range results {
		wrong += len(r.wrong)
	}
	if wrong > 0 {
		err = errors.Join(err, fmt.Errorf("%d statements in %d runs are contradicted by the truth", wrong, len(results)))
	}
	return err
}

// A result is one run with its truth, compared. What is exported is saved beside the recording.
type result struct {
	Mode    string // kube-proxy's
	Load    string // quiet or busy
	Number  int
	Began   time.Time
	LoadAvg string // as the run began: /proc/loadavg
	Machine string
	Command string // Lapse's
	Truth   []truth.Pod

	run   drill.Run
	named []truth.Named
	fixes []string
	wrong []string // statements that the truth contradicts
}

const truthFile = "truth.json"

func measureAll(ctx context.Context, s settings) ([]result, error) {
	base := s.Base("rollouts")
	var results []result
	for _, mode := range s.Modes {
		c, err := s.Open(ctx, mode, os.Stderr)
		if err != nil {
			return results, err
		}
		w := drill.Workload{Namespace: s.namespace, Name: "web", Replicas: replicas, Args: []string{"--on-sigterm", "exit"}}
		if err := c.Deploy(ctx, w); err != nil {
			return results, err
		}
		for _, load := range s.loads {
			got, err := series(ctx, s, c, w, load, filepath.Join(base, cmp.Or(mode, c.ProxyMode())+"-"+load))
			results = append(results, got...)
			if err != nil {
				return results, err
			}
		}
		if err := c.Remove(ctx, w.Namespace); err != nil {
			return results, err
		}
	}
	return results, nil
}

// series measures restarts under one load.
func series(ctx context.Context, s settings, c *drill.Cluster, w drill.Workload, load, dir string) ([]result, error) {
	var results []result
	for i := range s.N {
		r, err := measure(ctx, s, c, w, load, filepath.Join(dir, strconv.Itoa(i+1)))
		if err != nil {
			return results, err
		}
		r.Number = i + 1
		if err := drill.Save(r.run.Dir, truthFile, r); err != nil {
			return results, err
		}
		results = append(results, r)
		fmt.Fprintln(os.Stderr, r.String())
	}
	return results, nil
}

// measure restarts the Deployment once while Lapse measures, and takes the truth.
func measure(ctx context.Context, s settings, c *drill.Cluster, w drill.Workload, load, dir string) (result, error) {
	if err := c.Ready(ctx, w); err != nil {
		return result{}, err
	}
	if load == busy {
		end, err := drill.Busy(3 * time.Minute)
		if err != nil {
			return result{}, err
		}
		defer end()
	}
	args := []string{"--rate", strconv.Itoa(s.Rate), "--settle", "15s", "--fail-if", "failed>0",
		"--", "kubectl", "-n", w.Namespace, "rollout", "restart", "deployment/" + w.Name}
	r := result{Mode: c.ProxyMode(), Load: load, Began: time.Now().UTC(), LoadAvg: drill.LoadAverage(), Machine: drill.Machine()}
	r.Command = "lapse run svc/" + w.Name + " -n " + w.Namespace + " " + strings.Join(args, " ")
	watch, err := truth.Begin(ctx, c, w)
	if err != nil {
		return r, err
	}
	defer watch.Close()
	r.run, err = c.Measure(ctx, w, dir, args...)
	if err != nil {
		return r, err
	}
	// What had not ended within the run ends now, so that the truth is whole and the next run begins with ready Pods.
	if err := c.Ready(ctx, w); err != nil {
		return r, err
	}
	if r.Truth, err = watch.End(r.run.Timeline.ProberNode()); err != nil {
		return r, err
	}
	r.compare()
	return r, nil
}

func (r *result) compare() {
	r.named, r.fixes = truth.Statements(r.run.Timeline)
	r.wrong = truth.Contradictions(r.run.Timeline, r.Truth, replicas)
	if len(r.Truth) != replicas {
		r.wrong = append(r.wrong, fmt.Sprintf("%d of %d Pods ended", len(r.Truth), replicas))
	}
}

// judgeAll has Lapse judge saved runs again, and compares anew.
func judgeAll(ctx context.Context, s settings) (results []result, err error) {
	err = drill.Saved(filepath.Join(s.Judge, "*", "*", truthFile), func(dir string, r result) (err error) {
		if r.run, err = drill.Judge(ctx, s.Lapse, dir); err != nil {
			return err
		}
		r.compare()
		results = append(results, r)
		fmt.Fprintln(os.Stderr, r.String())
		return nil
	})
	return results, err
}
