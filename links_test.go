package lapse

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)|<img [^>]*src="([^"]+)"|srcset="([^"]+)"`)
	namedPage    = regexp.MustCompile(`(?:^|[\s("])((?:docs|sandbox|dashboard|CONTRIBUTING|README)[\w/.-]*\.md)`)
	namedSource  = regexp.MustCompile("`((?:[a-z][a-z0-9_-]*/)+[a-z0-9_]+\\.go)`")
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// A link within the project leads to a file, and to a heading of it if the link names one. Pages that Go code names and
// Go files that pages name exist.
func TestLinksLeadSomewhere(t *testing.T) {
	tracked, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.md", "*.go").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for file := range strings.Lines(string(tracked)) {
		file = strings.TrimSpace(file)
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) || strings.Contains(file, "/testdata/") {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(file, ".go") {
			checkNamedPages(t, file, string(text))
		} else {
			checkLinks(t, file, string(text))
		}
	}
}

func checkNamedPages(t *testing.T, file, text string) {
	for line := range strings.Lines(text) {
		for _, m := range namedPage.FindAllStringSubmatch(line, -1) {
			if _, err := os.Stat(m[1]); err != nil && strings.Contains(m[1], "/") && strings.Contains(line, "//") {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}

func checkLinks(t *testing.T, file, text string) {
	for _, m := range namedSource.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			if _, err := os.Stat(path.Join(path.Dir(file), m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
	for _, m := range markdownLink.FindAllStringSubmatch(prose(text), -1) {
		link := m[1] + m[2] + m[3]
		if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
			continue
		}
		to, anchor, _ := strings.Cut(link, "#")
		target := file
		if to != "" {
			target = path.Join(path.Dir(file), to)
		}
		page, err := os.ReadFile(target)
		if _, statErr := os.Stat(target); statErr != nil {
			t.Errorf("%s: %s leads nowhere", file, link)
			continue
		}
		if anchor != "" && filepath.Ext(target) == ".md" && (err != nil || !hasHeading(string(page), anchor)) {
			t.Errorf("%s: %s: there is no such heading", file, link)
		}
	}
}

// prose returns a page without its fenced blocks.
func prose(page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			b.WriteString(line)
		}
	}
	return b.String()
}

// hasHeading reports whether GitHub gives a heading of the page this anchor.
func hasHeading(page, anchor string) bool {
	for line := range strings.Lines(prose(page)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			plain := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			if strings.ReplaceAll(plain, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// Each test that the security page names exists: it holds a claim of the page.
func TestSecurityIsTested(t *testing.T) {
	page, err := os.ReadFile("docs/reference/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := exec.Command("git", "grep", "-hoE", "--untracked", `^func Test\w+`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	for _, name := range named {
		if !strings.Contains(string(tests)+"\n", "func "+name[1]+"\n") {
			t.Errorf("there is no %s", name[1])
		}
	}
	if len(named) < 12 {
		t.Errorf("%d tests", len(named))
	}
}
