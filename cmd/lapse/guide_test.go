package main

import (
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
)

const (
	guide      = "../../docs/causes"
	twoScreens = 110 // lines
)

// The field guide has a page for each rule, and each says what the rule's own table says. The rest of a page is
// written by hand.
func TestGuideSaysWhatTheRulesSay(t *testing.T) {
	want := []string{"README.md"}
	for _, r := range causes.Rules() {
		want = append(want, r.Name+".md")
		t.Run(r.Name, func(t *testing.T) {
			page := holdPage(t, r.Name+".md", func(old string) string { return pageOf(r, old) })
			holdCases(t, r.Name, page)
		})
	}
	t.Run("index", func(t *testing.T) { holdPage(t, "README.md", indexOf) })
	files, err := filepath.Glob(filepath.Join(guide, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !slices.Contains(want, name) && name != "images" {
			t.Errorf("%s is about no rule", file)
		}
	}
}

// holdPage compares a page with what is made of it from the rules, and looks at the rest of it. It returns the page.
func holdPage(t *testing.T, name string, makeOf func(old string) string) string {
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
		t.Errorf("%s is stale: go test ./cmd/lapse -run Guide -update (-old +new)\n%s", path, diff)
	}
	holdLinks(t, page)
	if n := strings.Count(page, "\n"); n > twoScreens {
		t.Errorf("%d lines: two screens are %d", n, twoScreens)
	}
	return page
}

var (
	apart    = regexp.MustCompile(`(?m)^\| \[([a-z-]+)\]\([a-z-]+\.md\) \| .* \| (.*) \|$`)
	caseLink = regexp.MustCompile(`\]\(\.\./\.\./(correlate/testdata/\w+\.txtar)\)`)
	first    = regexp.MustCompile(`(?m)^\S.*: .*\n(?:  (?:ended|\w+:).*\n)*  ([a-z-]+) \[`)
)

// holdCases holds each line of "How to tell it apart" against its cases: they are of that line's cause, or of the
// page's own.
func holdCases(t *testing.T, rule, page string) {
	t.Helper()
	for _, row := range apart.FindAllStringSubmatch(page, -1) {
		cases := caseLink.FindAllStringSubmatch(row[2], -1)
		if len(cases) == 0 {
			t.Errorf("no case holds what tells %s from %s", rule, row[1])
		}
		for _, c := range cases {
			data, err := os.ReadFile(filepath.Join("../..", c[1]))
			if err != nil {
				t.Error(err)
				continue
			}
			var causes [][]string
			for _, section := range []string{"-- windows --\n", "-- connections --\n"} {
				_, judged, _ := strings.Cut(string(data), section)
				judged, _, _ = strings.Cut(judged, "\n-- ")
				causes = append(causes, first.FindAllStringSubmatch(judged, -1)...)
			}
			if !slices.ContainsFunc(causes, func(c []string) bool { return c[1] == rule || c[1] == row[1] }) {
				t.Errorf("%s is neither of %s nor of %s", c[1], rule, row[1])
			}
		}
	}
}

const handwritten = "<!-- Up to here, and under \"The fix\", from the rule: go test ./cmd/lapse -run Guide -update. The run: go -C sandbox run ./lab -guide. -->\n"

var sections = []string{"## In a run", "## Why it happens", "## How to tell it apart", "## The fix", "## With the fix"}

// pageOf is a page with the rule's texts in it: above the first section, and as the first paragraph of "The fix".
func pageOf(r causes.Rule, old string) string {
	head := fmt.Sprintf("# %s\n\n%s\n\n%s\n\n%s", r.Name, r.Doc, r.Looks, handwritten)
	at := -1
	for _, title := range sections {
		next := strings.Index(old, "\n"+title+"\n")
		if next <= at {
			return old + fmt.Sprintf("\nno section %q here\n", title)
		}
		at = next
	}
	_, rest, _ := strings.Cut(old, "\n"+sections[0]+"\n")
	before, after, _ := strings.Cut(rest, "\n## The fix\n\n")
	_, after, _ = strings.Cut(after, "\n\n")
	return head + "\n" + sections[0] + "\n" + before + "\n## The fix\n\n" + r.Fix + "\n\n" + after
}

const listed = "| cause | in one sentence |\n|---|---|\n"

// indexOf is the index with the list of the rules at its end.
func indexOf(old string) string {
	words, _, _ := strings.Cut(old, listed)
	var b strings.Builder
	b.WriteString(words + listed)
	for _, r := range causes.Rules() {
		fmt.Fprintf(&b, "| [%s](%[1]s.md) | %s |\n", r.Name, r.Doc)
	}
	return b.String()
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// holdLinks holds that links within the project lead to a file, and others to Kubernetes, the kernel or an RFC.
func holdLinks(t *testing.T, page string) {
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
		case !slices.Contains([]string{"kubernetes.io", "github.com", "docs.kernel.org", "www.rfc-editor.org", "coredns.io"}, u.Host):
			t.Errorf("link %s leads to a host that is not in the list", m[1])
		}
	}
}

// The page of what no rule explains shows what a report says of it: what is known, and what to look at next.
func TestUnexplainedIsShownAsAReportSaysIt(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(guide, "unexplained.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\n      cause  unexplained (low confidence): no known cause matches; ", "\n      next   look at "} {
		if !strings.Contains(string(page), line) {
			t.Errorf("the page has no line %q", line)
		}
	}
}
