// Command measure repeats the drain of the demo, without the fix, in each of kube-proxy's modes, and writes what
// came out as a table: how many requests failed, how long the window was, and how long after the Pod had stopped
// a request still failed.
//
//	measure --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../docs/measured
//	measure --lapse ../bin/lapse --judge ../runs/measure-20261121-062740     the table again, from saved runs
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lapse/sandbox/drill"
)

type settings struct {
	lapse, sandbox, image, runs, out string
	judge                            string // a folder of saved runs; empty: measure
	modes                            []string
	drains, rate                     int
}

func main() {
	var s settings
	flag.StringVar(&s.lapse, "lapse", "../bin/lapse", "the lapse binary")
	flag.StringVar(&s.sandbox, "sandbox", "../bin/sandbox", "the sandbox binary")
	flag.StringVar(&s.image, "image", "../bin/lapse.tar", "Lapse's image")
	flag.StringVar(&s.runs, "runs", "../runs", "where the runs go")
	flag.StringVar(&s.out, "out", "../docs/measured", "where the table goes")
	flag.IntVar(&s.drains, "n", 10, "drains in each mode")
	flag.IntVar(&s.rate, "rate", 500, "requests per second, each of new and reused connections")
	flag.StringVar(&s.judge, "judge", "", "judge the runs in this folder again, and measure nothing")
	modes := flag.String("modes", "iptables,nftables", "kube-proxy's modes")
	flag.Parse()
	s.modes = strings.Split(*modes, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, s settings) error {
	base := cmp.Or(s.judge, filepath.Join(s.runs, "measure-"+time.Now().UTC().Format("20060102-150405")))
	collect := drains
	if s.judge != "" {
		collect = saved
	}
	var doc strings.Builder
	head(&doc, s)
	for _, mode := range s.modes {
		rows, err := collect(ctx, s, mode, filepath.Join(base, mode))
		if err != nil {
			return err
		}
		table(&doc, mode, rows)
	}
	fmt.Print(doc.String())
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "termination-race.md"), []byte(doc.String()), 0o644)
}

// A row is one drain. All instants and lengths come from Lapse's timeline.
type row struct {
	failed, sent int
	classes      map[string]int
	window       *drill.Window // of new connections; nil: no window was seen
	cause        string
	limit        time.Duration // detection limit
	exitCode     int

	// From the Pod's last answer, or its first refusal, on its own address to the last request
	// through the Service that failed.
	tail *drill.Length
}

func drains(ctx context.Context, s settings, mode, dir string) ([]row, error) {
	for _, args := range [][]string{{"down"}, {"up", "--proxy-mode", mode}, {"load", s.image}} {
		cmd := exec.CommandContext(ctx, s.sandbox, args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", strings.Join(args, " "), err)
		}
	}
	c, err := drill.Open(s.lapse, os.Stderr)
	if err != nil {
		return nil, err
	}
	w := drill.Workload{Namespace: "shop", Name: "web", Replicas: 2, Args: []string{"--on-sigterm", "exit"}}
	if err := c.Deploy(ctx, w); err != nil {
		return nil, err
	}
	var rows []row
	for i := range s.drains {
		run, err := c.Drain(ctx, w, filepath.Join(dir, strconv.Itoa(i+1)), "--rate", strconv.Itoa(s.rate), "--fail-if", "failed>0")
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowOf(run))
	}
	return rows, nil
}

// saved judges the drains of a mode that were measured before.
func saved(ctx context.Context, s settings, _, dir string) ([]row, error) {
	var rows []row
	for i := range s.drains {
		run, err := drill.Judge(ctx, s.lapse, filepath.Join(dir, strconv.Itoa(i+1)))
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowOf(run))
	}
	return rows, nil
}

func rowOf(run drill.Run) row {
	r := row{limit: run.Timeline.Verdict.DetectionLimit, exitCode: run.ExitCode, classes: map[string]int{}}
	if t, err := run.Timeline.Target("web new"); err == nil {
		r.failed, r.sent = t.Failed, t.Sent
	}
	for _, w := range run.Timeline.Windows {
		if w.Target != "web new" || w.Kind == "slow" {
			continue
		}
		for class, n := range w.Classes {
			r.classes[class] += n
		}
		if r.window == nil || w.Length.Max > r.window.Length.Max {
			r.window = &w
			r.cause = fmt.Sprintf("%s [%s]", w.Causes[0].Rule, w.Causes[0].Confidence)
		}
	}
	r.tail = tailOf(run.Timeline)
	return r
}

