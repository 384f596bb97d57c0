// Gotest runs go test with the given flags on the packages after "--":
//
//	gotest -race -p 1 -- ./run ./loadgen
//
// A test that was skipped fails: what did not run proves nothing. A test that fails while the machine stands still is
// void: it is run again, alone, at most twice, and the stall is printed. The machine stands still where a thread that
// waits for 10 ms on one of its processors runs 100 ms late or later: the hypervisor or other programs had that
// processor. So it does in a second of which the hypervisor took 300 ms of a processor, or all waited for the disk for
// as long. Without such a stall, a failure counts at once.
//
// Gotest prints what go test prints, and repeats at the end what failed: of a long log often only the last lines are
// kept.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, watchMachine()); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// mostVoid is how many times a test is run again whose failure is void.
const mostVoid = 2

// A machine returns the longest stall between two times, which is zero if there was none.
type machine func(from, to time.Time) stall

func run(args []string, out io.Writer, longest machine) error {
	flags, packages, ok := cut(args)
	if !ok {
		return errors.New("usage: gotest FLAGS OF GO TEST -- PACKAGES")
	}
	p, err := play(flags, packages, out)
	for try := 1; err != nil && try <= mostVoid; try++ {
		again, stalls := p.void(longest)
		if len(again) == 0 {
			break
		}
		err = nil
		var failed []failure
		for i, t := range again {
			fmt.Fprintf(out, "VOID %s: the machine stood still for %v. It runs again, %d of at most %d times.\n",
				t, stalls[i], try, mostVoid)
			alone := slices.Concat(flags, []string{"-count=1"})
			if t.name != "" {
				alone = append(alone, "-run=^"+t.name+"$")
			}
			one, oneErr := play(alone, []string{t.pkg}, out)
			failed = append(failed, one.failed...)
			err = errors.Join(err, oneErr)
		}
		p.failed = failed
	}
	if err != nil {
		p.repeat()
	}
	return err
}

// cut splits the arguments at "--".
func cut(args []string) (flags, packages []string, ok bool) {
	at := slices.Index(args, "--")
	if at < 0 || at == len(args)-1 {
		return nil, nil, false
	}
	return args[:at], args[at+1:], true
}

// play runs go test once.
func play(flags, packages []string, out io.Writer) (*printer, error) {
	p := &printer{
		out: out, verbose: slices.Contains(flags, "-v"),
		outputs: map[test]string{}, began: map[test]time.Time{}, ended: map[string]bool{},
	}
	cmd := exec.Command("go", command(flags, packages)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	if err := cmd.Start(); err != nil {
		return p, err
	}
	rerr := p.readAll(events)
	if err := cmd.Wait(); err != nil {
		return p, fmt.Errorf("go test: %w", err)
	}
	if rerr != nil {
		return p, fmt.Errorf("read go test's events: %w", rerr)
	}
	if len(p.skipped) > 0 {
		return p, fmt.Errorf("skipped: %v", p.skipped)
	}
	return p, nil
}

// command returns the arguments of go test -json. go test wants -C first.
func command(flags, packages []string) []string {
	var first []string
	if len(flags) > 1 && flags[0] == "-C" {
		first, flags = flags[:2], flags[2:]
	}
	return slices.Concat(first, []string{"test", "-json"}, flags, packages)
}

// An event is a line of go test -json, as `go doc test2json` has it.
type event struct {
	Time                                      time.Time
	Action, Package, ImportPath, Test, Output string
}

// of returns the test that an event tells of, or the package, where the name is empty.
func (e event) of() test { return test{cmp.Or(e.Package, e.ImportPath), e.Test} }

type test struct{ pkg, name string }

func (t test) String() string { return strings.TrimSpace(t.pkg + " " + t.name) }

// A printer turns events back into text: all of it if verbose, else a line per package and the output of tests that
// failed.
type printer struct {
	out     io.Writer
	verbose bool
	outputs map[test]string // of the tests under way, and of packages
	began   map[test]time.Time
	ended   map[string]bool // the packages whose tests came to an end: nothing ended their process before
	failed  []failure       // in the order in which they ended
	skipped []string
}

// A failure is a test that failed, or a package that cannot be built or died, with its output.
type failure struct {
	test
	output   string
	from, to time.Time // zero where it was not built
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
	case "start", "run", "cont":
		p.began[e.of()] = e.Time
	case "output", "build-output":
		p.outputs[e.of()] += e.Output
		if e.Test == "" && (e.Output == "FAIL\n" || e.Output == "PASS\n") {
			p.ended[e.Package] = true
		}
		if e.Test == "" || p.verbose {
			p.text(e)
		}
	case "fail", "build-fail":
		p.fail(e.of(), e.Time)
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
func (p *printer) fail(t test, at time.Time) {
	for _, under := range slices.SortedFunc(maps.Keys(p.outputs), test.compare) {
		if under != t && (t.name != "" || under.pkg != t.pkg) {
			continue
		}
		output := p.outputs[under]
		delete(p.outputs, under)
		if under.name != "" && !p.verbose {
			fmt.Fprint(p.out, output)
		}
		if t.name != "" || !saysNothing(output) {
			p.failed = append(p.failed, failure{under, output, p.began[under], at})
		}
	}
}

// void returns the tests to run again and the stalls that are why. It returns none if a failure counts: a package that
// was not built, or a test in whose time the machine did not stand still. Of a package that died, all tests run again.
func (p *printer) void(longest machine) (again []test, stalls []stall) {
	for _, f := range p.failed {
		t := test{f.pkg, strings.Split(f.name, "/")[0]}
		if !p.ended[f.pkg] {
			t.name = ""
		} else if t.name == "" {
			continue // its tests say what failed
		}
		s := longest(f.from, f.to)
		if f.from.IsZero() || s.length == 0 {
			return nil, nil
		}
		if !slices.Contains(again, t) {
			again, stalls = append(again, t), append(stalls, s)
		}
	}
	return again, stalls
}

func (t test) compare(other test) int {
	return cmp.Or(strings.Compare(t.pkg, other.pkg), strings.Compare(t.name, other.name))
}

// ofGoTest are the first words of lines that go test prints.
var ofGoTest = []string{"FAIL", "===", "---", "exit", "ok", "PASS", "coverage:"}

// saysNothing reports whether an output has no words but go test's own: a package or a test of which a part failed.
func saysNothing(output string) bool {
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) > 0 && !slices.Contains(ofGoTest, words[0]) {
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
	failed := slices.DeleteFunc(slices.Clone(p.failed), func(f failure) bool { return saysNothing(f.output) })
	for _, f := range failed[:min(len(failed), mostRepeat)] {
		fmt.Fprintf(p.out, "\nFAILED %s\n%s", f.test, shorten(f.output))
	}
	fmt.Fprintln(p.out)
	for _, f := range failed {
		fmt.Fprintf(p.out, "FAILED %s\n", f.test)
	}
}

// shorten returns the first and the last lines of a long text.
func shorten(text string) string {
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
