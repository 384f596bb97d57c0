package document

import (
	"slices"
	"strings"
	"testing"
)

func TestCleanSpellsOutWhatATerminalWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"web-5c9-x2kzq":                "web-5c9-x2kzq",
		"Grüße, 漢字 ✓":                  "Grüße, 漢字 ✓",
		"\x1b[2Jgone":                  `\x1b[2Jgone`,
		"\u009b31m":                    `\x9b31m`,
		"a\r\nb\tc":                    "a  b c",
		"\u202egnp.exe":                `\u202egnp.exe`,
		"bad \xff byte":                `bad \xff byte`,
		"z\u0335\u0336a\u200bl\u2028g": `z\u0335\u0336a\u200bl\u2028g`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCleanBreaksCommandsToARunner(t *testing.T) {
	for in, want := range map[string]string{
		"::set-output name=v::pass":          ": :set-output name=v::pass",
		"bye ::error::x":                     "bye : :error::x",
		"a\n::add-mask::x":                   "a : :add-mask::x",
		"x ##[set-output name=v;]pass":       "x # #[set-output name=v;]pass",
		"##vso[task.setvariable]x":           "# #vso[task.setvariable]x",
		"##teamcity[buildStatus]":            "# #teamcity[buildStatus]",
		"section_start:1:a\r\x1b[0Kb":        `section_start :1:a \x1b[0Kb`,
		"[::1]:8080 and ::1, fd00::10":       "[::1]:8080 and ::1, fd00::10",
		"std::io::Error, ## heading, a[##1]": "std::io::Error, ## heading, a[##1]",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	for width := 10; width < 40; width++ {
		for _, line := range wrap(strings.Repeat("a", 30)+"::error::x", width) {
			if strings.HasPrefix(line, "::") {
				t.Errorf("at %d columns a line begins with %q", width, line)
			}
		}
	}
}

func TestWrapKeepsFiguresAndUnitsTogether(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 20, nil},
		{"serve for 1.4 s more", 12, []string{"serve for", "1.4 s more"}},
		{"a quite-long-word-without-blanks", 12, []string{"a", "quite-long-w", "ord-without-", "blanks"}},
		{"first part · second", 11, []string{"first", "part ·", "second"}},
		{"漢字漢字 漢字", 10, []string{"漢字漢字", "漢字"}},
	} {
		if got := wrap(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("wrap(%q, %d) = %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

func TestWrapBreaksALongWordInTime(t *testing.T) {
	if lines := wrap(strings.Repeat("x", 1<<20), 16); len(lines) != 1<<16 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestCutMarksWhatIsMissing(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Cut("web-x2kzq", 9, "…"), "web-x2kzq"},
		{Cut("web-x2kzq", 6, "…"), "web-x…"},
		{Cut("漢字漢字", 5, "…"), "漢字…"},
		{Cut("漢字漢字", 4, "…"), "漢…"},
		{Cut("web", 2, "..."), ""},
		{CutMiddle("web-x2kzq", 9, "…"), "web-x2kzq"},
		{CutMiddle("漢字漢字漢字", 9, "…"), "漢字…漢字"},
		{CutMiddle(strings.Repeat("漢", 1<<20), 5, "…"), "漢…漢"}, // in time that grows with the text, not with its square
		{CutMiddle("payments/authorization-gateway new", 20, "…"), "payments/a…ateway new"[:10] + "…" + "teway new"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestWideCharactersTakeTwoColumns(t *testing.T) {
	for text, want := range map[string]int{"web-1": 5, "漢字": 4, "ﾊﾝｶｸ": 4, "⌚ ✓ ▒ ·": 8, "🚀": 2, "🌡": 1} {
		if got := Columns(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}
