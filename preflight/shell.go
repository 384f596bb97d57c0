package preflight

import (
	"path"
	"slices"
	"strings"
)

func isShell(command string) bool {
	return slices.Contains([]string{"sh", "bash", "ash", "dash", "ksh", "zsh"}, path.Base(command))
}

// shellScript is what a command has a shell run: the argument of -c, alone or among other options. It reports whether
// a command that fails ends the script.
func shellScript(command []string) (script string, errexit, ok bool) {
	if len(command) == 0 || !isShell(command[0]) {
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

// A statement is a simple command of a script, with the operator after it: one of ; && || | & or none.
type statement struct {
	words []string
	then  string
}

// statements splits a script into its simple commands. Keywords are words of theirs. Quotes are taken off.
func statements(script string) (all []statement) {
	var words []string
	var word strings.Builder
	quoted, begun := byte(0), false
	endWord := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	end := func(operator string) {
		endWord()
		if words = withoutRedirections(words); len(words) > 0 {
			all = append(all, statement{words, operator})
		}
		words = nil
	}
	depth := 0 // of $( … ), which is part of a word
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\\' && i+1 < len(script):
			i++
			if script[i] != '\n' {
				word.WriteByte(script[i])
				begun = true
			}
		case c == '\'' || c == '"' || c == '`':
			quoted, begun = c, true
		case c == '$' && i+1 < len(script) && script[i+1] == '(':
			word.WriteString("$(")
			begun = true
			depth++
			i++
		case depth > 0:
			word.WriteByte(c)
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
		case c == '#' && !begun:
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case c == ' ' || c == '\t' || c == '\r':
			endWord()
		case c == '\n' || c == ';':
			end(";")
		case (c == '&' || c == '|') && i+1 < len(script) && script[i+1] == c:
			end(string([]byte{c, c}))
			i++
		case c == '&' && (strings.HasSuffix(word.String(), ">") || i+1 < len(script) && script[i+1] == '>'): // 2>&1, &>file
			word.WriteByte(c)
			begun = true
		case c == '&' || c == '|':
			end(string(c))
		case (c == '(' || c == ')') && !begun:
			words = append(words, string(c))
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end("")
	return all
}

func withoutRedirections(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		w := strings.TrimLeft(words[i], "0123456789&")
		switch {
		case w == "" || w[0] != '<' && w[0] != '>':
			kept = append(kept, words[i])
		case strings.Trim(w, "<>|") == "": // the file is the next word
			i++
		}
	}
	return kept
}
