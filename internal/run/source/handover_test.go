package source

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/run/facts"
	"lapse/timeline"
)

// sent returns a batch of requests that a source has sent.
func sent(of timeline.SourceID, n int, class timeline.Class) timeline.Batch {
	requests := make([]timeline.Request, n)
	for i := range requests {
		requests[i].Class = class
	}
	return timeline.Batch{Source: of, Requests: requests}
}

func TestSuccessesWaitForASecondAndAllElseDoesNot(t *testing.T) {
	for _, test := range []struct {
		name  string
		each  []timeline.Fact // put each 200 ms, for 9.8 s
		first timeline.Fact   // put once, after 5.1 s
		want  int             // deliveries that hold something
		by    time.Duration   // when the first fact was handed over
	}{
		{"15 requests per second", []timeline.Fact{sent(1, 3, timeline.OK)}, nil, 10, 0},
		{"50 sources with 5 requests per second", fifty(1), nil, 10, 0},
		{"100 requests per second", []timeline.Fact{sent(1, 20, timeline.OK)}, nil, 40, 0},
		{"50 sources, one with 50 requests per second", append(fifty(1), sent(7, 9, timeline.OK)), nil, 40, 0},
		{"a failed request", []timeline.Fact{sent(1, 1, timeline.OK)}, sent(1, 1, timeline.Refused), 11, 5250 * time.Millisecond},
		{"a change of rate", []timeline.Fact{sent(1, 1, timeline.OK)}, RateIs("web", 1, 100, 0), 11, 5250 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over, queue := make(chan struct{}), facts.NewQueue()
				began := time.Now()
				go func() {
					for range 49 {
						time.Sleep(200 * time.Millisecond)
						for _, fact := range test.each {
							queue.Put(fact)
						}
					}
					close(over)
				}()
				if test.first != nil {
					time.AfterFunc(5100*time.Millisecond, func() { queue.Put(test.first) })
				}
				deliveries, handed, by, last := 0, 0, time.Duration(0), time.Duration(0)
				err := HandOver(over, queue, Seldom, func(measured []timeline.Fact, _ bool) error {
					if len(measured) > 0 {
						deliveries++
					}
					if now := time.Since(began); now-last > seldom {
						t.Errorf("nothing from %s to %s", last, now)
					}
					last = time.Since(began)
					for _, fact := range measured {
						batch, ok := fact.(timeline.Batch)
						if !ok || notOK(batch.Requests[0]) {
							by = time.Since(began)
						}
						handed++
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if deliveries != test.want || by != test.by {
					t.Errorf("%d deliveries, the fact that does not wait came after %s; want %d, %s", deliveries, by, test.want, test.by)
				}
				want := 49 * len(test.each)
				if test.first != nil {
					want++
				}
				if handed != want {
					t.Errorf("%d facts of %d", handed, want)
				}
			})
		})
	}
}

func fifty(requests int) (all []timeline.Fact) {
	for i := range 50 {
		all = append(all, sent(timeline.SourceID(i+1), requests, timeline.OK))
	}
	return all
}

func TestErrorOfWhoTakesTheFactsEndsTheHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		err := HandOver(nil, facts.NewQueue(), Always, func([]timeline.Fact, bool) error { return full })
		if !errors.Is(err, full) {
			t.Errorf("error is %v", err)
		}
	})
}

// What a source tells several times until a delivery is one batch of it, after what it refers to, with each request
// once. A batch that is missing is not hidden.
func TestBatchesOfADeliveryAreOneOfEachSource(t *testing.T) {
	batch := func(of timeline.SourceID, first uint64, n int, marks ...timeline.Watermark) timeline.Batch {
		b := timeline.Batch{Source: of, FirstSeq: first, Watermarks: marks}
		for i := range n {
			b.Requests = append(b.Requests, timeline.Request{Target: 1, Seq: first + uint64(i)})
		}
		return b
	}
	peer, sync := timeline.Peer{Source: 1, ID: 7}, timeline.Sync{Source: 2}
	mark := func(target timeline.TargetID, due time.Duration) timeline.Watermark {
		return timeline.Watermark{Target: target, Due: due}
	}
	got := Merged([]timeline.Fact{
		batch(1, 0, 1, mark(1, 10), mark(2, 10)), batch(2, 5, 0, mark(3, 10)), peer, batch(1, 1, 2, mark(1, 20), mark(2, 20)),
		sync, batch(2, 5, 1, mark(3, 20)), batch(1, 3, 0, mark(1, 30)), batch(2, 7, 1, mark(3, 30)),
	})
	want := []timeline.Fact{
		peer, sync, batch(2, 5, 1, mark(3, 20)), batch(1, 0, 3, mark(1, 30), mark(2, 20)), batch(2, 7, 1, mark(3, 30)),
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("merged: %+v\nwant:   %+v", got, want)
	}
	if got := Merged(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// How far a source has got that sends nothing waits for some seconds. Requests do not, nor does what is last.
func TestBatchesWithoutRequestsWaitForSomeSeconds(t *testing.T) {
	goesOn := true
	var thinner Thinner
	mark := func(due time.Duration) timeline.Batch {
		return timeline.Batch{Source: 1, FirstSeq: 7, Watermarks: []timeline.Watermark{{Target: 1, Due: due}}}
	}
	with := mark(9 * time.Second)
	with.Requests = []timeline.Request{{Target: 1, Seq: 7}}
	changed := RateIs("web", 1, 2, 0)
	for _, test := range []struct {
		at            time.Duration
		last          bool
		measured, say []timeline.Fact
	}{
		{4, false, []timeline.Fact{mark(4)}, []timeline.Fact{mark(4)}},
		{5, false, []timeline.Fact{mark(5)}, nil},
		{6, false, []timeline.Fact{changed, mark(6)}, []timeline.Fact{changed}},
		{7, false, nil, nil},
		{8, false, nil, []timeline.Fact{mark(6)}},
		{9, false, []timeline.Fact{mark(8)}, nil},
		{10, false, []timeline.Fact{with}, []timeline.Fact{with}},
		{11, false, []timeline.Fact{mark(10)}, nil},
		{12, true, nil, []timeline.Fact{mark(10)}},
	} {
		goesOn = !test.last
		got := thinner.Thin(test.measured, test.at*time.Second, func(timeline.SourceID) bool { return goesOn })
		if fmt.Sprint(got) != fmt.Sprint(test.say) {
			t.Errorf("after %d s: %v, want %v", test.at, got, test.say)
		}
	}
}
