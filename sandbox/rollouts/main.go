// Command rollouts holds what Lapse says of a rolling restart against the truth. It restarts a Deployment of three servers that
// exit at SIGTERM, under `lapse run`, in each of kube-proxy's modes, on a quiet machine and beside a busy process, and takes
// the truth at the same time, independently of Lapse: when each Pod stopped listening, by its own word, and when the
// prober's node stopped routing to it, by the node's netfilter rules.
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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

type settings struct {
	lapse, sandbox, image, runs, out string
	judge                            string   // a folder of saved runs; empty: measure
	modes                            []string // of kube-proxy; one that is empty: as the sandbox is
	loads                            []string
	n, rate                          int
	namespace                        string
}

const (
	quiet = "quiet"
	busy  = "busy"

	replicas = 3
)

func main() {
	var s settings
	flag.StringVar(&s.lapse, "lapse", "../bin/lapse", "the lapse binary")
	flag.StringVar(&s.sandbox, "sandbox", "../bin/sandbox", "the sandbox binary")
	flag.StringVar(&s.image, "image", "../bin/lapse.tar", "Lapse's image")
	flag.StringVar(&s.runs, "runs", "../runs", "where the runs go")
	flag.StringVar(&s.out, "out", "", "folder for the table, rollouts.md (default: print it only)")
	flag.StringVar(&s.judge, "judge", "", "judge the runs in this folder again, and measure nothing")
	flag.IntVar(&s.n, "n", 10, "runs in each mode and load")
	flag.IntVar(&s.rate, "rate", 200, "requests per second, each of new and reused connections")
	flag.StringVar(&s.namespace, "namespace", "rollouts", "Kubernetes namespace of the workload, made anew")
	modes := flag.String("modes", "iptables,nftables", "kube-proxy's modes; empty: measure on the sandbox as it is")
	loads := flag.String("loads", quiet+","+busy, "what else the machine does")
	flag.Parse()
	s.modes, s.loads = strings.Split(*modes, ","), strings.Split(*loads, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rollouts(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "rollouts:", err)
		os.Exit(1)
	}
}

func rollouts(ctx context.Context, s settings) error {
	collect := measureAll
	if s.judge != "" {
		collect = judgeAll
	}
	results, err := collect(ctx, s)
	if len(results) == 0 {
		return cmp.Or(err, errors.New("no runs"))
	}
	doc := document(s, results)
	fmt.Print(doc)
	if s.out != "" {
		err = errors.Join(err, os.MkdirAll(s.out, 0o755), os.WriteFile(filepath.Join(s.out, "rollouts.md"), []byte(doc), 0o644))
	}
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
	base := filepath.Join(s.runs, "rollouts-"+time.Now().UTC().Format("20060102-150405"))
	var results []result
	for _, mode := range s.modes {
		if mode != "" {
			if err := restart(ctx, s, mode); err != nil {
				return results, err
			}
		}
		c, err := drill.Open(s.lapse, os.Stderr)
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

// restart brings the sandbox up in a mode, with Lapse's image in it.
func restart(ctx context.Context, s settings, mode string) error {
	for _, args := range [][]string{{"down"}, {"up", "--proxy-mode", mode}, {"load", s.image}} {
		cmd := exec.CommandContext(ctx, s.sandbox, args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("sandbox %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// series measures restarts under one load.
func series(ctx context.Context, s settings, c *drill.Cluster, w drill.Workload, load, dir string) ([]result, error) {
	var results []result
	for i := range s.n {
		r, err := measure(ctx, s, c, w, load, filepath.Join(dir, strconv.Itoa(i+1)))
		if err != nil {
			return results, err
		}
		r.Number = i + 1
		if err := r.save(); err != nil {
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
	args := []string{"--rate", strconv.Itoa(s.rate), "--settle", "15s", "--fail-if", "failed>0",
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

func (r result) save() error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.run.Dir, truthFile), data, 0o644)
}

// judgeAll has Lapse judge saved runs again, and compares anew.
func judgeAll(ctx context.Context, s settings) ([]result, error) {
	files, err := filepath.Glob(filepath.Join(s.judge, "*", "*", truthFile))
	if err != nil {
		return nil, err
	}
	var results []result
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r result
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if r.run, err = drill.Judge(ctx, s.lapse, filepath.Dir(file)); err != nil {
			return nil, err
		}
		r.compare()
		results = append(results, r)
		fmt.Fprintln(os.Stderr, r.String())
	}
	return results, nil
}
