package timeline

import (
	"slices"
	"strings"
	"testing"
)

func TestACommandsWordsAreWrittenAsAShellReadsThem(t *testing.T) {
	for _, test := range []struct {
		words []string
		line  string
	}{
		{[]string{"kubectl", "drain", "node-1", "--grace-period=5"}, "kubectl drain node-1 --grace-period=5"},
		{[]string{"sh", "-c", "sleep 1; echo 'done'"}, `sh -c 'sleep 1; echo '\''done'\'''`},
		{[]string{"echo", "", "$HOME", "ü"}, `echo '' '$HOME' 'ü'`},
		{nil, ""},
	} {
		if got := JoinCommand(test.words); got != test.line {
			t.Errorf("%q is written %s, want %s", test.words, got, test.line)
		}
		if got := SplitCommand(test.line); !slices.Equal(got, test.words) {
			t.Errorf("%s is read as %q", test.line, got)
		}
	}
}

func FuzzCommandsReadBack(f *testing.F) {
	f.Add("sh\x00-c\x00it's 'x' \\ \"")
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "\x00")
		if got := SplitCommand(JoinCommand(words)); !slices.Equal(got, words) {
			t.Errorf("%q was read back as %q", words, got)
		}
	})
}
