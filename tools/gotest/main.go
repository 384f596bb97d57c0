// Gotest runs go test with the given arguments and fails when a test was skipped, too: a test that did not run proves nothing.
// It prints what go test prints.
package main

import (
	"encoding/json"
	"fmt"
	"io"
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
	p := printer{out: out, verbose: slices.Contains(args, "-v"), tests: map[test]string{}}
	rerr := p.readAll(events)
	if err := cmd.Wait(); err != nil {
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
	Action, Package, Test, Output string
}

type test struct{ pkg, name string }

// A printer turns events back into text: all of it if verbose, else a line per package and the output of tests that failed.
type printer struct {
	out     io.Writer
	verbose bool
	tests   map[test]string // output of the tests under way
	skipped []string
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
		p.print(e)
	}
}

func (p *printer) print(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		if e.Test == "" || p.verbose {
			p.text(e)
		} else {
			p.tests[t] += e.Output
		}
	case "fail":
		p.failed(t)
	case "skip":
		if e.Test != "" { // else the package has no tests
			p.skipped = append(p.skipped, e.Package+"."+e.Test)
		}
		fallthrough
	case "pass":
		delete(p.tests, t)
	}
}

// failed prints the output of a test, or of all tests that a package died in.
func (p *printer) failed(t test) {
	for under, output := range p.tests {
		if under == t || t.name == "" && under.pkg == t.pkg {
			fmt.Fprint(p.out, output)
			delete(p.tests, under)
		}
	}
}

// text prints output of no test, without what go test says only with -v, and of packages without tests.
func (p *printer) text(e event) {
	if !p.verbose && (e.Output == "PASS\n" || strings.HasPrefix(e.Output, "?")) {
		return
	}
	fmt.Fprint(p.out, e.Output)
}
