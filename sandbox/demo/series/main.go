// Command series runs `make demo` again and again, first on the machine as it is, then with one of its cores kept
// busy by another process, and writes what came out as a table. It exits 0 only if every try did.
//
//	series --root .. -n 10 --out ../docs/measured
//	series --root .. --loads quiet -n 3 -- go -C sandbox run ./demo --runs     on the sandbox that is up
//
// What stands after -- runs in the root instead of make demo, with one more argument: the folder for its runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

type settings struct {
	drill.Files
	root    string
	n       int
	loads   drill.List
	command []string // and the folder for the runs; empty: make demo
}

const (
	busy  = "busy"
	table = "demo.md"
)

func main() {
	s := settings{loads: drill.List{"quiet", busy}}
	s.RunsFlag(flag.CommandLine)
	s.OutFlag(flag.CommandLine, table)
	flag.StringVar(&s.root, "root", "..", "the repository")
	flag.IntVar(&s.n, "n", 10, "tries under each load")
	flag.Var(&s.loads, "loads", "what else the machine does")
	drill.Main("series", func(ctx context.Context) error {
		s.command = flag.Args()
		return series(ctx, s)
	})
}

// A try is one run of the demo.
type try struct {
	load     string
	began    time.Time
	loadAvg  string
	took     time.Duration
	exitCode int
	said     string           // the last line of one that failed
	races    []drill.Timeline // drains without the fix
	fixed    *drill.Timeline  // with it
}

func series(ctx context.Context, s settings) error {
	base, err := filepath.Abs(s.Base("series"))
	if err != nil {
		return err
	}
	var tries []try
	var failed int
	for _, load := range s.loads {
		for i := range s.n {
			t, err := demo(ctx, s, load, filepath.Join(base, load+"-"+strconv.Itoa(i+1)))
			if err != nil {
				return err
			}
			if t.exitCode != 0 {
				failed++
			}
			tries = append(tries, t)
			fmt.Fprintln(os.Stderr, t.row(i+1))
		}
	}
	err = s.Publish(table, document(ctx, s, tries))
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d tries failed", failed, len(tries)))
	}
	return err
}

// demo tries once. Its output goes to a file beside its runs. The error is only for a try that could not be made.
func demo(ctx context.Context, s settings, load, dir string) (try, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return try{}, err
	}
	log, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return try{}, err
	}
	defer log.Close()
	command := append(slices.Clone(s.command), dir)
	if len(s.command) == 0 {
		command = []string{"make", "demo", "RUNS=" + dir}
	}
	t := try{load: load, began: time.Now().UTC(), loadAvg: drill.LoadAverage()}
	if load == busy {
		end, err := drill.Busy(15 * time.Minute)
		if err != nil {
			return t, err
		}
		defer end()
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	t.took = time.Since(t.began)
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended || ctx.Err() != nil {
		return t, fmt.Errorf("%s: %w", strings.Join(command, " "), cmp.Or(context.Cause(ctx), err))
	}
	t.exitCode = cmd.ProcessState.ExitCode()
	if t.exitCode != 0 {
		t.said = lastWords(log.Name())
	}
	return t, t.read(dir)
}

// read collects what the drains of a try left. The demo makes a folder of its own below dir.
func (t *try) read(dir string) error {
	for i := 1; ; i++ {
		found, err := filepath.Glob(filepath.Join(dir, "demo-*", "before-"+strconv.Itoa(i)))
		if err != nil || len(found) == 0 {
			break
		}
		timeline, err := drill.ReadTimeline(found[0])
		if err != nil {
			return err
		}
		t.races = append(t.races, timeline)
	}
	found, err := filepath.Glob(filepath.Join(dir, "demo-*", "after-1"))
	if err != nil || len(found) == 0 {
		return err
	}
	timeline, err := drill.ReadTimeline(found[0])
	t.fixed = &timeline
	return err
}

