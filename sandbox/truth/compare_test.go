package truth

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// pod stopped within the first ms of a second of its own, and lost its route within the bracket.
func pod(name string, earliest, latest int) Pod {
	return Pod{
		Name:    name,
		Stopped: Bracket{noon, noon.Add(ms(1))},
		Routed:  Bracket{noon.Add(ms(1 + earliest)), noon.Add(ms(latest))},
	}
}

func lag(name string, min, max int) drill.Measure {
	return drill.Measure{Name: routeLag, Object: "shop/" + name, Length: drill.Length{Min: ms(min), Max: ms(max)}}
}

func window(target, fix string, lags ...drill.Measure) drill.Window {
	return drill.Window{ID: 1, Target: target, Causes: []drill.Cause{{Rule: theCause, Fix: fix, Measures: lags}}}
}

func TestTruthContradicts(t *testing.T) {
	truth := []Pod{pod("a", 600, 605), pod("b", 900, 905), pod("c", 10, 12)}
	both := window("web new", "wait", lag("a", 580, 610), lag("b", 880, 906))
	for name, test := range map[string]struct {
		windows  []drill.Window
		truth    []Pod
		want     []string // a part of each
		duration time.Duration

		unobserved []drill.Unobserved
	}{
		"nothing": {windows: []drill.Window{both}, truth: truth},
		"nothing, of a bar that touches": {windows: []drill.Window{window("web new", "wait", lag("a", 605, 700),
			lag("b", 800, 900))}, truth: truth},
		"nothing, of each target its own": {windows: []drill.Window{both,
			window("web reused", "wait", lag("a", 580, 610))}, truth: truth},
		"a lag that is too long": {
			windows: []drill.Window{window("web new", "wait", lag("a", 606, 640), lag("b", 890, 910))}, truth: truth,
			want: []string{"a for 606 to 640 ms, at most 600 to 605"},
		},
		"a lag that is too short": {
			windows: []drill.Window{window("web new", "wait", lag("a", 500, 599), lag("b", 890, 910))}, truth: truth,
			want: []string{"a for 500 to 599 ms, the routes outlived it by 600 to 605"},
		},
		"a Pod named twice in a cause": {windows: []drill.Window{window("web new", "wait", lag("a", 590, 606),
			lag("a", 590, 606), lag("b", 890, 910))}, truth: truth, want: []string{"names a twice"}},
		"two lengths of one Pod": {windows: []drill.Window{both,
			window("web reused", "wait", lag("a", 590, 606))}, truth: truth,
			want: []string{"a for 590 to 606 ms, elsewhere for 580 to 610"}},
		"a Pod that did not end": {windows: []drill.Window{both, window("web new", "wait", lag("z", 590, 606))},
			truth: truth, want: []string{"names z, which did not end"}},
		"a Pod left out": {windows: []drill.Window{window("web new", "wait", lag("b", 890, 910))},
			truth: truth, want: []string{"a is not named"}},
		"all left out": {truth: truth, want: []string{"a is not named", "b is not named"}},
		"two fixes": {windows: []drill.Window{both, window("web reused", "wait longer")},
			truth: truth, want: []string{"2 different fixes"}},
		"nothing, of routes that may have ended before the Pod": {windows: []drill.Window{window("web new", "wait",
			lag("d", 0, 9))}, truth: []Pod{pod("d", -20, -15)}},
		"a Pod whose routes ended before it": {windows: []drill.Window{window("web new", "wait",
			lag("d", 3, 9))}, truth: []Pod{pod("d", -20, -15)}, want: []string{"d for 3 to 9 ms, at most -20 to -15"}},
		"nothing of other measures or causes": {windows: []drill.Window{both,
			{Target: "web new", Causes: []drill.Cause{{Rule: "unexplained", Fix: "look",
				Measures: []drill.Measure{{Name: "other", Object: "z"}}}}}}, truth: truth},
		"nothing, of a run that ended before": {truth: truth, duration: time.Second + ms(500)},
		"nothing, of a time not observed": {truth: truth[:1],
			unobserved: []drill.Unobserved{{Target: "web new", Start: ms(1100), End: ms(1600)}}},
	} {
		t.Run(name, func(t *testing.T) {
			timeline := drill.Timeline{
				T0:      noon.Add(-time.Second),
				Windows: test.windows, Unobserved: test.unobserved,
				Targets: []drill.Target{{Name: "web new", Rate: 200, Resolution: ms(20)}},
			}
			timeline.Run.Duration = cmp.Or(test.duration, time.Minute)
			got := Contradictions(timeline, test.truth, 3)
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// With 200 requests/s and one in four to each of four endpoints, 49 requests in a row go elsewhere with a chance of 1
// in a million.
func TestShortLagNeedNotShow(t *testing.T) {
	fresh := drill.Target{Rate: 200, Resolution: ms(20)}
	for lag, want := range map[int]bool{255: false, 265: true} {
		if got := mustShow(ms(lag), 3, fresh); got != want {
			t.Errorf("a lag of %d ms: must show %v, want %v", lag, got, want)
		}
	}
}

func TestServersWordIsReadFromItsLog(t *testing.T) {
	log := `2026-11-22T03:48:30.1Z stdout F web-1 listens on [::]:8080
2026-11-22T03:48:39.2Z stdout F web-1 was told to end at 2026-11-22T03:48:39.100000000Z: exit
2026-11-22T03:48:39.2Z stdout F web-1 stopped listening between 2026-11-22T03:48:39.123456789Z and 2026-11-22T03:48:39.123467891Z
`
	got, err := stoppedIn(strings.NewReader(log))
	if err != nil || got.Latest.Sub(got.Earliest) != 11102 || got.Earliest.Nanosecond() != 123456789 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := stoppedIn(strings.NewReader(log[:80])); err == nil {
		t.Error("no error for a server that never stopped")
	}
}
