// Command rollouts holds what Lapse says of a rolling restart against the truth. It restarts a Deployment of three
// servers that exit at SIGTERM, under `lapse run`, in each of kube-proxy's modes, on a quiet machine and with a
// busy process, and takes the truth at the same time, independently of Lapse: when each Pod stopped listening, as it
// prints itself, and when the prober's node stopped routing to it, by the node's netfilter rules.
//
//	rollouts --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../runs
//	rollouts --lapse ../bin/lapse --modes '' -n 3               three runs of each load on the sandbox as it is
//	rollouts --lapse ../bin/lapse --judge ../runs/rollouts-…    the table again, from saved runs
//
// It exits 1 if Lapse said something that the truth contradicts.
//
// The truth and what contradicts it are in sandbox/truth.
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
	flag.StringVar(&s.namespace, "namespace", "rollouts", "Kubernetes namespace of the workload, which is replaced")
	flag.Var(&s.loads, "loads", "what else the machine does")
	drill.Main("rollouts", func(ctx context.Context) error { return s.study().Run(ctx, s.Series) })
}

// A result is one run with its truth, compared. What is exported is saved with the recording.
type result struct {
	drill.Conditions
	Load    string // quiet or busy
	Number  int
	LoadAvg string // as the run began: /proc/loadavg
	Truth   []truth.Pod

	run   drill.Run
	named []truth.Named
	fixes []string
	wrong []string // statements that the truth contradicts
}

func (s settings) study() drill.Study[result] {
	return drill.Study[result]{
		Name:    "rollouts",
		Table:   table,
		File:    "truth.json",
		Plan:    s.plan,
		Folder:  func(r result) string { return filepath.Join(r.Mode+"-"+r.Load, strconv.Itoa(r.Number)) },
		Begin:   func(ctx context.Context, c *drill.Cluster) error { return c.Deploy(ctx, s.workload()) },
		Measure: s.measure,
		End:     func(ctx context.Context, c *drill.Cluster) error { return c.Remove(ctx, s.namespace) },
		Judge: func(ctx context.Context, r *result, dir string) (err error) {
			if r.run, err = drill.Judge(ctx, s.Lapse, dir); err == nil {
				r.compare()
			}
			return err
		},
		Document: document,
		Verdict:  verdict,
	}
}

func (s settings) plan(mode string) (all []result) {
	for _, load := range s.loads {
		for i := range s.N {
			all = append(all, result{Conditions: drill.Conditions{Mode: mode}, Load: load, Number: i + 1})
		}
	}
	return all
}

func (s settings) workload() drill.Workload {
	return drill.Workload{Namespace: s.namespace, Name: "web", Replicas: replicas,
		Args: []string{"--on-sigterm", "exit"}}
}

// measure restarts the Deployment once while Lapse measures, and takes the truth.
func (s settings) measure(ctx context.Context, c *drill.Cluster, r *result, dir string) error {
	w := s.workload()
	if err := c.Ready(ctx, w); err != nil {
		return err
	}
	if r.Load == busy {
		end, err := drill.Busy(3 * time.Minute)
		if err != nil {
			return err
		}
		defer end()
	}
	args := []string{"--rate", strconv.Itoa(s.Rate), "--settle", "15s", "--fail-if", "failed>0",
		"--", "kubectl", "-n", w.Namespace, "rollout", "restart", "deployment/" + w.Name}
	r.Begin("lapse run svc/" + w.Name + " -n " + w.Namespace + " " + strings.Join(args, " "))
	r.LoadAvg = drill.LoadAverage()
	watch, err := truth.Begin(ctx, c, w)
	if err != nil {
		return err
	}
	defer watch.Close()
	r.run, err = c.Measure(ctx, w, dir, args...)
	if err != nil {
		return err
	}
	// What had not ended within the run ends now, so that the truth is whole and the next run begins with ready Pods.
	if err := c.Ready(ctx, w); err != nil {
		return err
	}
	if r.Truth, err = watch.End(r.run.Timeline.ProberNode()); err != nil {
		return err
	}
	r.compare()
	return nil
}

func (r *result) compare() {
	r.named, r.fixes = truth.Statements(r.run.Timeline)
	r.wrong = truth.Contradictions(r.run.Timeline, r.Truth, replicas)
	if len(r.Truth) != replicas {
		r.wrong = append(r.wrong, fmt.Sprintf("%d of %d Pods ended", len(r.Truth), replicas))
	}
}

// verdict returns an error if the truth contradicts a statement.
func verdict(results []result) error {
	wrong := 0
	for _, r := range results {
		wrong += len(r.wrong)
	}
	if wrong > 0 {
		return fmt.Errorf("%d statements in %d runs are contradicted by the truth", wrong, len(results))
	}
	return nil
}
