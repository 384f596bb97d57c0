package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// A page is what docs/benchmarks.md tells. Parts that were not run are empty.
type page struct {
	Runs    int
	Length  time.Duration // of a run
	SoakFor time.Duration
	Machine machine
	Peers   []peer
	Command string // our arguments
	Note    string // what a reader must know of this run
	Claims  []claim

	LoadBefore string // of the machine, before this began

	Exact     string
	Beside    string
	Forgiven  string
	Stepped   bool
	Faults    string
	GRPC      string
	Core      string
	Recording string
	Soak      string
	Analysis  string
	Selftest  string
	Viewers   string

	Coordinator    string
	CoordinatorFor time.Duration
}

// claim adds what Lapse must reach, for the engine alone and for the whole program.
func (p *page) claim(figures []figure, results map[string][]result) {
	for _, f := range figures {
		if f.holds == nil {
			continue
		}
		for _, t := range []tool{lapseEngine, lapseRun} {
			named := f
			named.name += ": " + t.name
			p.row("", named, f.spreadOver(results[t.name]))
		}
	}
}

// claimBesideHey adds what a request may cost at most, as a share of what it costs hey in the run beside it: a
// machine's own speed cancels out. 45 µs were asked for where hey took 44.
func (p *page) claimBesideHey(results map[string][]result) {
	const most = 45.0 / 44
	for _, t := range []tool{lapseEngine, lapseRun} {
		ratios := make([]float64, len(results[t.name]))
		for i := range ratios {
			ratios[i] = results[t.name][i].cpuPerRequest() / results[hey.name][i].cpuPerRequest()
		}
		s := spreadOf(ratios)
		p.Claims = append(p.Claims, claim{
			Figure: "CPU per request, over hey's in the run beside it: " + t.name,
			Must:   fmt.Sprintf("≤ %.2f", most), Measured: s.format(2), Held: s.Median <= most,
		})
	}
}

// claimTable has a row for each figure of one tool, and adds to the page what it must reach.
func claimTable(p *page, prefix string, figures []figure, results []result) string {
	var rows [][]string
	for _, f := range figures {
		rows = append(rows, p.row(prefix, f, f.spreadOver(results)))
	}
	return claimsOf(rows)
}

// row returns a row of a table of claims, and adds the claim.
func (p *page) row(prefix string, f figure, s spread) []string {
	measured := s.format(f.digits)
	if f.holds != nil {
		p.Claims = append(p.Claims,
			claim{Figure: prefix + f.name, Must: f.must, Measured: measured, Held: f.holds(s.Median), Tabled: true})
	}
	return []string{f.name, measured, f.must}
}

func claimsOf(rows [][]string) string {
	return table([]string{"figure", "median (min..max)", "must"}, rows)
}

// Summary returns the table of targets: those that no other table has, and those that were missed or not measured.
func (p *page) Summary() string {
	var rows [][]string
	for _, c := range p.Claims {
		if c.Tabled && c.Held {
			continue
		}
		rows = append(rows, c.row())
	}
	return table([]string{"figure", "must", "measured: median (min..max)", ""}, rows)
}

// Missed is how many targets were missed, of those that were measured.
func (p *page) Missed() (n int) {
	for _, c := range p.Claims {
		if c.Missing == "" && !c.Held {
			n++
		}
	}
	return n
}

//go:embed page.md.tmpl
var pageText string

func (p *page) render(w io.Writer) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// A machine is what the figures were measured on.
type machine struct {
	CPU, Kernel, Go, Date string
	Cores                 int
	Memory                string
}

func machineNow() machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	meminfo, _ := os.ReadFile("/proc/meminfo")
	return machine{
		CPU:    procField(string(cpuinfo), "model name"),
		Cores:  runtime.NumCPU(),
		Memory: gib(procField(string(meminfo), "MemTotal")),
		Kernel: kernelVersion(),
		Go:     runtime.Version(),
		Date:   time.Now().UTC().Format(time.DateOnly),
	}
}

// loadNow is the machine's load average over the last minute.
func loadNow() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// procField finds "name : value" in the text of a file of /proc.
func procField(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func gib(kib string) string {
	n, err := strconv.ParseFloat(strings.TrimSuffix(kib, " kB"), 64)
	if err != nil {
		return "unknown"
	}
	return decimal(n/(1<<20), 1) + " GiB"
}

// A peer is a tool we compare with.
type peer struct{ Name, Path, Version string }

func peerVersions() []peer {
	peers := []peer{
		{Name: "hey", Path: "github.com/rakyll/hey"},
		{Name: "vegeta", Path: "github.com/tsenart/vegeta/v12"},
		{Name: "fortio", Path: "fortio.org/fortio"},
		{Name: "ghz", Path: "github.com/bojand/ghz"},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return peers
	}
	for i, p := range peers {
		for _, d := range info.Deps {
			if d.Path == p.Path {
				peers[i].Version = d.Version
			}
		}
	}
	return peers
}