// lastWords is the line in which the demo, or make, says why it failed.
func lastWords(file string) string {
	data, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "demo: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

func document(ctx context.Context, s settings, tries []try) string {
	var doc strings.Builder
	fmt.Fprintf(&doc, `# The demo, again and again

`+"`%s`"+` %d times on the machine as it is, and as often with one of its cores kept busy by another process. All tries are listed. Made by
`+"`make demo-series`"+` on %s to %s, of commit %s.

%s.

A try exits 0 only if a drain without the fix lost requests and Lapse named the cause, and the one drain with the fix passed. The first
is repeated until a request on a new connection is lost.

- **drains**: without the fix, until one lost a request. **failed**: requests that the last of them lost, of all sent.
- **with the fix**: Lapse's exit code (0 passed, 3 requests failed, 4 inconclusive), failed requests, coverage of new and of reused connections by the node where
  it was worst, and the longest time in which nothing looked at one of them: an outage of all requests that was longer would have been seen.
- **load**: the machine's load average over a minute as the try began.
`, cmp.Or(strings.Join(s.command, " "), "make demo"), s.n, tries[0].began.Format("2006-01-02 15:04"), tries[len(tries)-1].began.Format("2006-01-02 15:04 UTC"), commit(ctx, s.root), drill.Machine())
	for _, load := range s.loads {
		of := slices.DeleteFunc(slices.Clone(tries), func(t try) bool { return t.load != load })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&doc, "\n## %s\n\n", map[string]string{"quiet": "Nothing else at work", busy: "One core kept busy by another process"}[load])
		fmt.Fprintln(&doc, "| try | exit | duration | load | drains | failed | with the fix: exit | failed | coverage new, reused (%) | longest gap (ms) |")
		fmt.Fprintln(&doc, "|---|---|---|---|---|---|---|---|---|---|")
		for i, t := range of {
			fmt.Fprintln(&doc, t.row(i+1))
		}
		fmt.Fprint(&doc, summary(of))
	}
	return doc.String()
}

func (t try) row(number int) string {
	race, fixed := "–", "– | – | – | –"
	if len(t.races) > 0 {
		v := t.races[len(t.races)-1].Verdict
		race = fmt.Sprintf("%d/%d", v.Failed, v.Sent)
	}
	if t.fixed != nil {
		v := t.fixed.Verdict
		fixed = fmt.Sprintf("%d | %d/%d | %s | %s", v.ExitCode, v.Failed, v.Sent, coverage(*t.fixed), millis(t.fixed.LongestGap()))
	}
	return fmt.Sprintf("| %d | %d | %.0f s | %s | %d | %s | %s |", number, t.exitCode, t.took.Seconds(), t.loadAvg, len(t.races), race, fixed)
}

// coverage is that of the node that was observed worst.
func coverage(t drill.Timeline) string {
	var cells []string
	for _, kind := range []string{"new", "reused"} {
		if of := t.OfKind(kind); len(of) > 0 {
			worst := slices.MinFunc(of, func(a, b drill.Target) int { return cmp.Compare(a.Coverage, b.Coverage) })
			cells = append(cells, strconv.FormatFloat(100*worst.Coverage, 'f', 2, 64))
		}
	}
	return strings.Join(cells, ", ")
}

func summary(tries []try) string {
	var good int
	var covered, gaps []float64
	var failures strings.Builder
	for i, t := range tries {
		if t.exitCode == 0 {
			good++
		} else {
			fmt.Fprintf(&failures, "- Try %d: %s\n", i+1, t.said)
		}
		if t.fixed != nil {
			covered = append(covered, 100*t.fixed.Verdict.Coverage)
			gaps = append(gaps, t.fixed.LongestGap().Seconds()*1000)
		}
	}
	return fmt.Sprintf("\n%d of %d tries exit 0. With the fix, min / median / max: coverage of the worse target %s %%, longest gap %s ms.\n%s",
		good, len(tries), drill.Spread(covered, 2), drill.Spread(gaps, 1), failures.String())
}

func millis(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) }

// commit names what was tried, as `lapse version` does.
func commit(ctx context.Context, root string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown, with " + runtime.Version()
	}
	return strings.TrimSpace(string(out))
}
