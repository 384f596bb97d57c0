package lapse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The packages that judge start no goroutine and share nothing between any: so make check tests them without the race
// detector, which makes their simulations several times as long and could find nothing.
func TestJudgingStartsNoGoroutine(t *testing.T) {
	files := 0
	err := filepath.WalkDir("correlate", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if p := strings.Trim(spec.Path.Value, `"`); p == "sync" || strings.HasPrefix(p, "sync/") || strings.HasPrefix(p, "golang.org/x/sync/") {
				t.Errorf("%s imports %s: test its package with the race detector (SERIAL in the Makefile)", path, p)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if stmt, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine: test its package with the race detector (SERIAL in the Makefile)", set.Position(stmt.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files read: %v", files, err)
	}
}
