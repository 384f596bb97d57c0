// Bench holds Lapse against its targets and against its peers, and writes what came out to docs/benchmarks.md.
//
//	make bench                                                    everything, about an hour
//	go -C loadgen/bench run . --only exact --runs 1 --length 5s   a part of it, briefly, to standard output
//
// Each tool runs in a process of its own, so that the processor time and the memory it is charged with are its own;
// so does the server, which is the same for all and notes when each request reached it. The peers are used through
// the libraries that their commands are made of, in this module of their own, so that Lapse does not depend on them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type settings struct {
	role, load, plan string
	note             string

	root, out, profile string
	only               string
	runs               int
	length, soak       time.Duration
	selftest           time.Duration
	coordinator        time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.role, "role", "",
		"be a tool's process or the server's; for our own use, as are --load and --plan")
	flag.StringVar(&s.load, "load", "", "")
	flag.StringVar(&s.plan, "plan", "{}", "")
	flag.StringVar(&s.root, "root", "../..", "the repository")
	flag.StringVar(&s.out, "out", "-", "the file the page goes to; -: standard output")
	flag.StringVar(&s.profile, "profile", "",
		"write CPU profiles of Lapse's engine into this folder; they cost it time")
	flag.StringVar(&s.only, "only", "", "only these parts, by comma: "+partNames())
	flag.StringVar(&s.note, "note", "",
		"what a reader of the page must know of this run, such as what else ran on the machine")
	flag.IntVar(&s.runs, "runs", 5, "runs of each tool in each part")
	flag.DurationVar(&s.length, "length", 21*time.Second, "length of a run at 2000 requests per second")
	flag.DurationVar(&s.soak, "soak", 10*time.Minute, "length of the soak")
	flag.DurationVar(&s.selftest, "selftest", 60*time.Second, "length of each selftest")
	flag.DurationVar(&s.coordinator, "coordinator", 3*time.Minute,
		"for how long the coordinator of 100 nodes is measured while nobody looks at its page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (s *settings) run(ctx context.Context) error {
	switch s.role {
	case "":
		return s.bench(ctx)
	case "server":
		var plan serverPlan
		if err := json.Unmarshal([]byte(s.plan), &plan); err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
		if plan.GRPC {
			return serveGRPC(plan, os.Stdin, os.Stdout)
		}
		return serve(plan, os.Stdin, os.Stdout)
	case "busy":
		for ctx.Err() == nil {
		}
		return nil
	}
	return playRole(ctx, s.role, s.load)
}

// A part is a part of the page and what must be run for it.
type part struct {
	name string
	run  func(context.Context, *bench, *page, *settings) error
}

var parts = []part{
	{"exact", runExact},
	{"beside", runBeside},
	{"stall", runStall},
	{"cut", runCut},
	{"grpc", runGRPC},
	{"core", runCore},
	{"recording", runRecording},
	{"soak", runSoak},
	{"analysis", runAnalysis},
	{"selftest", runSelftest},
	{"page", runPage},
	{"coordinator", runCoordinator},
}

func partNames() string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

func (s *settings) bench(ctx context.Context) error {
	chosen, err := choose(s.only)
	if err != nil {
		return err
	}
	b, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.scratch)
	page := &page{Runs: s.runs, Length: s.length, SoakFor: s.soak, Machine: machineNow(), LoadBefore: loadNow(),
		Peers: peerVersions(), Command: s.arguments(), Note: s.note}
	for _, p := range chosen {
		fmt.Fprintf(b.talk, "%s %s\n", time.Now().Format(time.TimeOnly), p.name)
		if err := p.run(ctx, b, page, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return s.write(page)
}

// arguments are those that decide what is measured.
func (s *settings) arguments() string {
	text := fmt.Sprintf("--runs %d --length %v --soak %v --selftest %v --coordinator %v", s.runs, s.length, s.soak,
		s.selftest, s.coordinator)
	if s.only != "" {
		text = "--only " + s.only + " " + text
	}
	return text
}

// choose finds the parts that are named, or all.
func choose(names string) ([]part, error) {
	if names == "" {
		return parts, nil
	}
	var chosen []part
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only %s: there is no such part; the parts are %s", name, partNames())
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// prepare checks the settings, and builds lapse in a folder for scratch.
func (s *settings) prepare(ctx context.Context) (*bench, error) {
	if s.runs < 1 || s.length < 3*time.Second || s.soak < 10*time.Second || s.coordinator < 20*time.Second {
		return nil, fmt.Errorf("--runs %d, --length %v, --soak %v, --coordinator %v: at least 1, 3s, 10s and 20s",
			s.runs, s.length, s.soak, s.coordinator)
	}
	b := &bench{runs: s.runs, length: s.length, talk: os.Stderr}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.root, err = filepath.Abs(s.root); err != nil {
		return nil, err
	}
	if s.profile != "" {
		if b.profile, err = filepath.Abs(s.profile); err != nil {
			return nil, err
		}
	}
	if b.scratch, err = os.MkdirTemp("", "lapse-bench-"); err != nil {
		return nil, err
	}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.scratch))
	}
	return b, nil
}

// build builds lapse as a release is built.
func (b *bench) build(ctx context.Context) error {
	b.lapse, b.lapseUsual = filepath.Join(b.scratch, "lapse"), filepath.Join(b.scratch, "lapse-usual-slice")
	for path, flags := range map[string]string{b.lapse: "", b.lapseUsual: "-X lapse/loadgen.wantsSlice=no"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", flags, "-o", path, "./cmd/lapse")
		build.Dir, build.Stdout, build.Stderr = b.root, os.Stderr, os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := build.Run(); err != nil {
			return fmt.Errorf("build lapse: %w", err)
		}
	}
	return nil
}

// write renders the page to where it shall go.
func (s *settings) write(p *page) error {
	var text strings.Builder
	if err := p.render(&text); err != nil {
		return err
	}
	if s.out == "-" {
		_, err := io.WriteString(os.Stdout, text.String())
		return err
	}
	return os.WriteFile(s.out, []byte(text.String()), 0o644)
}
