package document

import (
	"strings"
	"testing"
)

func TestProseKeepsWordsThatMeanNothingToMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"node2 still routed to web-5c9d7f-x2kzq 1.08 s after it had stopped": "node2 still routed to web-5c9d7f-x2kzq 1.08 s after it had stopped",
		"109 timeout_connect, 43 refused (53 %)":                             "109 timeout_connect, 43 refused (53 %)",
		"svc shop/web · downtime 41 ms ±4; exit 3":                           "svc shop/web · downtime 41 ms ±4; exit 3",
		"ask @octocat about #1":                                              "ask `@octocat` about `#1`",
		"at http://web/ now":                                                 "at `http://web/` now",
		"downtime < 11 ms in <b>":                                            "downtime < 11 ms in `<b>`",
		"a `tick` and _x_":                                                   "a `` `tick` `` and `_x_`",
	} {
		if got := prose(in); got != want {
			t.Errorf("prose(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMarkdownLeavesOutWhatGoesBeyondItsLimitAndSaysSo(t *testing.T) {
	m := markdown{whole: "timeline.json"}
	for range 3 * maxMarkdown / 1000 {
		m.line(strings.Repeat("x", 1000))
	}
	if m.Len() > 60_000 || strings.Count(m.String(), "The rest does not fit") != 1 || !strings.HasSuffix(m.String(), "timeline.json._\n") {
		t.Errorf("%d bytes, ending in %q", m.Len(), m.String()[m.Len()-100:])
	}
}
