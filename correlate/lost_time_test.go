package correlate

import (
	"math/rand/v2"
	"testing"
	"time"

	"lapse/correlate/model"
)

func exactly(d time.Duration) model.Instant { return model.Instant{Earliest: d, Latest: d} }

func TestLostTimeIsSplitByWhatTheNodeWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		stopped, asked, api, routed   time.Duration
		early, controller, proxy, sum time.Duration
		mostly                        model.LostPart
	}{
		"it exits at SIGTERM, the proxy is slow": {120 * ms, 100 * ms, 110 * ms, 900 * ms, 0, 0, 780 * ms,
			780 * ms, model.LostProxy},
		"it exits before the controller has written": {105 * ms, 100 * ms, 600 * ms, 620 * ms, 0, 495 * ms, 20 * ms,
			515 * ms, model.LostController},
		"it stops by itself, and is deleted after it": {0, 800 * ms, 810 * ms, 830 * ms, 800 * ms, 10 * ms, 20 * ms,
			830 * ms, model.LostAppEarly},
		"it serves for long enough": {2000 * ms, 100 * ms, 110 * ms, 900 * ms, 0, 0, 0, 0, ""},
	} {
		got := lostTime(exactly(c.stopped), exactly(c.asked), exactly(c.api), exactly(c.routed))
		of := func(d time.Duration) model.Length { return model.Length{Min: d, Max: d} }
		want := model.LostTime{Length: of(c.sum), AppEarly: of(c.early), Controller: of(c.controller),
			Proxy: of(c.proxy), Mostly: c.mostly}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Whatever the truth within the bars, no part is outside its own, the parts sum to the whole, and the longest is
// never another.
func TestLostTimeHoldsTheTruth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	named := 0
	for range 20000 {
		asked := time.Second + upTo(time.Second)
		api := asked + upTo(time.Second)
		routed := api + upTo(time.Second)
		stopped := 500*ms + upTo(3*time.Second)
		bar := func(d time.Duration) model.Instant {
			return model.Instant{Earliest: d - upTo(200*ms), Latest: d + upTo(200*ms)}
		}
		got := lostTime(bar(stopped), bar(asked), bar(api), bar(routed))
		length := func(from, to time.Duration) time.Duration { return max(0, to-from) }
		early := length(stopped, min(asked, routed))
		controller := length(max(stopped, asked), min(api, routed))
		proxy := length(max(stopped, api), routed)
		if early+controller+proxy != length(stopped, routed) {
			t.Fatalf("the parts %v, %v and %v do not sum to %v", early, controller, proxy, length(stopped, routed))
		}
		for _, part := range []struct {
			was time.Duration
			is  model.Length
		}{{early, got.AppEarly}, {controller, got.Controller}, {proxy, got.Proxy},
			{length(stopped, routed), got.Length}} {
			if part.was < part.is.Min || part.was > part.is.Max {
				t.Fatalf("%v is not in %+v: %+v", part.was, part.is, got)
			}
		}
		if got.Mostly == "" {
			continue
		}
		named++
		if is := map[model.LostPart]time.Duration{model.LostAppEarly: early, model.LostController: controller,
			model.LostProxy: proxy}[got.Mostly]; is < max(early, controller, proxy) {
			t.Fatalf("most is said to be %s: %v of %v, %v and %v", got.Mostly, is, early, controller, proxy)
		}
	}
	if named < 1000 {
		t.Errorf("the longest part was named %d times, want 1000 or more", named)
	}
}

// A Pod that nobody deleted stopped by itself: neither a controller nor a proxy was late before its endpoint left.
func TestPodThatNobodyDeletedStoppedEarly(t *testing.T) {
	pods := []model.Pod{{UID: "a", Stopped: new(exactly(time.Second))}}
	routes := []model.Route{
		{Change: model.Removal, PodUID: "a", API: exactly(3 * time.Second), Changed: exactly(3100 * ms)},
		{Change: model.Removal, PodUID: "b", API: exactly(3 * time.Second), Changed: exactly(3100 * ms)},
		{Change: model.Addition, PodUID: "a", API: exactly(3 * time.Second), Changed: exactly(3100 * ms)},
	}
	addLost(pods, routes)
	if l := routes[0].Lost; l == nil || l.AppEarly.Min != 2*time.Second || l.Controller.Max != 0 ||
		l.Proxy.Min != 100*ms || l.Mostly != model.LostAppEarly {
		t.Errorf("%+v", l)
	}
	if routes[1].Lost != nil || routes[2].Lost != nil {
		t.Error("of a Pod whose stop is not known, and of an addition, there is nothing to say")
	}
}

// Where the node was not seen to follow, its proxy may have taken longer than anything else.
func TestLongestPartIsNotKnownWhileANodeHasNotFollowed(t *testing.T) {
	pods := []model.Pod{{UID: "a", Stopped: new(exactly(time.Second))}}
	route := model.Route{Change: model.Removal, PodUID: "a", API: exactly(3 * time.Second), Changed: exactly(3100 * ms)}
	open := route
	open.Open = true
	routes := []model.Route{route, open}
	addLost(pods, routes)
	if routes[0].Lost.Mostly != model.LostAppEarly || routes[1].Lost.Mostly != "" {
		t.Errorf("%q and %q, want %q and none", routes[0].Lost.Mostly, routes[1].Lost.Mostly, model.LostAppEarly)
	}
}
