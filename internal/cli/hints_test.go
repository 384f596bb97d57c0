package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a message or a page tells people to type exists, and names the namespace where it is about a run in the
// cluster: a hint that is copied must work.
func TestHintsNameVerbsThatExist(t *testing.T) {
	root := newRoot("lapse", io.Discard, io.Discard)
	verbs := []string{"help"}
	for _, c := range root.Commands() {
		verbs = append(verbs, c.Name())
	}
	check := func(where, text string) {
		for _, m := range quotedVerb.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(verbs, m[1]) {
				t.Errorf("%s: %q: there is no such verb", where, m[0])
			}
		}
	}
	for _, text := range sourceTexts(t) {
		check(text.where, text.text)
		for _, command := range ofARun.FindAllString(text.text, -1) {
			listed := strings.HasSuffix(text.text, "as `lapse status` lists it")
			if mentions := strings.Count(command, " ") == 1 && !strings.Contains(command, "status"); !listed && !mentions && !namespaceFlag.MatchString(command) {
				t.Errorf("%s: %s: a hint without -n fails in another namespace", text.where, command)
			}
		}
	}
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md", "../../docs/README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		check(page, string(text))
	}
}

var (
	// In source and pages a command is quoted, or stands alone on its line.
	quotedVerb    = regexp.MustCompile("(?m)(?:`|\"|^(?:\\$ )?)(?:bin/)?lapse ([a-z][a-z-]*)\\b")
	ofARun        = regexp.MustCompile("`lapse (?:status|attach|retrieve|delete|stop)\\b[^`]*`")
	namespaceFlag = regexp.MustCompile(` (-n|--namespace)[ =]`)
)

// A sourceText is one string of the program, put together where it is of several parts; what is only known when it
// runs is "…".
type sourceText struct{ where, text string }

func sourceTexts(t *testing.T) []sourceText {
	t.Helper()
	var texts []sourceText
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"node_modules", "sandbox", "bench", ".git", "bin", "runs"}, entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := flatten(e)
			if ok {
				texts = append(texts, sourceText{files.Position(e.Pos()).String(), text})
			}
			return !ok
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// flatten returns the text of a literal, or of a sum that has one.
func flatten(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, okLeft := flatten(e.X)
		right, okRight := flatten(e.Y)
		if !okLeft {
			left = "…"
		}
		if !okRight {
			right = "…"
		}
		return left + right, e.Op == token.ADD && (okLeft || okRight)
	}
	return "", false
}
