package timeline

import "strings"

// JoinCommand returns a command's words as one line that a POSIX shell splits into the same words.
func JoinCommand(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

// plain are the characters, in addition to letters and digits, that never have a meaning to a shell.
const plain = "_./:=,@%+-"

func quote(word string) string {
	special := strings.ContainsFunc(word, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(plain, r)
	})
	if word != "" && !special {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// SplitCommand returns the words of a line that [JoinCommand] wrote.
func SplitCommand(line string) []string {
	var words []string
	var word strings.Builder
	begun, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, begun = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			begun = true
		case c == ' ' && begun:
			words = append(words, word.String())
			word.Reset()
			begun = false
		case c != ' ':
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
