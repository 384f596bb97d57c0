package document

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	eastasian "golang.org/x/text/width"
)

// Clean makes text from outside harmless on a terminal and in the log of a CI runner: what would move the cursor,
// change colours or reorder the line is spelled out ("\x1b", "\u202e"), line breaks and tabs become spaces, and
// commands to a runner get a space that breaks them.
func Clean(s string) string { return noCommand(visible(s)) }

// noCommand breaks what GitHub's (::set-output name=x::y, ##[error]), Azure's (##vso[), TeamCity's (##teamcity[),
// GitLab's and Travis' runners take for a command in any line of output.
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
func noCommand(s string) string {
	if strings.Contains(s, "::") {
		s = wordCommand.ReplaceAllString(s, "$1: :$2")
	}
	if strings.Contains(s, "##") {
		s = bracketCommand.ReplaceAllString(s, "# #$1[")
	}
	if strings.Contains(s, "section_") || strings.Contains(s, "travis_") {
		s = foldCommand.ReplaceAllString(s, "$1 :")
	}
	return s
}

var (
	wordCommand    = regexp.MustCompile(`(^|[^\w:])::([A-Za-z])`) // not an IPv6 address such as ::1, nor std::io
	bracketCommand = regexp.MustCompile(`##([A-Za-z]*)\[`)
	foldCommand    = regexp.MustCompile(`\b(section_(?:start|end)|travis_(?:fold|time)):`)
)

// CleanJSON spells JSON in another way where a CI runner would take it for a command, which "##[" is anywhere in a line
// of output: it stays the same value.
func CleanJSON(text []byte) []byte {
	if !bytes.Contains(text, []byte("##")) {
		return text
	}
	return bracketCommand.ReplaceAll(text, []byte(`#\u0023$1[`))
}

// visible spells out what is not.
func visible(s string) string {
	if !strings.ContainsFunc(s, hostile) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case !hostile(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// hostile reports whether r does something else on a terminal than to fill a cell: control and format
// characters (bidirectional overrides among them), line separators, and marks that pile up on others.
func hostile(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Me, unicode.Mn, unicode.Co)
}

// ascii spells in ASCII what reports use beyond it. What it does not know becomes a question mark.
func ascii(s string) string {
	s = spelled.Replace(s)
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, s)
}

var spelled = strings.NewReplacer(
	"±", "+-", "≥", ">=", "≤", "<=", "≈", "~", "µ", "u", "×", "x", "÷", "/",
	"−", "-", "–", "-", "—", "-",
	"·", "|", "…", "...", "→", "->", "←", "<-", "✓", "v", "✗", "x",
	"“", `"`, "”", `"`, "‘", "'", "’", "'", "\u00a0", " ",
)

// Columns is the number of terminal cells s takes: two for a character of East Asian Width W or F, whatever the locale.
// https://www.unicode.org/reports/tr11/
// go-runewidth would read LC_ALL, so that a report depended on the locale of whoever prints it.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n++
		switch eastasian.LookupRune(r).Kind() {
		case eastasian.EastAsianWide, eastasian.EastAsianFullwidth:
			n++
		}
	}
	return n
}

// head is the longest beginning of s that takes at most width cells.
func head(s string, width int) string {
	for i, r := range s {
		if width -= Columns(string(r)); width < 0 {
			return s[:i]
		}
	}
	return s
}

// tail is the longest end of s that takes at most width cells.
func tail(s string, width int) string {
	for i := len(s); i > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if width -= Columns(string(r)); width < 0 {
			return s[i:]
		}
		i -= size
	}
	return s
}

// Cut shortens s to at most width cells, ending in mark where something was cut off.
func Cut(s string, width int, mark string) string {
	if len(head(s, width)) == len(s) {
		return s
	}
	room := width - Columns(mark)
	if room < 0 {
		return ""
	}
	return head(s, room) + mark
}

// CutMiddle shortens s to at most width cells and keeps both its ends, in which names differ.
func CutMiddle(s string, width int, mark string) string {
	if len(head(s, width)) == len(s) {
		return s
	}
	room := width - Columns(mark)
	end := tail(s, room/2)
	return head(s, room-Columns(end)) + mark + end
}

// glued are blanks at which a line is not broken: between a figure and its unit, and before a
// separator.
var glued = regexp.MustCompile(`([0-9]) (?:(?:ms|s|µs|us|min|h)\b|%)| ([·|]) `)

// piece is the beginning of a word that is broken. The rest does not begin as a command to a CI runner does.
func piece(word string, width int) string {
	line := head(word, width)
	if strings.HasPrefix(word[len(line):], "::") && len(line) > 1 {
		line = line[:len(line)-1]
	}
	return line
}

// wrap breaks s into lines of at most width cells at its spaces; a word longer than that is broken
// wherever it must be.
func wrap(s string, width int) []string {
	const glue = "\x00"
	width = max(width, 10)
	s = glued.ReplaceAllStringFunc(s, func(m string) string { return strings.Replace(m, " ", glue, 1) })
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		word = strings.ReplaceAll(word, glue, " ")
		if line != "" && Columns(line)+1+Columns(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = piece(word, width); len(line) < len(word); line = piece(word, width) {
			lines = append(lines, line)
			word = word[len(line):]
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
