package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

func measureAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, _ leftOut, err error) {
	l := &laboratory{settings: s, base: s.Base("lab")}
	together, alone := order(scenarios, s.N)
	for _, mode := range s.Modes {
		if l.cluster, err = s.Open(ctx, mode, io.Discard); err != nil {
			return l.results, leftOut{}, err
		}
		if err := l.begin(ctx); err != nil {
			return l.results, leftOut{}, err
		}
		l.loadImages(ctx, scenarios)
		sideBySide(ctx, s.together, together, func(p playing) { l.measure(ctx, p, min(s.together, len(together))) })
		for _, p := range alone {
			if err := l.withFamilies(ctx, p.Scenario); err != nil {
				return l.results, leftOut{}, err
			}
			l.measure(ctx, p, 1)
		}
		l.spaces.settle()
		if ctx.Err() != nil {
			return l.results, leftOut{}, ctx.Err()
		}
	}
	return l.results, leftOut{}, nil
}

// A laboratory measures scenarios on the cluster that is up.
type laboratory struct {
	settings
	base    string // folder of the runs
	cluster *drill.Cluster
	spaces  *spaces
	missing map[string]error // images that could not be put on the nodes, and why

	outside sync.Mutex // held while something stands before the nodes: the sandbox has one of each

	mu      sync.Mutex
	results []result // guarded by mu, as is what is printed
}

// begin clears what a runner that was killed has left on a cluster.
func (l *laboratory) begin(ctx context.Context) (err error) {
	m := machine{dir: l.cluster.Dir, log: os.Stderr}
	if m.state, err = l.cluster.State(); err != nil {
		return err
	}
	if err := m.heal(ctx); err != nil {
		return err
	}
	l.spaces = newSpaces(ctx, l.cluster, l.together)
	l.spaces.settle()
	return nil
}

// withFamilies restarts the sandbox with the families of a scenario, if it does not have them.
func (l *laboratory) withFamilies(ctx context.Context, scenario Scenario) error {
	state, err := l.cluster.State()
	if err != nil || scenario.Outside.Families == "" || state.DualStack {
		return err
	}
	l.spaces.settle()
	l.cluster, err = l.Open(ctx, state.ProxyMode, l.cluster.Log, "--families", scenario.Outside.Families)
	if err != nil {
		return err
	}
	return l.begin(ctx)
}

// limit is how long one scenario may take in all.
const limit = 6 * time.Minute

// measure plays a scenario once, together with others, and keeps the result unless it was interrupted. Void runs come
// before it.
func (l *laboratory) measure(ctx context.Context, p playing, together int) {
	notes := &notebook{out: os.Stderr, mu: &l.mu}
	log := io.Writer(notes)
	if together == 1 {
		log = os.Stderr
	}
	r := l.measured(ctx, p, together, log)
	for try := 1; try < mostTries && ctx.Err() == nil; try++ {
		why := r.void(l.settings)
		if why == "" {
			break
		}
		fmt.Fprintf(log, "%s   void, it is played again: %s\n", r, why)
		if err := setAside(filepath.Dir(r.run.Dir), try); err != nil {
			r.err = err
			break
		}
		r = l.measured(ctx, p, together, log)
		r.voids = try
	}
	if ctx.Err() != nil {
		return
	}
	fmt.Fprint(log, r.String())
	notes.print()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results = append(l.results, r)
}

// measured plays a scenario in a namespace of its own while Lapse measures, and judges what Lapse says.
func (l *laboratory) measured(ctx context.Context, played playing, together int, log io.Writer) result {
	scenario, mode := played.Scenario, l.cluster.ProxyMode()
	dir := filepath.Join(l.base, mode, played.Name, strconv.Itoa(played.number))
	r := result{scenario: scenario, run: drill.Run{Dir: dir}}
	text, err := os.ReadFile(scenario.File)
	r.record = record{
		Scenario: scenario.Name,
		Text:     string(text),
		Mode:     mode,
		Number:   played.number,
		Together: together,
		Began:    time.Now().UTC(),
		LoadAvg:  drill.LoadAverage(),
		Machine:  drill.Machine(),
		Vars:     map[string]string{},
	}
	fmt.Fprintf(log, "\n%s: %s\n", scenario.Name, scenario.Title())
	if r.err = errors.Join(err, l.lacks(scenario), os.MkdirAll(dir, 0o755)); r.err != nil {
		return r
	}
	own := *l.cluster // it has this run's log
	p := &play{
		scope:   scope{cluster: &own},
		machine: machine{dir: own.Dir, log: log},
		further: scenario.Further,
		vars:    r.Vars,
		uids:    map[string]string{},
	}
	if p.state, r.err = own.State(); r.err != nil {
		return r
	}
	if p.namespace, r.err = l.spaces.take(ctx); r.err != nil {
		return r
	}
	defer l.spaces.giveBack(ctx, p.namespace)
	if r.err = l.inside(ctx, &r, p, dir); r.err == nil {
		r.recorder = r.run.Timeline.Tool.Version
		r.judge()
	}
	return r
}

// inside plays a scenario in the play's namespace, which is empty, and writes the record into the run's folder.
func (l *laboratory) inside(ctx context.Context, r *result, p *play, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p.vars[namespaceVar] = p.namespace
	manifest, err := p.withCertificate(r.scenario, dir)
	if err != nil {
		return err
	}
	if err := p.deploy(ctx, strings.ReplaceAll(manifest, "$"+namespaceVar, p.namespace)); err != nil {
		return err
	}
	if r.scenario.alone() {
		l.spaces.settle() // nothing of an earlier scenario is left on the nodes
	}
	return errors.Join(l.behind(ctx, r, p), drill.Save(dir, recordFile, r.record))
}

// behind plays a scenario behind what it wants before the nodes.
func (l *laboratory) behind(ctx context.Context, r *result, p *play) error {
	if !r.scenario.Outside.any() {
		return r.play(ctx, l.settings, p)
	}
	l.outside.Lock()
	defer l.outside.Unlock()
	err := p.beginOutside(ctx, r.scenario.Outside)
	if err == nil {
		err = r.play(ctx, l.settings, p)
	}
	return errors.Join(err, p.endOutside(context.WithoutCancel(ctx)))
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
		"-n", p.namespace, "--out", filepath.Join(dir, "run"), "--rate", strconv.Itoa(s.Rate), "--baseline", "3s",
		"--settle", "4s", "--fail-if", "failed>0",
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
		pods.ended()
		return err
	}
	defer watch.Close()
	err = r.stepsUnder(ctx, p, gate, args)
	r.Pods = pods.ended()
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
	return truth.Begin(ctx, p.cluster, drill.Workload{Namespace: p.namespace, Name: "web"})
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
