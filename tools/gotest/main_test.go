package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASkippedTestFails(t *testing.T) {
	err := run([]string{"-C", module(t, `func TestX(t *testing.T) { t.Skip("no rights") }`), "--", "./..."}, new(strings.Builder), quiet)
	if err == nil || !strings.Contains(err.Error(), "skipped: [x.TestX]") {
		t.Errorf("the error is %v, want one that names the skipped test", err)
	}
}

func TestOnlyTheOutputOfFailedTestsIsPrinted(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-C", module(t, `
func TestGood(t *testing.T) { t.Log("all is well") }
func TestBad(t *testing.T) { t.Error("seven of nine") }`), "--", "./..."}, &out, quiet)
	if err == nil || !strings.Contains(out.String(), "seven of nine") || strings.Contains(out.String(), "all is well") {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

func TestATestThatEndsTheProcessIsPrinted(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-C", module(t, `func TestX(t *testing.T) { println("the last words"); panic("gone") }`), "--", "./..."}, &out, quiet)
	if err == nil || !strings.Contains(out.String(), "the last words") || !strings.Contains(out.String(), "panic: gone") {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

// What failed stands at the end, with its own words, whatever go test and other packages have printed after it.
func TestWhatFailedIsRepeatedAtTheEnd(t *testing.T) {
	for name, test := range map[string]struct{ flag, tests string }{
		"a test": {"-v", `
func TestBad(t *testing.T) { t.Error("seven of nine") }
func TestGood(t *testing.T) { for i := range 200 { t.Log("line", i) } }`},
		"a part of a test": {"-v", `
func TestX(t *testing.T) { t.Run("bad", func(t *testing.T) { t.Error("seven of nine") }); for i := range 200 { t.Log("line", i) } }`},
		"a long test": {"-vet=off", `
func TestBad(t *testing.T) { for i := range 300 { t.Log("line", i) }; t.Error("seven of nine") }
func TestGood(t *testing.T) { for i := range 200 { t.Log("line", i) } }`},
		"a panic": {"-vet=off", `
func TestX(t *testing.T) { panic("seven of nine") }`},
		"a test that does not compile": {"-v", `
func TestX(t *testing.T) { sevenOfNine() }`},
	} {
		var out strings.Builder
		err := run([]string{"-C", module(t, test.tests), test.flag, "--", "./..."}, &out, quiet)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		end := strings.ReplaceAll(strings.Join(lines[max(0, len(lines)-100):], "\n"), "sevenOfNine", "seven of nine")
		_, repeated, found := strings.Cut(end, "\nFAILED x")
		if err == nil || !found || !strings.Contains(repeated, "seven of nine") || !strings.HasPrefix(lines[len(lines)-1], "FAILED x") {
			t.Errorf("%s: error %v, and the end is\n%s", name, err, end)
		}
	}
}

func TestPassedTestsPass(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-C", module(t, `func TestX(t *testing.T) {}`), "--", "./..."}, &out, quiet); err != nil || !strings.HasPrefix(out.String(), "ok") {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

// A test that fails while the machine stands still runs again, and passes if it passes then. Without a stall it fails.
func TestAFailureDuringAStallIsVoid(t *testing.T) {
	const second = `
func TestX(t *testing.T) { t.Run("part", func(t *testing.T) {
	f, err := os.OpenFile("tries", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil { t.Fatal(err) }
	defer f.Close()
	f.WriteString("x")
	if tries, _ := os.ReadFile("tries"); len(tries) < PASSES { FAILS }
}) }
func TestGood(t *testing.T) { f, _ := os.OpenFile("good", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); f.WriteString("x"); f.Close() }`
	stood := func(from, to time.Time) stall { return stall{from, time.Second, "processor 0"} }
	for _, test := range []struct {
		name, fails, passes string
		machine             machine
		passed              bool
		tries, good         int
	}{
		{"a stall", `t.Error("seven of nine")`, "2", stood, true, 2, 1},
		{"two stalls", `t.Error("seven of nine")`, "3", stood, true, 3, 1},
		{"a stall each time", `t.Error("seven of nine")`, "9", stood, false, 3, 1},
		{"no stall", `t.Error("seven of nine")`, "2", quiet, false, 1, 1},
		{"a stall and a panic", `panic("seven of nine")`, "2", stood, true, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := module(t, strings.NewReplacer("PASSES", test.passes, "FAILS", test.fails).Replace(second))
			var out strings.Builder
			err := run([]string{"-C", dir, "--", "./..."}, &out, test.machine)
			tries, _ := os.ReadFile(filepath.Join(dir, "tries"))
			good, _ := os.ReadFile(filepath.Join(dir, "good"))
			if (err == nil) != test.passed || len(tries) != test.tries || len(good) != test.good {
				t.Errorf("error %v after %d tries, the test beside it ran %d times:\n%s", err, len(tries), len(good), &out)
			}
			if !strings.Contains(out.String(), "seven of nine") || test.tries > 1 != strings.Contains(out.String(), "VOID x TestX") && !strings.Contains(out.String(), "VOID x:") {
				t.Errorf("printed:\n%s", &out)
			}
		})
	}
}

// What the hypervisor and the disk took is read from the kernel's files.
func TestLossesAreReadFromTheKernel(t *testing.T) {
	const stat = "cpu  136112 0 37692 31992 1243 0 296 233 0 0\ncpu0 67132 0 18279 18008 182 0 69 114 0 0\ncpu1 68979 0 19413 13983 1061 0 227 118 0 0\nintr 5 0\n"
	const pressure = "some avg10=0.38 avg60=1.34 avg300=0.59 total=2754201\nfull avg10=0.14 avg60=1.21 avg300=0.53 total=2334187\n"
	want := map[string]time.Duration{
		"stolen from cpu0": 1140 * time.Millisecond, "stolen from cpu1": 1180 * time.Millisecond,
		"waiting for the disk": 2334187 * time.Microsecond,
	}
	if got := parseLosses(stat, pressure); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := parseLosses("", ""); len(got) > 0 {
		t.Errorf("of nothing %v", got)
	}
}

func quiet(time.Time, time.Time) (none stall) { return none }

// module returns the directory of a module with these tests.
func module(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "x_test.go": "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
