package causes_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/causes"
	"lapse/correlate/causes/rule"
)

var update = flag.Bool("update", false, "rewrite what the guide has from the rules")

const guide = "../../docs/causes"

// The field guide has a page for each cause. Its title and first sentence are the rule's; the rest is written by hand.
func TestGuideHasAPageForEachCause(t *testing.T) {
	want := []string{"README.md"}
	for _, r := range causes.Rules() {
		want = append(want, r.Name+".md")
		t.Run(r.Name, func(t *testing.T) {
			page := checkPage(t, r.Name+".md", func(old string) string { return pageOf(r, old) })
			checkSections(t, page)
		})
	}
	t.Run("index", func(t *testing.T) { checkPage(t, "README.md", indexOf) })
	files, err := filepath.Glob(filepath.Join(guide, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(want, filepath.Base(file)) {
			t.Errorf("%s is about no cause", file)
		}
	}
}

// checkPage compares a page with what is made of it from the rules, checks its links and returns it.
func checkPage(t *testing.T, name string, makeOf func(old string) string) string {
	t.Helper()
	path := filepath.Join(guide, name)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := makeOf(string(old))
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := gocmp.Diff(string(old), page); diff != "" {
		t.Errorf("%s is stale: go test ./correlate/causes -run Guide -update (-old +new)\n%s", path, diff)
	}
	checkLinks(t, page)
	return page
}

var sections = []string{"Symptom", "Why it happens", "Tell it apart", "Fix"}

var heading = regexp.MustCompile(`(?m)^## (.*)$`)

func checkSections(t *testing.T, page string) {
	t.Helper()
	var got []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		got = append(got, m[1])
	}
	if diff := gocmp.Diff(sections, got); diff != "" {
		t.Errorf("sections (-want +got)\n%s", diff)
	}
}

// pageOf returns a page with the rule's name and sentence above its first section.
func pageOf(r rule.Rule, old string) string {
	_, rest, _ := strings.Cut(old, "\n## ")
	return fmt.Sprintf("# %s\n\n%s\n\n## %s", r.Name, r.Doc, rest)
}

const listed = "| cause | in one sentence |\n|---|---|\n"

// indexOf returns the index with the list of the rules at its end.
func indexOf(old string) string {
	words, _, _ := strings.Cut(old, listed)
	var b strings.Builder
	b.WriteString(words + listed)
	for _, r := range causes.Rules() {
		fmt.Fprintf(&b, "| [%s](%[1]s.md) | %s |\n", r.Name, r.Doc)
	}
	return b.String()
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	sources = []string{"kubernetes.io", "github.com", "docs.kernel.org", "www.rfc-editor.org", "coredns.io"}
)

// checkLinks checks that links within the project lead to a file, and others to one of the sources.
func checkLinks(t *testing.T, page string) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		u, err := url.Parse(m[1])
		switch {
		case err != nil:
			t.Errorf("link %s: %v", m[1], err)
		case u.Host == "":
			if _, err := os.Stat(filepath.Join(guide, u.Path)); err != nil {
				t.Errorf("link %s: %v", m[1], err)
			}
		case !slices.Contains(sources, u.Host):
			t.Errorf("link %s leads to a host that is not in the list", m[1])
		}
	}
}
