package hook

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var shells = []string{"sh", "bash", "ash", "dash", "ksh", "zsh"}

// Script returns what a command has a shell run: the argument of -c, alone or among other options. Errexit reports
// whether a command that fails ends the script. OK is false if the command runs no script so.
func Script(command []string) (script string, errexit, ok bool) {
	if len(command) == 0 || !slices.Contains(shells, path.Base(command[0])) {
		return "", false, false
	}
	for i := 1; i < len(command); i++ {
		option, is := strings.CutPrefix(command[i], "-")
		switch {
		case !is || option == "":
			return "", false, false
		case strings.HasPrefix(option, "-"): // such as --login
			continue
		}
		errexit = errexit || strings.Contains(option, "e")
		if strings.Contains(option, "c") {
			rest := command[i+1:]
			for len(rest) > 1 && strings.HasPrefix(rest[0], "-") { // options may follow -c
				errexit = errexit || strings.Contains(rest[0], "e")
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return "", false, false
			}
			return rest[0], errexit, true
		}
		if strings.HasSuffix(option, "o") { // -o pipefail
			i++
		}
	}
	return "", false, false
}

// PassesSIGTERM reports whether a script that process 1 runs ends in an exec, or traps SIGTERM. A script that cannot
// be parsed does not.
func PassesSIGTERM(script string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return false
	}
	var last []string
	traps := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.FuncDecl:
			return false
		case *syntax.CallExpr:
			if words := wordsOf(n); len(words) > 0 {
				last = words
				traps = traps || words[0] == "trap" && slices.ContainsFunc(words, isSIGTERM)
			}
		}
		return true
	})
	return traps || len(last) > 1 && last[0] == "exec"
}

func isSIGTERM(word string) bool { return word == "TERM" || word == "SIGTERM" || word == "15" }

// wordsOf returns the words of a simple command, without quotes. What the shell expands stays as it is written.
func wordsOf(c *syntax.CallExpr) (words []string) {
	for _, w := range c.Args {
		words = append(words, textOf(w.Parts))
	}
	return words
}

func textOf(parts []syntax.WordPart) string {
	var text strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			text.WriteString(textOf(p.Parts))
		default:
			_ = syntax.NewPrinter().Print(&text, p) // a strings.Builder takes all
		}
	}
	return text.String()
}
