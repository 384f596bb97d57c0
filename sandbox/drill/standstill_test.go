package drill

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// stall is a prober's stop.
func stall(source string, from, to time.Duration) Event {
	return Event{Kind: proberStall, Source: source, At: Instant{from, to}}
}

func TestOnlyWhatWaitedInAStandstillIsExcused(t *testing.T) {
	tl := Timeline{
		Targets: []Target{{Name: "new", Kind: "new", Failed: 6}, {Name: "control", Kind: "control", Failed: 1}},
		Events:  []Event{stall("", 10_000*ms, 11_300*ms), stall("", 20_000*ms, 20_030*ms)},
		Failures: []Failure{
			{"new", 9_900 * ms, 11_400 * ms, "timeout_response"},  // it waited in the standstill
			{"new", 12_200 * ms, 13_000 * ms, "timeout_connect"},  // and this one for what came after
			{"new", 11_400 * ms, 11_401 * ms, "refused"},          // nobody listened
			{"new", 12_400 * ms, 13_200 * ms, "timeout_response"}, // too late
			{"new", 20_000 * ms, 20_800 * ms, "timeout_response"}, // 30 ms
			{"new", 5_000 * ms, 5_800 * ms, "timeout_response"},
			{"control", 9_900 * ms, 11_400 * ms, "timeout_response"},
		},
	}
	if lost := tl.Lost(); lost != 4 {
		t.Errorf("%d were lost, want 4", lost)
	}
	for want, w := range map[bool]Window{
		true: {Target: "new", Failed: 1, Start: Instant{9_800 * ms, 10_000 * ms},
			End: Instant{11_300 * ms, 11_390 * ms}},
		false: {Target: "new", Failed: 2, Start: Instant{9_800 * ms, 10_000 * ms},
			End: Instant{11_300 * ms, 11_500 * ms}},
	} {
		if got := tl.Excused(w); got != want {
			t.Errorf("%+v: excused %v, want %v", w, got, want)
		}
	}
	if tl.Excused(Window{Target: "new", Kind: "slow", Start: Instant{15_000 * ms, 15_000 * ms},
		End: Instant{16_000 * ms, 16_000 * ms}}) {
		t.Error("answers were slow while the machine ran")
	}
	tl.Targets[0].Failed = 9 // and 3 that are not listed
	if lost := tl.LostBy(tl.Targets[0]); lost != 7 {
		t.Errorf("%d were lost, want 7: what is not listed counts", lost)
	}
}

// One prober that was stopped says nothing of the machine.
func TestAStandstillIsOfSeveralProbers(t *testing.T) {
	tl := Timeline{
		Targets: []Target{{Name: "new from node1", Source: "1"}, {Name: "new from node2", Source: "2"}},
		Events: []Event{
			stall("2", 1500*ms, 1530*ms), stall("1", 1000*ms, 3000*ms),
			stall("2", 2950*ms, 3100*ms), // 1 was stopped for 2 s
			stall("1", 5000*ms, 6000*ms), stall("2", 5100*ms, 6200*ms),
		},
	}
	if stops := tl.Standstills(); len(stops) != 1 || stops[0] != (Instant{5100 * ms, 6000 * ms}) {
		t.Errorf("%v", stops)
	}
	if left := tl.WithoutStandstills(900*ms, 6100*ms); left != 4300*ms {
		t.Errorf("%v, want 5.2 s without 0.9", left)
	}
	if left := tl.WithoutStandstills(5500*ms, 5600*ms); left != 0 {
		t.Errorf("%v of a standstill", left)
	}
}
