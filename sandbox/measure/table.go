package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

func head(w io.Writer, s drill.Series) {
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
`, s.Rate, s.N, time.Now().UTC().Format("2006-01-02"), output("uname", "-srm"), runtime.NumCPU(), cpuModel(), kubernetesVersion(), runtime.Version())
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
