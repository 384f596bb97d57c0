package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Main parses the flags and runs a program, whose ctx ends with SIGINT and SIGTERM. It exits 1 if the program fails.
func Main(name string, program func(ctx context.Context) error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := program(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// A List is a flag's value: words with commas between them. An empty value is one empty word.
type List []string

// Set reads the flag's value.
func (l *List) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

func (l *List) String() string { return strings.Join(*l, ",") }

// Files are what a program reads and writes.
type Files struct {
	Lapse string // path of the lapse binary
	Runs  string // folder for the runs
	Out   string // folder for the table; empty: it is only printed
}

// Flags registers the flags -lapse and -runs.
func (f *Files) Flags(flags *flag.FlagSet) {
	flags.StringVar(&f.Lapse, "lapse", "../bin/lapse", "the lapse binary")
	flags.StringVar(&f.Runs, "runs", "../runs", "where the runs go")
}

// OutFlag registers the flag -out, the folder for the table in file.
func (f *Files) OutFlag(flags *flag.FlagSet, file string) {
	flags.StringVar(&f.Out, "out", "", "folder for the table, "+file+" (default: print it only)")
}

// Base returns the folder for the runs that a program begins now: RUNS/NAME-TIME.
func (f *Files) Base(name string) string {
	return filepath.Join(f.Runs, name+"-"+time.Now().UTC().Format("20060102-150405"))
}

// Publish prints a document, and writes it to a file in the folder for the table if there is one.
func (f *Files) Publish(file, doc string) error {
	fmt.Print(doc)
	if f.Out == "" {
		return nil
	}
	return errors.Join(os.MkdirAll(f.Out, 0o755), os.WriteFile(filepath.Join(f.Out, file), []byte(doc), 0o644))
}

// Series is how a program repeats its runs: in several modes of kube-proxy, some times in each.
type Series struct {
	Files
	Sandbox string // path of the sandbox binary
	Image   string // path of Lapse's image
	Judge   string // a folder of saved runs; empty: measure
	Modes   List   // of kube-proxy; one that is empty: as the sandbox is
	N       int    // runs in each mode
	Rate    int    // requests per second, each of new and reused connections
}

// Flags registers the flags of a series, with the defaults that s has. runs says what is repeated.
func (s *Series) Flags(flags *flag.FlagSet, runs string) {
	s.Files.Flags(flags)
	flags.StringVar(&s.Sandbox, "sandbox", "../bin/sandbox", "the sandbox binary")
	flags.StringVar(&s.Image, "image", "../bin/lapse.tar", "Lapse's image")
	flags.StringVar(&s.Judge, "judge", "", "judge the runs in this folder again, and measure nothing")
	flags.Var(&s.Modes, "modes", "kube-proxy's modes, such as iptables,nftables; empty: on the sandbox as it is")
	flags.IntVar(&s.N, "n", s.N, runs)
	flags.IntVar(&s.Rate, "rate", s.Rate, "requests per second, each of new and reused connections")
}

// Open brings the sandbox up in a mode of kube-proxy, with Lapse's image on its nodes. Without a mode it takes the
// one that is up. flags are further ones of `sandbox up`.
func (s *Series) Open(ctx context.Context, mode string, log io.Writer, flags ...string) (*Cluster, error) {
	if mode != "" {
		up := append([]string{"up", "--proxy-mode", mode}, flags...)
		for _, args := range [][]string{{"down"}, up, {"load", s.Image}} {
			cmd := exec.CommandContext(ctx, s.Sandbox, args...)
			cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("sandbox %s: %w", strings.Join(args, " "), err)
			}
		}
	}
	return Open(s.Lapse, log)
}
