package causes

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A rule is a file of its family's package, or several whose names begin alike: pinned_connection.go,
// pinned_connection_held.go. What several rules use is in files of their own, each for one subject, and these know no
// rule. Only the table of a family, and that of all rules, names them.
func TestNoRulesFileIsNeededByAnother(t *testing.T) {
	declared := 1 // unexplained
	for _, family := range []string{"empty", "routes", "pods", "network", "connections"} {
		declared += checkFamily(t, family)
	}
	if declared != len(Rules()) {
		t.Errorf("%d files declare %d rules: give each rule a file", declared, len(Rules()))
	}
}

// checkFamily returns how many files of a family declare a rule.
func checkFamily(t *testing.T, family string) int {
	set, pkg, uses := typeCheck(t, family)
	fileOf := func(pos token.Pos) string {
		return strings.TrimSuffix(filepath.Base(set.Position(pos).Filename), ".go")
	}
	var rules []string // their files
	for _, name := range pkg.Scope().Names() {
		if variable, ok := pkg.Scope().Lookup(name).(*types.Var); ok && isRule(variable) {
			rules = append(rules, fileOf(variable.Pos()))
		}
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	ruleOf := func(file string) string {
		for _, rule := range rules {
			if file == rule || strings.HasPrefix(file, rule+"_") {
				return rule
			}
		}
		return ""
	}
	wrong := map[string]bool{} // each pair once
	for id, object := range uses {
		if object.Pkg() != pkg {
			continue
		}
		by, of := fileOf(id.Pos()), fileOf(object.Pos())
		if rule := ruleOf(of); rule == "" || rule == ruleOf(by) || isRule(object) && by == "emptied_by" {
			continue
		}
		wrong[fmt.Sprintf("%s/%s.go uses %s of %s.go: move it into a file of its subject", family, by, object.Name(),
			of)] = true
	}
	for _, text := range slices.Sorted(maps.Keys(wrong)) {
		t.Error(text)
	}
	return len(rules)
}

// The files of evidence are in an order, that of its parts, in which each calls only those before it.
func TestFilesOfEvidenceCallEachOtherOneWay(t *testing.T) {
	set, pkg, uses := typeCheck(t, "evidence")
	fileOf := func(pos token.Pos) string { return filepath.Base(set.Position(pos).Filename) }
	calls := map[string]map[string]string{} // by file: the function of each other file that it calls
	for id, object := range uses {
		by, of := fileOf(id.Pos()), fileOf(object.Pos())
		if _, ok := object.(*types.Func); !ok || object.Pkg() != pkg || by == of {
			continue
		}
		if calls[by] == nil {
			calls[by] = map[string]string{}
		}
		calls[by][of] = object.Name()
	}
	callsNone := func(_ string, of map[string]string) bool {
		for file := range of {
			if calls[file] != nil {
				return false
			}
		}
		return true
	}
	for before := -1; before != len(calls); {
		before = len(calls)
		maps.DeleteFunc(calls, callsNone)
	}
	for by, of := range calls {
		t.Errorf("%s is called by what it calls: %v", by, of)
	}
}

func isRule(object types.Object) bool {
	named, ok := object.Type().(*types.Named)
	return ok && (named.Obj().Name() == "Rule" || named.Obj().Name() == "emptyReason")
}

// typeCheck reads a package without its tests, and says of each name that it uses what is meant.
func typeCheck(t *testing.T, dir string) (*token.FileSet, *types.Package, map[*ast.Ident]types.Object) {
	t.Helper()
	exports := map[string]string{} // the file with what a package exports, by its path
	for line := range strings.Lines(goList(t, dir, "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}")) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range strings.Fields(goList(t, dir, "-f", `{{join .GoFiles " "}}`)) {
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := config.Check("lapse/correlate/causes/"+dir, set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	return set, pkg, info.Uses
}

func goList(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return string(out)
}
