package verdict

import (
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Where nobody's answer was awaited, a clean run does not say that an outage would have been seen.
func TestAVerdictOverBareConnectionsSaysSo(t *testing.T) {
	bare := model.Target{Target: timeline.Target{Name: "tcp://db new", Kind: timeline.New,
		Proves: "somebody accepted a connection", Blind: true}, Sent: 100, OK: 100, Coverage: 1}
	page := model.Target{Target: timeline.Target{Name: "web new", Kind: timeline.New,
		Proves: "a reply with status 200 to 399"}, Sent: 100, OK: 100, Coverage: 1}
	for _, tt := range []struct {
		name    string
		targets []model.Target
		blind   string
	}{
		{"all are bare", []model.Target{bare}, "blind: a success shows only that somebody accepted a connection"},
		{"one of two is", []model.Target{page, bare}, "blind: a success shows only that somebody accepted a " +
			"connection (tcp://db new)"},
		{"none is", []model.Target{page}, ""},
	} {
		tl := &model.Timeline{Targets: tt.targets}
		Judge(tl, []Gate{mustGate(t, "failed>0")})
		if tl.Verdict.Blind != tt.blind {
			t.Errorf("%s: %q, want %q", tt.name, tl.Verdict.Blind, tt.blind)
		}
		said := strings.Join(tl.Verdict.Reasons, "\n")
		if claims := strings.Contains(said, "would have been seen"); claims != (tt.blind == "") ||
			!strings.Contains(said, tt.blind) {
			t.Errorf("%s: %s", tt.name, said)
		}
	}
}
