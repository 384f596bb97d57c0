// Gotest runs go test with the given arguments and fails when a test was skipped, too: a test that did not run proves
// nothing. It prints what go test prints, and the words of what failed once more at the end: of a long log often only
// the last lines are kept.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	cmd := exec.Command("go", command(args)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := printer{out: out, verbose: slices.Contains(args, "-v"), outputs: map[test]string{}}
	rerr := p.readAll(events)
	if err := cmd.Wait(); err != nil {
		p.repeat()
		return fmt.Errorf("go test: %w", err)
	}
	if rerr != nil {
		return fmt.Errorf("read go test's events: %w", rerr)
	}
	if len(p.skipped) > 0 {
		return fmt.Errorf("skipped: %v", p.skipped)
	}
	return nil
}

// command is go test -json with args. go test wants -C first.
func command(args []string) []string {
	if len(args) > 1 && args[0] == "-C" {
		return slices.Concat([]string{"-C", args[1], "test", "-json"}, args[2:])
	}
	return append([]string{"test", "-json"}, args...)
}

// An event is a line of go test -json, as `go doc test2json` has it.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// of is what an event tells of: a test, or a package where the test's name is empty.
func (e event) of() test { return test{cmp.Or(e.Package, e.ImportPath), e.Test} }

type test struct{ pkg, name string }

// A printer turns events back into text: all of it if verbose, else a line per package and the output of tests that
// failed.
type printer struct {
	out     io.Writer
	verbose bool
	outputs map[test]string // of the tests under way, and of packages
	failed  []failure       // in the order in which they ended
	skipped []string
}

// A failure is a test that failed, or a package that cannot be built or died, with its output.
type failure struct {
	test
	output string
}

func (p *printer) readAll(r io.Reader) error {
	decoder := json.NewDecoder(r)
	for {
		var e event
		if err := decoder.Decode(&e); err == io.EOF {
			return nil
		} else if err != nil {
			_, _ = io.Copy(io.Discard, r) // go test must not hang
			return err
		}
		p.read(e)
	}
}

func (p *printer) read(e event) {
	switch e.Action {
	case "output", "build-output":
		p.outputs[e.of()] += e.Output
		if e.Test == "" || p.verbose {
			p.text(e)
		}
	case "fail", "build-fail":
		p.fail(e.of())
	case "skip":
		if e.Test != "" { // else the package has no tests
			p.skipped = append(p.skipped, e.Package+"."+e.Test)
		}
		fallthrough
	case "pass":
		delete(p.outputs, e.of())
	}
}

// fail prints the output of a test, or of all tests that a package died in, if it is not there yet.
func (p *printer) fail(t test) {
	for _, under := range slices.SortedFunc(maps.Keys(p.outputs), test.compare) {
		if under != t && (t.name != "" || under.pkg != t.pkg) {
			continue
		}
		output := p.outputs[under]
		delete(p.outputs, under)
		if under.name != "" && !p.verbose {
			fmt.Fprint(p.out, output)
		}
		if !saysNothing(output) {
			p.failed = append(p.failed, failure{under, output})
		}
	}
}

func (t test) compare(other test) int {
	return cmp.Or(strings.Compare(t.pkg, other.pkg), strings.Compare(t.name, other.name))
}

// saysNothing reports whether an output has no word of its own, as that of a package or of a test whose parts failed.
func saysNothing(output string) bool {
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) > 0 && !slices.Contains([]string{"FAIL", "===", "---", "exit", "ok", "PASS", "coverage:"}, words[0]) {
			return false
		}
	}
	return true
}

const (
	firstLines = 30 // of a failure that are repeated: a panic and a data race begin with what they are
	lastLines  = 50 // and what a test says of its failure comes last
	mostRepeat = 5  // failures; the first ones, which may have brought about the others
)

// repeat prints the words of what failed once more. A test that is not the last of its package, or of a run of many
// lines, is far up.
func (p *printer) repeat() {
	for _, f := range p.failed[:min(len(p.failed), mostRepeat)] {
		fmt.Fprintf(p.out, "\nFAILED %s\n%s", strings.TrimSpace(f.pkg+" "+f.name), cut(f.output))
	}
	fmt.Fprintln(p.out)
	for _, f := range p.failed {
		fmt.Fprintf(p.out, "FAILED %s\n", strings.TrimSpace(f.pkg+" "+f.name))
	}
}

// cut leaves the first and the last lines of a long text.
func cut(text string) string {
	lines := slices.Collect(strings.Lines(text))
	left := len(lines) - firstLines - lastLines
	if left <= 0 {
		return text
	}
	gap := fmt.Sprintf("… %d lines, printed above …\n", left)
	return strings.Join(slices.Concat(lines[:firstLines], []string{gap}, lines[firstLines+left:]), "")
}

// text prints output of no test, without what go test says only with -v, and of packages without tests.
func (p *printer) text(e event) {
	if !p.verbose && (e.Output == "PASS\n" || strings.HasPrefix(e.Output, "?")) {
		return
	}
	fmt.Fprint(p.out, e.Output)
}
