package report

import "testing"

func TestManyPartsAreCountedAndNotListed(t *testing.T) {
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{[]string{"a", "b"}, "a, b"},
		{[]string{"a", "b", "c", "d", "e"}, "a, b, c, d, e"}, // one more name is no longer than "and 1 more"
		{[]string{"a", "b", "c", "d", "e", "f"}, "a, b, c, d, and 2 more"},
	} {
		if got := listed(test.parts); got != test.want {
			t.Errorf("%q: %q, want %q", test.parts, got, test.want)
		}
	}
}
