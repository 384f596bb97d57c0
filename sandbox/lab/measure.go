package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

func measureAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, leftOut int, err error) {
	base := s.Base("lab")
	for _, mode := range s.Modes {
		c, err := s.Open(ctx, mode, io.Discard)
		if err != nil {
			return results, 0, err
		}
		slices.SortStableFunc(scenarios, func(a, b Scenario) int { return cmp.Compare(len(a.Outside.Families), len(b.Outside.Families)) })
		for _, scenario := range scenarios {
			if c, err = s.withFamilies(ctx, c, scenario); err != nil {
				return results, 0, err
			}
			for i := range s.N {
				r := measure(ctx, s, c, scenario, filepath.Join(base, c.ProxyMode(), scenario.Name, strconv.Itoa(i+1)), i+1)
				if ctx.Err() != nil {
					return results, 0, ctx.Err()
				}
				fmt.Fprint(os.Stderr, r.String())
				results = append(results, r)
			}
		}
	}
	return results, 0, nil
}

// limit is how long one scenario may take in all.
const limit = 6 * time.Minute

// measure plays a scenario once while Lapse measures, and judges what Lapse says.
func measure(ctx context.Context, s settings, c *drill.Cluster, scenario Scenario, dir string, number int) result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := result{scenario: scenario, run: drill.Run{Dir: dir}}
	text, err := os.ReadFile(scenario.File)
	r.record = record{
		Scenario: scenario.Name, Text: string(text), Mode: c.ProxyMode(), Number: number,
		Began: time.Now().UTC(), LoadAvg: drill.LoadAverage(), Machine: drill.Machine(), Vars: map[string]string{},
	}
	fmt.Fprintf(os.Stderr, "\n%s: %s\n", scenario.Name, scenario.Title())
	if r.err = errors.Join(err, os.MkdirAll(dir, 0o755)); r.err != nil {
		return r
	}
	p := &play{cluster: c, log: os.Stderr, vars: r.Vars, uids: map[string]string{}}
	if p.state, r.err = readState(c.Dir); r.err != nil {
		return r
	}
	if r.err = p.heal(ctx); r.err != nil {
		return r
	}
	if r.err = p.deploy(ctx, scenario.Manifest); r.err != nil {
		return r
	}
	if r.err = p.beginOutside(ctx, scenario.Outside); r.err == nil {
		r.err = r.play(ctx, s, p)
	}
	r.err = errors.Join(r.err, p.endOutside(context.WithoutCancel(ctx)))
	if err := r.save(dir); err != nil {
		r.err = errors.Join(r.err, err)
	}
	if r.err == nil {
		r.recorder = r.run.Timeline.Tool.Version
		r.judge()
	}
	return r
}

// play runs Lapse with a command that waits while the steps are taken.
func (r *result) play(ctx context.Context, s settings, p *play) (err error) {
	dir := r.run.Dir
	talk, err := os.Create(filepath.Join(dir, "lapse.log"))
	if err != nil {
		return err
	}
	defer talk.Close()
	p.cluster.Log = talk
	gate, err := newGate()
	if err != nil {
		return err
	}
	defer gate.close()
	targets := r.scenario.Targets
	if len(targets) == 0 {
		targets = []string{"svc/web"}
	}
	args := slices.Concat([]string{"run"}, expand(targets, p.vars), []string{
		"-n", namespace, "--out", filepath.Join(dir, "run"), "--rate", strconv.Itoa(s.Rate), "--baseline", "3s", "--settle", "4s", "--fail-if", "failed>0",
	}, expand(r.scenario.Flags, p.vars))
	r.Command = "lapse " + strings.Join(args, " ")
	args = append(args, "--")
	args = append(args, gate.command...)

	pods, err := p.watchPods(ctx, filepath.Join(dir, "pods.json"))
	if err != nil {
		return err
	}
	r.Before = p.counts(ctx, "web")
	watch, err := r.watchRoutes(ctx, p)
	if err != nil {
		pods.end()
		return err
	}
	defer watch.Close()
	err = r.stepsUnder(ctx, p, gate, args)
	r.Pods = pods.end()
	if r.scenario.Expect.Lags && err == nil {
		r.Routes, err = watch.End(r.run.Timeline.ProberNode())
	}
	r.After = p.counts(context.WithoutCancel(ctx), "web")
	return errors.Join(os.WriteFile(filepath.Join(dir, "lapse.txt"), []byte(r.run.Output), 0o644), err)
}

// stepsUnder runs Lapse with args and takes the steps meanwhile. Then what they did is undone.
func (r *result) stepsUnder(ctx context.Context, p *play, gate *gate, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := p.cluster.Command(ctx, args...)
	if r.scenario.fromOutside() {
		cmd = p.cluster.Outside(ctx, args...)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer gate.close() // if it ended before its command
		r.run, runErr = cmd.Finish(filepath.Join(r.run.Dir, "run"))
	}()
	stepsErr := r.steps(ctx, p, gate)
	var undoErr error
	if stepsErr != nil {
		undoErr = p.undoAll(ctx) // Lapse cannot end well while the API server stands still
		cancel()
	}
	<-ended
	return errors.Join(stepsErr, runErr, undoErr, p.undoAll(ctx))
}

// watchRoutes begins to follow the nodes' routes to the Pods of web, if the scenario asks for it.
func (r *result) watchRoutes(ctx context.Context, p *play) (*truth.Watch, error) {
	if !r.scenario.Expect.Lags {
		return &truth.Watch{}, nil
	}
	return truth.Begin(ctx, p.cluster, drill.Workload{Namespace: namespace, Name: "web"})
}

// steps waits until Lapse begins its command, and takes the scenario's steps.
func (r *result) steps(ctx context.Context, p *play, gate *gate) error {
	conn, err := gate.opened()
	if err != nil {
		return fmt.Errorf("the command was never begun, see lapse.log and lapse.txt: %w", err)
	}
	defer conn.Close()
	p.out = conn
	if r.scenario.oneProber() {
		if p.vars[proberVar], err = p.prober(ctx); err != nil {
			return err
		}
	}
	r.Steps, err = p.steps(ctx, r.scenario.Steps)
	return err
}

// prober names the node that Lapse's Job runs on.
func (p *play) prober(ctx context.Context) (string, error) {
	out, err := p.ask(ctx, "get", "pods", "-l", "app.kubernetes.io/managed-by=lapse", "-o", "jsonpath={.items[*].spec.nodeName}")
	if fields := strings.Fields(out); err == nil && len(fields) == 1 {
		return fields[0], nil
	}
	return "", fmt.Errorf("which node does the prober run on? %q, %w", out, err)
}
