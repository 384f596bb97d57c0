// Module changes the path of the Go modules in this repository, for whoever publishes it:
//
//	go -C tools run ./module github.com/you/lapse
//
// It rewrites the module lines and the requirements in go.mod files, the imports, and package paths in strings,
// comments, the Makefile and project.env. Files that git does not know stay as they are.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: module PATH, such as github.com/you/lapse")
		os.Exit(2)
	}
	if err := rename("..", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

// rename gives the module at root, and those in its folders, another path.
func rename(root, path string) error {
	if err := module.CheckPath(path); err != nil {
		return fmt.Errorf("%w: want a path such as github.com/you/lapse", err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	old := modfile.ModulePath(text)
	git := exec.Command("git", "ls-files", "-z")
	git.Dir = root
	listed, err := git.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.FieldsFunc(string(listed), func(r rune) bool { return r == 0 })
	under, itself := packagePaths(old, files)
	for _, name := range files {
		if !holdsPaths(name) {
			continue
		}
		if err := rewrite(filepath.Join(root, name), func(text []byte) []byte {
			text = under.ReplaceAll(text, []byte("${1}"+path+"${2}"))
			text = itself.ReplaceAll(text, []byte("${1}"+path+`"`))
			switch filepath.Base(name) {
			case "go.mod":
				text = replaceLines(text, old, path)
			case "project.env":
				text = bytes.Replace(text, []byte("MODULE="+old+"\n"), []byte("MODULE="+path+"\n"), 1)
			}
			return text
		}); err != nil {
			return err
		}
	}
	return nil
}

// holdsPaths reports whether a file may name packages of this repository.
func holdsPaths(name string) bool {
	return slices.Contains([]string{".go", ".mod"}, filepath.Ext(name)) || name == "Makefile" ||
		name == "project.env" || name == "tools/errcheck.txt"
}

// packagePaths returns two expressions: one finds the module's path before one of its folders, with what stands before
// and after it as groups, the other finds the import of the module's own package, with what stands before it.
func packagePaths(old string, files []string) (under, itself *regexp.Regexp) {
	var folders []string
	for _, name := range files {
		folder, _, within := strings.Cut(name, "/")
		if filepath.Ext(name) == ".go" && within && !slices.Contains(folders, folder) {
			folders = append(folders, regexp.QuoteMeta(folder))
		}
	}
	p := regexp.QuoteMeta(old)
	under = regexp.MustCompile(`(?m)(^|[^\w/.-])` + p + `(/(?:` + strings.Join(folders, "|") + `)\b|/")`)
	return under, regexp.MustCompile(`(?m)^(\s*(?:import )?(?:[\w.]+ )?")` + p + `"$`)
}

// replaceLines changes the path of the root module in a go.mod file.
func replaceLines(text []byte, old, path string) []byte {
	line := regexp.MustCompile(`(?m)^((?:module|require|replace)?\s*)` + regexp.QuoteMeta(old) + `( |$)`)
	return line.ReplaceAll(text, []byte("${1}"+path+"${2}"))
}

func rewrite(name string, change func([]byte) []byte) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed := change(text)
	if bytes.Equal(text, changed) {
		return nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, changed, info.Mode())
}
