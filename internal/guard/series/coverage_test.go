package series

import (
	"testing"
	"time"

	"lapse/timeline"
)

const ms = time.Millisecond

// asked returns requests that were sent at a steady interval, and took a millisecond each: it is observed in any case.
func asked(from, to, interval time.Duration) (all []timeline.Request) {
	for at := from; at < to; at += interval {
		all = append(all, timeline.Request{Target: 1, Due: at, Sent: at, Done: at + ms})
	}
	return all
}

func until(requests []timeline.Request, due time.Duration) timeline.Batch {
	return timeline.Batch{Requests: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: due}}}
}

func TestWhatNoRequestShowsIsNotObserved(t *testing.T) {
	failed := asked(0, 10*time.Second, 200*ms)
	unsent := asked(0, 10*time.Second, 200*ms)
	slow := asked(0, 200*ms, 200*ms)
	slow[0].Done = 3 * time.Second
	for i := range failed {
		failed[i].Class = timeline.Refused
		if i > 0 && i < 49 {
			unsent[i].Class = timeline.NotSent
		}
	}
	raised := timeline.Event{Kind: timeline.RateChanged, Object: timeline.Object{Name: "web new"}, From: "5", To: "100", Seen: 5 * time.Second}
	for _, test := range []struct {
		name       string
		resolution time.Duration
		facts      []timeline.Fact
		want       time.Duration
	}{
		{"at the rate asked for", 0, []timeline.Fact{until(asked(0, 10*time.Second, 200*ms), 10*time.Second)}, 9800 * ms},
		{"that failed", 0, []timeline.Fact{until(failed, 10*time.Second)}, 9800 * ms},
		{"that may not be all", 0, []timeline.Fact{until(asked(0, 10*time.Second, 200*ms), 5*time.Second)}, 4800 * ms},
		{"handed over in another order", 0, []timeline.Fact{
			until(asked(4*time.Second, 8*time.Second, 200*ms), 0), until(asked(0, 4*time.Second, 200*ms), 8*time.Second),
		}, 7800 * ms},
		{"after a pause", 0, []timeline.Fact{until(append(asked(0, 2*time.Second, 200*ms), asked(8*time.Second, 10*time.Second, 200*ms)...), 10*time.Second)}, 3601 * ms},
		{"that were not sent", 0, []timeline.Fact{until(unsent, 10*time.Second)}, 1 * ms},
		{"in flight in a pause", 0, []timeline.Fact{until(append(slow, asked(8*time.Second, 10*time.Second, 200*ms)...), 10*time.Second)}, 3*time.Second + 1800*ms},
		{"with a resolution of its own", 300 * ms, []timeline.Fact{until(asked(0, 10*time.Second, 700*ms), 10*time.Second)}, 14 * ms},
		{"within 3 intervals of it", 300 * ms, []timeline.Fact{until(asked(0, 10*time.Second, 500*ms), 10*time.Second)}, 9500 * ms},
		{"at a rate that rises", 0, []timeline.Fact{raised, until(append(asked(0, 5*time.Second, 200*ms), asked(5100*ms, 10*time.Second, 10*ms)...), 10*time.Second)}, 9990 * ms},
		{"at a rate that rose and was not kept", 0, []timeline.Fact{raised, until(asked(0, 10*time.Second, 200*ms), 10*time.Second)}, 5422 * ms},
	} {
		c := coverage{resolution: test.resolution, targets: map[timeline.TargetID]*covered{}}
		c.add(timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, Rate: 5})
		c.add(timeline.Target{ID: 2, Name: "web direct web-1", Kind: timeline.Direct, Rate: 5})
		for _, f := range test.facts {
			c.add(f)
		}
		if got := c.observed(); got != test.want {
			t.Errorf("requests %s: %v observed, want %v", test.name, got, test.want)
		}
	}
}
