package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// goBench runs `go test -run ^$ -bench WHICH` with further arguments, and returns the results.
func (b *bench) goBench(ctx context.Context, which string, args ...string) ([]*benchfmt.Result, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "-bench", which}, args...)...)
	cmd.Dir = b.root
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, b.talk), b.talk
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go test -bench %s: %w", which, err)
	}
	return readBench(&out)
}

// readBench reads what `go test -bench` prints.
func readBench(from io.Reader) (results []*benchfmt.Result, _ error) {
	lines := benchfmt.NewReader(from, "go test -bench")
	for lines.Scan() {
		switch line := lines.Result().(type) {
		case *benchfmt.Result:
			results = append(results, line.Clone())
		case *benchfmt.SyntaxError:
			return nil, line
		}
	}
	return results, lines.Err()
}

// nameOf returns a benchmark's name without its -GOMAXPROCS.
func nameOf(r *benchfmt.Result) string {
	base, parts := r.Name.Parts()
	name := string(base)
	for _, part := range parts {
		if !strings.HasPrefix(string(part), "-") {
			name += string(part)
		}
	}
	return name
}

// values returns a figure of all runs of a benchmark, in the unit in which it was printed.
func values(results []*benchfmt.Result, name, unit string, scale float64) (found []float64) {
	for _, r := range results {
		if nameOf(r) != name {
			continue
		}
		for _, v := range r.Values {
			switch unit {
			case v.OrigUnit:
				found = append(found, v.OrigValue*scale)
			case v.Unit:
				found = append(found, v.Value*scale)
			}
		}
	}
	return found
}

// cell returns a figure of all runs of a benchmark for a table.
func cell(results []*benchfmt.Result, name, unit string, digits int) string {
	if found := values(results, name, unit, 1); len(found) > 0 {
		return spreadOf(found).format(digits)
	}
	return "–"
}

// A benchFigure is a figure of a Go benchmark, and what it must be.
type benchFigure struct {
	unit, figure, must string
	digits             int
	scale              float64            // what it is multiplied by; 0: by nothing
	holds              func(float64) bool // whether a median is good enough; nil: nothing is asked of it
}

// judge returns the claim that the figure is as it must be.
func (f benchFigure) judge(bench string, results []*benchfmt.Result) claim {
	found := values(results, bench, f.unit, cmp.Or(f.scale, 1))
	if len(found) == 0 {
		return claim{Figure: f.figure, Must: f.must, Missing: "the benchmark did not measure it"}
	}
	s := spreadOf(found)
	held := f.holds != nil && f.holds(s.Median)
	return claim{Figure: f.figure, Must: f.must, Measured: s.format(f.digits), Held: held}
}
