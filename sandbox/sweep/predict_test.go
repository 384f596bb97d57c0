package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

const ms = time.Millisecond

func lost(length time.Duration, number, failed int, curve *drill.KeepServing) drain {
	d := drain{Conditions: drill.Conditions{Mode: "iptables"}, ServesOn: length, Number: number, Load: "0.50"}
	d.timeline.Verdict.Failed, d.timeline.KeepServing = failed, curve
	return d
}

func TestWhatACurveLeaves(t *testing.T) {
	curve := &drill.KeepServing{Failed: 40, Others: 2,
		Left: []drill.ServedLonger{{Longer: 500 * ms, Min: 20, Max: 23}, {Longer: time.Second}}}
	cut := &drill.KeepServing{Failed: 40, Left: []drill.ServedLonger{{Longer: 500 * ms, Min: 20, Max: 23}}}
	for _, test := range []struct {
		curve  *drill.KeepServing
		longer time.Duration
		want   count
	}{
		{curve, 500 * ms, count{20, 25}},              // the others may be left, whatever the Pod does
		{curve, time.Second, count{0, 2}},             // it says that none is left
		{curve, 3 * time.Second, count{0, 2}},         // beyond its end
		{cut, time.Second, count{0, 42}},              // it ends before none is left: nothing is known
		{nil, 500 * ms, count{0, 42}},                 // no curve
		{&drill.KeepServing{}, ms, count{0, 42}},      // an empty one
		{curve, 200 * time.Millisecond, count{0, 42}}, // a length that it has not
	} {
		if got := lost(0, 1, 42, test.curve).left(test.longer); got != test.want {
			t.Errorf("%v longer leaves %v, want %v", test.longer, got, test.want)
		}
	}
}

func TestChanceIsCounted(t *testing.T) {
	for _, test := range []struct {
		a, b []int
		want float64
	}{
		{[]int{5, 6}, []int{1, 2}, 1. / 6},                  // the only one of six splits
		{[]int{5, 1}, []int{6, 2}, 5. / 6},                  // all but 1+2
		{[]int{1, 2}, []int{5, 6}, 1},                       // every split
		{[]int{3, 3, 3}, []int{3, 3, 3}, 1},                 // nothing differs
		{[]int{9, 8, 7, 9, 8, 7}, make([]int, 6), 1. / 924}, // six of twelve
	} {
		if got := chance(test.a, test.b); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("chance(%v, %v) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
	if got := lowestChance(6, 6); math.Abs(got-1./924) > 1e-12 {
		t.Errorf("6 of 12: %v", got)
	}
}

func counts(min, max, n int) (all []count) {
	for range n {
		all = append(all, count{min, max})
	}
	return all
}

func TestOutcomeOfAPrediction(t *testing.T) {
	for _, test := range []struct {
		name string
		said []count
		was  []int
		want string
	}{
		{"the sum is allowed, each drain is not", counts(10, 12, 6), []int{0, 5, 10, 12, 18, 20}, inside},
		{"one drain was unlike the others", counts(10, 12, 6), []int{11, 11, 11, 11, 11, 40}, scattered},
		{"each drain is above", counts(10, 12, 6), []int{13, 14, 15, 13, 14, 15}, contradict},
		{"each drain is below", counts(10, 12, 6), []int{9, 8, 7, 9, 8, 7}, contradict},
		{"each drain is above, and there are few", counts(10, 12, 3), []int{90, 90, 90}, tooFew},
		{"none was said, and one failed", counts(0, 0, 6), []int{0, 0, 0, 0, 0, 1}, scattered},
	} {
		if got := (prediction{said: test.said, was: test.was}).outcome(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Drains whose curves are true: serving 500 ms longer leaves 60 of 100, 1 s 20, 1.5 s and longer none.
func sample(n int, lostAt1s int) (drains []drain) {
	left := map[time.Duration]int{0: 100, 500 * ms: 60, time.Second: lostAt1s}
	for i := range n {
		for _, length := range servesOn {
			var curve *drill.KeepServing
			switch length {
			case 0:
				curve = &drill.KeepServing{Failed: 100,
					Left: []drill.ServedLonger{{Longer: 500 * ms, Min: 58, Max: 61},
						{Longer: time.Second, Min: 19, Max: 22}, {Longer: 1500 * ms}}}
			case 500 * ms:
				curve = &drill.KeepServing{Failed: 60,
					Left: []drill.ServedLonger{{Longer: 500 * ms, Min: 19, Max: 22}, {Longer: time.Second}}}
			case time.Second:
				curve = &drill.KeepServing{Failed: lostAt1s, Left: []drill.ServedLonger{{Longer: 500 * ms}}}
			}
			drains = append(drains, lost(length, i+1, left[length], curve))
		}
	}
	return drains
}

func TestJudgement(t *testing.T) {
	if err := judgement(sample(6, 20)); err != nil {
		t.Error(err)
	}
	err := judgement(sample(6, 50))
	if err == nil || !strings.Contains(err.Error(),
		"serving 1s instead of 0s was to leave 114 to 132, and 300 failed") ||
		!strings.Contains(err.Error(), "serving 1s instead of 500ms") || strings.Contains(err.Error(), "serving 2s") {
		t.Errorf("50 failed in each where 20 were to: %v", err)
	}
	if err := judgement(sample(2, 50)); err == nil || !strings.Contains(err.Error(), tooFew) {
		t.Errorf("two drains: %v", err)
	}
	none := sample(6, 0)
	for i := range none {
		none[i].timeline = drill.Timeline{}
	}
	if err := judgement(none); err == nil || !strings.Contains(err.Error(), "nothing was tested") {
		t.Errorf("nothing failed: %v", err)
	}
	none[0].timeline.Verdict.Failed = 3
	if err := judgement(none); err == nil || !strings.Contains(err.Error(),
		"1 drains lost requests and have no curve") {
		t.Errorf("no curve: %v", err)
	}
}

func TestDocumentCountsWhatDoesNotHold(t *testing.T) {
	doc := document(sample(6, 50))
	for _, line := range []string{
		"| 0 s | 1 | 0.50 | 0.00 | 100 | 58 to 61 | 19 to 22 | 0 | 0 | 0 |",
		"| 3 s | 6 | 0.50 | 0.00 | 0 | – | – | – | – | – |",
		"| 0 s | 1 s | 19 to 22, 19 to 22, 19 to 22, 19 to 22, 19 to 22, 19 to 22 | 114 to 132 | 50, 50, 50, 50, 50, " +
			"50 | 300 | **does not hold** | 0.0011 |",
		"Of 14 predictions 12 are inside the bars, 0 outside them but within the scatter, 2 do not hold. In 3 of " +
			"them a request was said to fail, or did.",
	} {
		if !strings.Contains(doc, line+"\n") {
			t.Errorf("no %q in\n%s", line, doc)
		}
	}
}
