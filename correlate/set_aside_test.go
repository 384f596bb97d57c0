package correlate

import (
	"slices"
	"testing"
)

// Requests whose failure may be the prober's own doing are no failures, but an incident says how many lie in it.
func TestIncidentsSayHowManyFailuresWereSetAside(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []int // by incident
	}{
		{"between the failures", "ok*20 x*3 local*2 ok x local x*3 ok*20", []int{3}},
		{"before and after them", "ok*18 local*2 x*6 local*2 ok*20", []int{0}},
		{"none, but some not sent", "ok*20 x*3 late*2 x*3 ok*20", []int{0}},
		{"between two incidents", "ok*20 x*3 local x*3 ok*10 local ok*10 x*3 ok*20", []int{1, 0}},
		{"amid slow answers", "ok*20 ok+5*3 local*2 ok+5*3 ok*20", []int{0}},
	} {
		run := rowRun(row(test.text))
		tl := analyze(t, run)
		var got, windows []int
		for _, in := range tl.Incidents {
			got = append(got, in.NoEvidence)
		}
		for _, w := range tl.Windows {
			windows = append(windows, w.NoEvidence)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: incidents with %v set aside, of windows with %v; want %v", test.name, got, windows, test.want)
		}
	}
}
