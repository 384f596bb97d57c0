package document

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	eastasian "golang.org/x/text/width"
)

// Clean makes text from outside harmless on a terminal: what would move the cursor, change colours or
// reorder the line is spelled out ("\x1b", "\u202e"), line breaks and tabs become spaces.
func Clean(s string) string {
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
	"±", "+-", "≥", ">=", "≤", "<=", "≈", "~", "µ", "u", "×", "x", "÷", "/", "−", "-", "–", "-", "—", "-",
	"·", "|", "…", "...", "→", "->", "←", "<-", "✓", "v", "✗", "x",
	"“", `"`, "”", `"`, "‘", "'", "’", "'", "\u00a0", " ",
)

// Columns is the number of terminal cells s takes: two for a character of East Asian Width W or F, whatever the locale.
// https://www.unicode.org/reports/tr11/
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
		for line = head(word, width); len(line) < len(word); line = head(word, width) {
			lines = append(lines, line)
			word = word[len(line):]
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
