// Package docs holds the pages of the documentation that the program itself prints.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed causes/*.md reference/gates.md reference/rights.md
var pages embed.FS

// Causes returns the names of the causes that have a page, sorted.
func Causes() (names []string) {
	files, _ := fs.Glob(pages, "causes/*.md") // the pattern is valid
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "causes/"), ".md")
		if name != "README" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Cause returns the field guide's page of a cause.
func Cause(name string) (page string, ok bool) {
	if !slices.Contains(Causes(), name) {
		return "", false
	}
	text, err := pages.ReadFile("causes/" + name + ".md")
	return string(text), err == nil
}

// Reference returns a page of the reference, without the line that says what generates it.
func Reference(name string) string {
	text, _ := pages.ReadFile("reference/" + name + ".md") // what is named is embedded
	page := string(text)
	if strings.HasPrefix(page, "<!--") {
		_, page, _ = strings.Cut(page, "\n")
	}
	return page
}

// Summary returns the first sentence of a page: what the cause is.
func Summary(page string) string {
	_, rest, _ := strings.Cut(page, "\n")
	first, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	return strings.ReplaceAll(first, "\n", " ")
}
