package run

import (
	"testing"

	"lapse/hint"
)

// Any argument is refused with a hint, or is a target whose text is the same target.
func FuzzTargetsReadBack(f *testing.F) {
	for _, arg := range []string{"svc/web", "service/web:http/healthz?a=b", "svc/web:0", "svc/:80", "http://bücher.example/ü", "tcp://[fe80::1%25eth0]:80", "https://a:b@c/", "ftp://x", ""} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		s, err := ParseTarget(arg)
		if err != nil {
			if hint.Of(err) == "" {
				t.Errorf("%q is refused without a hint: %v", arg, err)
			}
			return
		}
		if s.URL != nil && s.URL.User != nil {
			return // its text hides the password
		}
		again, err := ParseTarget(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %s, which is %v (%v)", arg, s, again, err)
		}
	})
}
