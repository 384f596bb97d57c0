package schematest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// docLink is a link in a Go doc comment: [Name] or [pkg.Name].
var docLink = regexp.MustCompile(`\[([a-z]*\.?[A-Z][A-Za-z.]*)\]`)

// A constant is one value of a type with a closed list of them.
type constant struct {
	value   string // empty for one that is counted by iota
	comment string
}

// readConstants reads the exported constants of the module's packages from their source, in order and by the
// full name of their type.
func readConstants(packages ...string) (map[string][]constant, error) {
	constants := map[string][]constant{}
	for _, pkg := range packages {
		paths, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("read constants of %s: %w", pkg, err)
			}
			addConstants(constants, "lapse/"+pkg, file)
		}
	}
	return constants, nil
}

func addConstants(constants map[string][]constant, pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		inherited := "" // under iota, a constant takes the type of the one before
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if name, ok := value.Type.(*ast.Ident); ok {
				inherited = name.Name
			} else if value.Values != nil {
				inherited = ""
			}
			if inherited != "" && value.Names[0].IsExported() {
				name := pkg + "." + inherited
				constants[name] = append(constants[name], constant{literal(value), comment(value)})
			}
		}
	}
}

func literal(value *ast.ValueSpec) string {
	if len(value.Values) == 0 {
		return ""
	}
	text, ok := value.Values[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(text.Value)
	return s
}

// comment is what is said of a constant, above it or behind it, on one line.
func comment(value *ast.ValueSpec) string {
	text := value.Doc.Text() + value.Comment.Text()
	text = strings.Join(strings.Fields(text), " ")
	return strings.TrimPrefix(text, value.Names[0].Name+" ")
}
