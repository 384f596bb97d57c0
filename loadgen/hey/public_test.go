package hey

import "testing"

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
