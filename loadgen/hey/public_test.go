package hey

import "testing"

// What is recorded and printed of a background load has no header's value, no password and no body.
func TestAHammersSecretsAreNotShown(t *testing.T) {
	for args, want := range map[string]string{
		"-c 50 -q 20": "-c 50 -q 20",
		`-c 1 -H "Authorization: Bearer s3cret" -H 'X-Team: blue'`: "-c 1 -H 'Authorization: ***' -H 'X-Team: ***'",
		"-a admin:s3cret -m POST -d '{\"pw\":\"s3cret\"}' -D body": "-a '***' -m POST -d '***' -D body",
		`-H=Cookie:s3cret --a=b:c`:                                 "'-H=Cookie: ***' '--a=***'",
		"-x http://me:s3cret@proxy:3128 -x proxy:80":               "-x '***@proxy:3128' -x proxy:80",
		"-c 1 -H":  "-c 1 -H",
		"-c 'open": "***",
	} {
		if got := PublicHammer(args); got != want {
			t.Errorf("%s is shown as %s, want %s", args, got, want)
		}
		if hides := HammerHides(args); hides == (args == want) && args != "-c 50 -q 20" && args != "-c 1 -H" {
			t.Errorf("%s hides something: %v", args, hides)
		}
	}
	if HammerHides("-c 50 -q 20") || !HammerHides("-c 1 -a b:c") {
		t.Error("wrong about what there is to hide")
	}
}
