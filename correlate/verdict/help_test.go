package verdict

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// What would help follows from why time was not observed: the largest reason first, and each other one that alone
// keeps the run from passing.
func TestAdviceIsThatOfTheLargestReason(t *testing.T) {
	const second = time.Second
	local := func(text string) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.RequestError, To: "local", Detail: text,
			Object: timeline.Object{Kind: "Target", Name: "web new"}}}
	}
	lost := model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "lost", Detail: "Pod lapse-x: it was ended",
		Object: timeline.Object{Kind: "Node", Name: "node2"}}}
	gone := func(reason string, from, to time.Duration) model.Unobserved {
		return model.Unobserved{Target: "web new", Start: from, End: to, Reason: reason}
	}
	const files = "raise the prober's limit of open files (ulimit -n), or lower --rate: too many open files"
	for _, tt := range []struct {
		what   string
		gaps   []model.Unobserved
		events []model.Event
		want   string
	}{
		{"stalls", []model.Unobserved{gone(model.ReasonStalled, 2*second, 5*second)}, nil, stallAdvice},
		{"stalls that a coarser resolution counts as observed",
			[]model.Unobserved{gone(model.ReasonNotSent, 2*second, 2500*time.Millisecond),
				gone(model.ReasonNotSent, 3*second, 3500*time.Millisecond)}, nil,
			stallAdvice + "; where only outages longer than 500ms matter, judge it with --resolution 500ms"},
		{"no file descriptors", []model.Unobserved{gone(model.ReasonLocal, 2*second, 5*second)},
			[]model.Event{local("socket: too many open files")}, files},
		{"no ports", []model.Unobserved{gone(model.ReasonLocal, 2*second, 5*second)},
			[]model.Event{local("connect: cannot assign requested address")},
			"free local ports where the prober runs, or lower --rate: cannot assign requested address"},
		{"no memory", []model.Unobserved{gone(model.ReasonLocal, 2*second, 5*second)},
			[]model.Event{local("connect: no buffer space available")},
			"give the prober memory, or lower --rate: no buffer space available"},
		{"a fault of the prober's own that is not known",
			[]model.Unobserved{gone(model.ReasonLocal, 2*second, 5*second)}, nil,
			"raise the prober's limit of open files, lower --rate or give the prober CPU: requests failed on its side"},
		{"a prober that is lost", []model.Unobserved{gone(model.ReasonGone, 2*second, 20*second)}, []model.Event{lost},
			"leave every prober running until the run is over: that on node2 was lost (Pod lapse-x: it was ended)"},
		{"two that are lost", []model.Unobserved{gone(model.ReasonGone, 2*second, 20*second)},
			[]model.Event{lost, lost},
			"leave every prober running until the run is over: that on node2 was lost (Pod lapse-x: it was ended), " +
				"and 1 more"},
		{"a damaged record", []model.Unobserved{gone(model.ReasonLost, 2*second, 2500*time.Millisecond)}, nil,
			"judge a whole copy of the recording, or measure again: a part of it is damaged or missing"},
		{"a clock that jumped", []model.Unobserved{gone(model.ReasonJumped, 2*second, 9*second)}, nil,
			"measure again while nothing sets the prober's clock or suspends its machine"},
		{"an end that came early", []model.Unobserved{gone(model.ReasonEnded, 12*second, 20*second)}, nil,
			"measure again to the end: nothing came from web new after 12 s"},
		{"a short stall beside it", []model.Unobserved{gone(model.ReasonStalled, second, 1100*time.Millisecond),
			gone(model.ReasonLost, 2*second, 5*second)}, nil,
			"judge a whole copy of the recording, or measure again: a part of it is damaged or missing"},
		{"two reasons, each enough", []model.Unobserved{gone(model.ReasonStalled, second, 2*second),
			gone(model.ReasonLocal, 5*second, 9*second)}, []model.Event{local("socket: too many open files")},
			files + "; " + stallAdvice},
	} {
		tl := &model.Timeline{Events: tt.events, Unobserved: tt.gaps, Targets: []model.Target{{
			Target: timeline.Target{
				Name: "web new", Kind: timeline.New,
			}, Sent: 1000, OK: 1000, Coverage: 0.9,
			Measured: model.Instant{Latest: 20 * second},
		}}}
		Judge(tl, nil)
		j := judgement{tl: tl, v: &tl.Verdict}
		if got := j.help(); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
		}
	}
}

// The nodes that observed too little get the advice of what they missed, and not that of the others.
func TestAdviceForNodesIsThatOfWhatTheyMissed(t *testing.T) {
	tl := fleetOf()
	tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "lost",
		Detail: "Pod lapse-x: it was ended", Object: timeline.Object{Kind: "Node", Name: "node2"}}})
	for _, target := range []string{"web new from node2", "web reused from node2"} {
		tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: target, Start: 10 * time.Second,
			End: 23 * time.Second, Reason: model.ReasonGone})
	}
	tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: "web new from node1", Start: 10 * time.Second,
		End: 10100 * time.Millisecond, Reason: model.ReasonStalled})
	const want = "leave every prober running until the run is over: that on node2 was lost (Pod lapse-x: it was " +
		"ended); a lower --min-node-coverage accepts it"
	Judge(tl, nil)
	j := judgement{tl: tl, v: &tl.Verdict}
	if got := j.help(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// A higher rate does not help a prober that reads answers late.
func TestAdviceForAnswersReadLate(t *testing.T) {
	gate, err := ParseGate("latency.p99>20ms")
	if err != nil {
		t.Fatal(err)
	}
	for bounds, want := range map[time.Duration]string{
		60 * time.Millisecond: stallAdvice + ": it read answers late, and how long these took is not known", 10 * time.Millisecond: "",
	} {
		tl := &model.Timeline{Targets: []model.Target{{
			Target: timeline.Target{Name: "web new", Kind: timeline.New}, Sent: 1000, OK: 1000, Delayed: 30, Coverage: 1,
			Measured: model.Instant{Latest: 20 * time.Second},
			Latency:  &model.Latency{P99: 5 * time.Millisecond, P99Bounds: &model.Length{Min: 5 * time.Millisecond, Max: bounds}},
		}}}
		Judge(tl, []Gate{gate})
		j := judgement{tl: tl, v: &tl.Verdict}
		if got := j.help(); got != want {
			t.Errorf("%v: got %q, want %q", bounds, got, want)
		}
	}
}

// Requests that the prober had no file descriptor for are counted apart from those that a stall kept back.
func TestShortageOfTheProberIsNoStall(t *testing.T) {
	tl := &model.Timeline{Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New}, Sent: 100, NotSent: 30,
		Classes: map[string]int{"ok": 100, "local": 20, "notsent": 10}}}}
	if v := validity(tl); v.Local != 0 || v.NotSent != 30 {
		t.Errorf("%+v: no error says that anything was short", v)
	}
	tl.Events = []model.Event{{Event: timeline.Event{Kind: timeline.RequestError, To: "local", Detail: "socket: too many open files",
		Object: timeline.Object{Kind: "Target", Name: "web new"}}}}
	if v := validity(tl); v.Local != 20 || v.NotSent != 30 || v.Shortage != "too many open files" {
		t.Errorf("%+v", v)
	}
}
