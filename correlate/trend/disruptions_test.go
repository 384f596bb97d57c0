package trend

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// Of runs of one Service at the same time one counts, the one that lost most. A notation such as "A0 0-100" is guard A,
// failed requests, and from when to when in seconds. 0+9-20: the first sign came 9 s after the beginning.
func TestADisruptionCountsOnce(t *testing.T) {
	for name, tt := range map[string]struct{ runs, counted string }{
		"one guard":                            {"A0 0-100, A3 100-200", "A0 A3"},
		"one guard, whose clock was set":       {"A0 0-100, A3 99-200", "A0 A3"},
		"two guards":                           {"A0 0-100, B0 5-101", "B0"},
		"the one that lost most counts":        {"A3 0-100, B2 5-101", "A3"},
		"whichever was first":                  {"A2 0-100, B3 5-101", "B3"},
		"a gate that failed counts":            {"A0g 0-100, B0 5-101", "A0g"},
		"one that was killed does not count":   {"A0! 0-20, B0 5-101", "B0"},
		"unless it saw what the other did not": {"A1! 0-20, B0 5-101", "A1"},
		"of two disruptions one each":          {"A0 0-100, B1 5-101, A2 200-300, B0 201-305", "B1 A2"},
		"what one guard took for one run":      {"A0 0-100, A2 100-200, B3 5-205", "B3"},
		"a guard that began in the middle":     {"A4 0-100, B1 60-400, A2 110-400", "A4 A2"},
		"before the sign was another run":      {"A0 0-100, B3 10+98-115, A5 100+1-140", "A0 A5"},
		"runs that never settled":              {"A1 0-1800, B1 10-1810, A1 1800-3600, B1 1810-3610", "B1 A1"},
	} {
		var lines []history.Line
		for i, text := range strings.Split(tt.runs, ", ") {
			who, span, _ := strings.Cut(text, " ")
			from, to, _ := strings.Cut(span, "-")
			from, before, _ := strings.Cut(from, "+")
			l := run(i, int(who[1]-'0'), func(l *history.Line) {
				l.Run, l.UID, l.T0 = who+"#"+span, "uid-of-web", began.Add(seconds(t, from))
				l.Duration, l.Baseline = seconds(t, to)-seconds(t, from), seconds(t, cmp.Or(before, "0"))
			})
			if strings.HasSuffix(who, "!") {
				aborted(&l)
			}
			if strings.HasSuffix(who, "g") {
				l.Verdict = model.Fail
			}
			lines = append(lines, l)
		}
		lines[0].Sent-- // of two that lost nothing the one that sent more counts
		var counted []string
		for _, l := range disruptions(latest(lines)) {
			counted = append(counted, strings.TrimRight(strings.Split(l.Run, "#")[0], "!"))
		}
		if got := strings.Join(counted, " "); got != tt.counted {
			t.Errorf("%s: of %s count %s, want %s", name, tt.runs, got, tt.counted)
		}
		if all := Of(lines); all.Runs != len(counted) || all.Again != len(lines)-len(counted) {
			t.Errorf("%s: %d runs and %d again", name, all.Runs, all.Again)
		}
	}
}

// Services of two clusters have one name and are rolled out at the same time.
func TestADisruptionOfAnotherClusterCounts(t *testing.T) {
	at := func(uid string) history.Line {
		return run(0, 1, func(l *history.Line) { l.Run, l.UID, l.Duration = uid, uid, time.Minute })
	}
	for _, lines := range [][]history.Line{{at("a"), at("b")}, {at(""), at("b")}} {
		if got := Of(lines); got.Runs != 2 || got.Again != 0 {
			t.Errorf("%d runs, %d again", got.Runs, got.Again)
		}
	}
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	length, err := time.ParseDuration(text + "s")
	if err != nil {
		t.Fatal(err)
	}
	return length
}