func tailOf(t drill.Timeline) *drill.Length {
	var last time.Duration
	for _, f := range t.Failures {
		if f.Target == "web new" {
			last = max(last, f.Sent)
		}
	}
	for _, p := range t.Pods {
		if p.Stopped != nil && last > 0 {
			return &drill.Length{Min: max(0, last-p.Stopped.Latest), Max: max(0, last-p.Stopped.Earliest)}
		}
	}
	return nil
}

func head(w io.Writer, s settings) {
	fmt.Fprintf(w, `# The termination race, measured

Two replicas that exit at SIGTERM, on two of three nodes; %d new connections per second, and as many requests on reused ones, from the
third node; `+"`kubectl drain`"+` of one of the two. %d drains in each mode, none left out. Made by `+"`make measure`"+` on %s.

Nothing else runs on the nodes. Where several endpoints change at once, as in `+"`make demo`"+`, kube-proxy's minSyncPeriod adds up to 1 s.

%s, %d cores, %s, Kubernetes of the sandbox (%s), %s.

- **failed**: requests on new connections that failed, of all sent.
- **window**: length of the longest window of new connections, as Lapse brackets it: the truth lies between the two.
- **stopped → last failure**: from when the Pod stopped answering on its own address to the last failed request through the Service;
  how long routes outlived the Pod, also a bracket.
- A dash is a drain in which no request failed: the race was lost by nobody, or was shorter than the detection limit given instead.
`, s.rate, s.drains, time.Now().UTC().Format("2006-01-02"), output("uname", "-srm"), runtime.NumCPU(), cpuModel(), kubernetesVersion(), runtime.Version())
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return name + " unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "CPU unknown"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU unknown"
}

func kubernetesVersion() string {
	return output("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
}

func table(w io.Writer, mode string, rows []row) {
	fmt.Fprintf(w, "\n## kube-proxy in %s mode\n\n", mode)
	fmt.Fprintln(w, "| drain | failed | how | window (ms) | stopped → last failure (ms) | cause |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for i, r := range rows {
		fmt.Fprintf(w, "| %d | %d/%d | %s | %s | %s | %s |\n", i+1, r.failed, r.sent, classes(r.classes), windowCell(r), bracket(r.tail), orDash(r.cause))
	}
	summary(w, rows)
}

func windowCell(r row) string {
	if r.window == nil {
		return "– (< " + millis(r.limit) + ")"
	}
	return bracket(&r.window.Length)
}

// summary gives minimum, median and maximum over the drains: of failures, and of the middle of each bracket.
func summary(w io.Writer, rows []row) {
	var failed, windows, tails []float64
	for _, r := range rows {
		failed = append(failed, float64(r.failed))
		if r.window != nil {
			windows = append(windows, middle(r.window.Length))
		}
		if r.tail != nil {
			tails = append(tails, middle(*r.tail))
		}
	}
	fmt.Fprintf(w, "| **min / median / max** | %s | | %s | %s | |\n", drill.Spread(failed, 0), drill.Spread(windows, 1), drill.Spread(tails, 1))
	fmt.Fprintf(w, "\n%d of %d drains lost requests. The spreads of the last two columns are of the brackets' middles, over the drains that have one.\n", len(windows), len(rows))
}

func middle(l drill.Length) float64 { return (l.Min + l.Max).Seconds() * 1000 / 2 }

func bracket(l *drill.Length) string {
	if l == nil {
		return "–"
	}
	return millis(l.Min) + " to " + millis(l.Max)
}

func millis(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) }

func classes(byClass map[string]int) string {
	var parts []string
	for class, n := range byClass {
		parts = append(parts, fmt.Sprintf("%d %s", n, class))
	}
	slices.Sort(parts)
	return orDash(strings.Join(parts, ", "))
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
