package hey

import (
	"slices"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"
)

// What is recorded and printed of a background load has no header's value, no password and no body.
func TestAHammersSecretsAreNotShown(t *testing.T) {
	for args, want := range map[string]string{
		"-c 50 -q 20": "-c 50 -q 20",
		`-c 1 -H "Authorization: Bearer s3cret" -H 'X-Team: blue'`: "-c 1 -H 'Authorization: ***' -H 'X-Team: ***'",
		"-m POST -d '{\"pw\":\"s3cret\"}' -t 3":                    "-m POST -d '***' -t 3",
		`-H=Cookie:s3cret --d=b:c`:                                 "'-H=Cookie: ***' '--d=***'",
		"-H s3cret":                                                "-H '***'",
		"-c 1 -H":                                                  "-c 1 -H",
		"-c 'open":                                                 "***",
	} {
		if got := Public(args); got != want {
			t.Errorf("%s is shown as %s, want %s", args, got, want)
		}
		if hides := Hides(args); hides == (args == want) && args != "-c 50 -q 20" && args != "-c 1 -H" {
			t.Errorf("%s hides something: %v", args, hides)
		}
	}
	if Hides("-c 50 -q 20") || !Hides("-c 1 -d b:c") {
		t.Error("wrong about what there is to hide")
	}
}

// What is shown of any flags that are accepted can be split as a shell would, and has no header's value and no body.
func FuzzAHammersSecretsAreNotShown(f *testing.F) {
	f.Add("-c 5 -q 2", "s3cret", "b0dy")
	f.Add("-t 3 -m post", "a: 'b", `{"x": "\\"}`)
	f.Fuzz(func(t *testing.T, args, secret, body string) {
		args += " " + shellquote.Join("-H", "X-Secret: "+secret, "-d", body)
		if _, err := ParseFlags(args); err != nil {
			return
		}
		words, err := shellquote.Split(Public(args))
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", args, Public(args), err)
		}
		if n := len(words); n < 4 || !slices.Equal(words[n-4:], []string{"-H", "X-Secret: ***", "-d", "***"}) {
			t.Errorf("%q is shown as %q", args, words)
		}
		if len(secret) > 8 && strings.Contains(strings.Join(words, " "), secret) && !strings.Contains(args[:strings.LastIndex(args, "X-Secret")], secret) {
			t.Errorf("%q shows %q", words, secret)
		}
	})
}
