package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASkippedTestFails(t *testing.T) {
	err := run([]string{"-C", module(t, `func TestX(t *testing.T) { t.Skip("no rights") }`), "./..."}, new(strings.Builder))
	if err == nil || !strings.Contains(err.Error(), "skipped: [x.TestX]") {
		t.Errorf("the error is %v, want one that names the skipped test", err)
	}
}

func TestOnlyTheOutputOfFailedTestsIsPrinted(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-C", module(t, `
func TestGood(t *testing.T) { t.Log("all is well") }
func TestBad(t *testing.T) { t.Error("seven of nine") }`), "./..."}, &out)
	if err == nil || !strings.Contains(out.String(), "seven of nine") || strings.Contains(out.String(), "all is well") {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

func TestATestThatEndsTheProcessIsPrinted(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-C", module(t, `func TestX(t *testing.T) { println("the last words"); panic("gone") }`), "./..."}, &out)
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
		err := run([]string{"-C", module(t, test.tests), test.flag, "./..."}, &out)
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
	if err := run([]string{"-C", module(t, `func TestX(t *testing.T) {}`), "./..."}, &out); err != nil || !strings.HasPrefix(out.String(), "ok") {
		t.Errorf("error %v, printed:\n%s", err, &out)
	}
}

// module is the directory of a module with these tests.
func module(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "x_test.go": "package x\n\nimport \"testing\"\n\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
