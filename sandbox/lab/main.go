package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

type settings struct {
	lapse, sandbox, image, runs, out, scenarios string

	judge string   // a folder of saved runs; empty: measure
	modes []string // of kube-proxy; one that is empty: as the sandbox is
	n     int
	rate  int
	names []string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == awaitVerb {
		os.Exit(await(os.Args[2], os.Stdout))
	}
	var s settings
	flag.StringVar(&s.lapse, "lapse", "../bin/lapse", "the lapse binary")
	flag.StringVar(&s.sandbox, "sandbox", "../bin/sandbox", "the sandbox binary")
	flag.StringVar(&s.image, "image", "../bin/lapse.tar", "Lapse's image")
	flag.StringVar(&s.runs, "runs", "../runs", "where the runs go")
	flag.StringVar(&s.out, "out", "", "folder for the table, causes.md (default: print it only)")
	flag.StringVar(&s.scenarios, "scenarios", "lab/scenarios", "folder of the scenarios")
	flag.StringVar(&s.judge, "judge", "", "judge the runs in this folder again, and measure nothing")
	flag.IntVar(&s.n, "n", 1, "runs of each scenario in each mode")
	flag.IntVar(&s.rate, "rate", 100, "requests per second, each of new and reused connections")
	modes := flag.String("modes", "", "kube-proxy's modes, such as iptables,nftables; empty: on the sandbox as it is")
	check := flag.Bool("check", false, "read the scenarios only")
	flag.Parse()
	s.modes, s.names = strings.Split(*modes, ","), flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := lab(ctx, s, *check); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func lab(ctx context.Context, s settings, checkOnly bool) error {
	scenarios, err := Load(s.scenarios, s.names...)
	if err != nil {
		return err
	}
	if checkOnly {
		fmt.Printf("%d scenarios\n", len(scenarios))
		return nil
	}
	collect := measureAll
	if s.judge != "" {
		collect = judgeAll
	}
	results, leftOut, err := collect(ctx, s, scenarios)
	if len(results) == 0 {
		return cmp.Or(err, errors.New("no runs"))
	}
	doc := document(results, leftOut)
	fmt.Print(doc)
	if s.out != "" {
		err = errors.Join(err, os.MkdirAll(s.out, 0o755), os.WriteFile(filepath.Join(s.out, "causes.md"), []byte(doc), 0o644))
	}
	failed := 0
	for _, r := range results {
		if !r.ok() {
			failed++
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d runs are not as their scenario expects", failed, len(results)))
	}
	return err
}

// A result is one run of a scenario, judged.
type result struct {
	record
	scenario Scenario
	run      drill.Run
	recorder string // the version of Lapse that recorded the run
	names    []named
	checks   []check
	err      error // the scenario could not be played
}

func (r result) ok() bool {
	return r.err == nil && !slices.ContainsFunc(r.checks, func(c check) bool { return !c.ok })
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, run %d (%s): ", r.scenario.Name, r.Mode, r.Number, r.run.Dir)
	if r.err != nil {
		fmt.Fprintf(&b, "could not be played: %v\n", r.err)
		return b.String()
	}
	fmt.Fprintf(&b, "coverage %.1f %%, load %s\n", 100*r.run.Timeline.Verdict.Coverage, r.LoadAvg)
	for _, c := range r.checks {
		fmt.Fprintln(&b, "  ", c)
	}
	return b.String()
}

// judge holds what Lapse says now against the scenario.
func (r *result) judge() { r.names, r.checks = judge(r.scenario, r.record, r.run.Timeline) }

func measureAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, leftOut int, err error) {
	base := filepath.Join(s.runs, "lab-"+time.Now().UTC().Format("20060102-150405"))
	for _, mode := range s.modes {
		if mode != "" {
			if err := restart(ctx, s, mode); err != nil {
				return results, 0, err
			}
		}
		c, err := drill.Open(s.lapse, io.Discard)
		if err != nil {
			return results, 0, err
		}
		for _, scenario := range scenarios {
			for i := range s.n {
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
	r.err = r.play(ctx, s, p)
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
	args := append([]string{"run", "svc/web", "-n", namespace, "--out", filepath.Join(dir, "run"), "--rate", strconv.Itoa(s.rate),
		"--baseline", "3s", "--settle", "4s", "--fail-if", "failed>0"}, r.scenario.Flags...)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := p.cluster.Command(ctx, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer gate.close() // if it ended before its command
		r.run, runErr = cmd.Finish(filepath.Join(dir, "run"))
	}()
	stepsErr := r.steps(ctx, p, gate)
	var undoErr error
	if stepsErr != nil {
		undoErr = p.undoAll(ctx) // Lapse cannot end well while the API server stands still
		cancel()
	}
	<-ended
	undoErr = errors.Join(undoErr, p.undoAll(ctx))
	r.Pods = pods.end()
	var routesErr error
	if r.scenario.Expect.Lags && stepsErr == nil && runErr == nil {
		r.Routes, routesErr = watch.End(r.run.Timeline.ProberNode())
	}
	r.After = p.counts(context.WithoutCancel(ctx), "web")
	if err := os.WriteFile(filepath.Join(dir, "lapse.txt"), []byte(r.run.Output), 0o644); err != nil {
		return err
	}
	return errors.Join(stepsErr, runErr, undoErr, routesErr)
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
	if p.vars[proberVar], err = p.prober(ctx); err != nil {
		return err
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

// A gate is the command that Lapse wraps: it tells the runner that it has begun, prints what it is sent, and ends with the
// connection.
type gate struct {
	listener net.Listener
	command  []string
}

const awaitVerb = "await"

func newGate() (*gate, error) {
	dir, err := os.MkdirTemp("", "lapse-lab")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "gate")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return &gate{listener, []string{self, awaitVerb, socket}}, nil
}

func (g *gate) opened() (net.Conn, error) { return g.listener.Accept() }

func (g *gate) close() {
	g.listener.Close()
	os.RemoveAll(filepath.Dir(g.command[2]))
}

// await is the other side of a gate.
func await(socket string, out io.Writer) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := io.Copy(out, conn); err != nil {
		return 1
	}
	return 0
}

// judgeAll has Lapse judge saved runs again, by the scenarios as they are now. Runs of which that makes no sense are left out.
func judgeAll(ctx context.Context, s settings, scenarios []Scenario) (results []result, leftOut int, err error) {
	var files []string
	for _, depth := range []string{"", "*", "*/*", "*/*/*", "*/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(s.judge, depth, recordFile))
		if err != nil {
			return nil, 0, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		r, err := judgeAgain(ctx, s.lapse, file, scenarios)
		if why, ok := errors.AsType[outdated](err); ok {
			leftOut++
			fmt.Fprintf(os.Stderr, "%s was left out: %v\n", file, why)
			continue
		}
		if err != nil {
			return results, leftOut, err
		}
		if r.scenario.Name == "" {
			continue // it was not asked for
		}
		results = append(results, r)
		fmt.Fprint(os.Stderr, r.String())
	}
	return results, leftOut, nil
}

// judgeAgain judges one saved run; its error is of a run that makes no sense any more, or of a file.
func judgeAgain(ctx context.Context, lapse, file string, scenarios []Scenario) (r result, err error) {
	if r.record, err = readRecord(file); err != nil {
		return r, err
	}
	i := slices.IndexFunc(scenarios, func(c Scenario) bool { return c.Name == r.Scenario })
	if i < 0 {
		return r, nil
	}
	r.scenario = scenarios[i]
	if err := r.outdated(); err != nil {
		return r, err
	}
	dir := filepath.Join(filepath.Dir(file), "run")
	recorded, err := drill.ReadTimeline(dir)
	if err != nil {
		return r, err
	}
	r.recorder = recorded.Tool.Version
	if r.run, r.err = drill.Judge(ctx, lapse, dir); r.err == nil {
		r.judge()
	}
	return r, nil
}

// outdated is why a saved run cannot be judged by the scenario as it is now.
type outdated string

func (o outdated) Error() string { return string(o) }

// outdated returns such an error if the scenario has changed since. What was not recorded is not expected of the run.
func (r *result) outdated() error {
	played, err := Parse(r.scenario.File, []byte(r.Text))
	same := func(a, b Step) bool { return a.Text == b.Text }
	taken := func(d Done, s Step) bool { return d.Text == s.Text && !d.Ended.IsZero() }
	switch {
	case err != nil:
		return outdated("only another version can read its scenario: " + err.Error())
	case played.Manifest != r.scenario.Manifest || !slices.Equal(played.Flags, r.scenario.Flags) || !slices.EqualFunc(played.Steps, r.scenario.Steps, same):
		return outdated("the scenario does something else now")
	case !slices.EqualFunc(r.Steps, r.scenario.Steps, taken):
		return outdated("it was cut off")
	}
	r.scenario.Expect.Lags = r.scenario.Expect.Lags && played.Expect.Lags
	return nil
}
