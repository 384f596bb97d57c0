// Package starts reads the pages of docs/start: which lines a reader types, and where. The end-to-end tests type them
// on the sandbox. Above a block of lines a comment of the page can say otherwise:
//
//	<!-- on each node -->          the block is typed on each node, as root
//	<!-- not run: needs Docker --> no test can type it, and why
package starts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Page is one of docs/start, or another document with blocks of lines to type.
type Page struct {
	Name   string // its file's
	Text   string
	Blocks []Block
}

// A Block is what stands between two fences.
type Block struct {
	Lines  []string
	OnNode bool   // typed on each node
	NotRun string // why no test types it; empty: one does
}

var fenced = regexp.MustCompile("(?ms)^(?:<!-- ([^\n]*) -->\n)?^```(\\w*)\n(.*?)^```$")

// Read reads a page. It returns an error if a comment above a block is unknown, or a block says that it is in another
// language.
func Read(file string) (Page, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Page{}, err
	}
	page := Page{Name: filepath.Base(file), Text: string(text)}
	for _, m := range fenced.FindAllStringSubmatch(page.Text, -1) {
		comment, language := m[1], m[2]
		block := Block{Lines: strings.Split(strings.TrimSpace(m[3]), "\n")}
		why, notRun := strings.CutPrefix(comment, "not run: ")
		switch {
		case language != "":
			return page, fmt.Errorf("%s: a block of %s is no lines to type", file, language)
		case notRun:
			block.NotRun = why
		case comment == "on each node":
			block.OnNode = true
		case comment != "":
			return page, fmt.Errorf("%s: unknown comment %q above a block", file, comment)
		}
		page.Blocks = append(page.Blocks, block)
	}
	return page, nil
}
