package lapse

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// proseWidth is where a line of prose ends at the latest, so that it can be read in any editor and beside a diff.
const proseWidth = 120

// unwrapped are lines that cannot be broken, or are not prose: list items and preformatted text of a comment, lines
// with one long word, tables, HTML and link targets.
var (
	unwrappedComment = regexp.MustCompile(`^\t*//(\s*$|\t|\s\s|\s\S{80,}|go:|\s.*https?://\S{60,})`)
	unwrappedPage    = regexp.MustCompile(`^\s*(\||<|#|\[[^\]]+\]:|\[\S+\.txtar\])|^\s*(- )?\S{80,}`)
)

func TestProseEndsBefore120Columns(t *testing.T) {
	tracked, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for path := range strings.Lines(string(tracked)) {
		path = strings.TrimSpace(path)
		// Generated from tables, or what a program printed.
		if strings.HasPrefix(path, "docs/reference/") || strings.HasPrefix(path, "docs/measured/") || path == "docs/benchmarks.md" || strings.Contains(path, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(path, ".go") {
			checkComments(t, path, string(text))
		} else {
			checkPage(t, path, string(text))
		}
	}
}

func checkComments(t *testing.T, path, text string) {
	literal := false // within a raw string
	for n, line := range strings.Split(text, "\n") {
		if strings.Count(line, "`")%2 == 1 && !strings.HasPrefix(strings.TrimSpace(line), "//") {
			literal = !literal
			continue
		}
		if !literal && strings.HasPrefix(strings.TrimLeft(line, "\t"), "//") && !unwrappedComment.MatchString(line) {
			checkWidth(t, path, n+1, line)
		}
	}
}

func checkPage(t *testing.T, path, text string) {
	fenced, generated := false, strings.HasPrefix(path, "docs/causes/")
	for n, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		switch {
		case strings.HasPrefix(line, "## The fix"): // what follows, up to the next heading, is a rule's
			generated = true
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "<!-- Up to here"):
			generated = false
		}
		if !fenced && !generated && !unwrappedPage.MatchString(line) {
			checkWidth(t, path, n+1, line)
		}
	}
}

func checkWidth(t *testing.T, path string, line int, text string) {
	if width := utf8.RuneCountInString(strings.ReplaceAll(text, "\t", "    ")); width > proseWidth {
		t.Errorf("%s:%d: %d columns, more than %d: %.60s…", path, line, width, proseWidth, strings.TrimSpace(text))
	}
}
