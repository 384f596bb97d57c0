package verdict

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Each Service is judged by its own targets alone, and the one that lost most comes first. One that is only watched
// has no verdict, one whose connections were only held has one.
func TestEachServiceHasAVerdictOfItsOwn(t *testing.T) {
	const ms = time.Millisecond
	target := func(service, name string, failed int) model.Target {
		return model.Target{Target: timeline.Target{Name: name, Kind: timeline.New, Service: service}, Sent: 100, OK: 100 - failed,
			Failed: failed, Coverage: 1, Resolution: ms}
	}
	window := func(id int, target string, failed int, lost time.Duration, rule string) model.Window {
		length := model.Length{Min: lost, Max: lost + ms}
		return model.Window{ID: id, Target: target, Kind: model.Outage, Failed: failed, Sent: failed, Length: length,
			Downtime: length,
			Causes: []model.Cause{{Rule: rule, Confidence: model.High, Text: rule + " in window " + target,
				Fix: "mend it"}}}
	}
	tl := &model.Timeline{
		Services: []model.WatchedService{{Name: "shop/well"}, {Name: "shop/watched"}, {Name: "shop/bad"},
			{Name: "shop/streams"}, {Name: "shop/worst"}, {Name: ""}},
		Targets: []model.Target{
			target("shop/well", "well new", 0), target("shop/bad", "bad new", 2), target("shop/worst", "worst new", 9),
			target("shop/worst", "worst reused", 30), target("", "https://shop.example/ new", 7),
			{Target: timeline.Target{Name: "watched direct", Kind: timeline.Direct, Service: "shop/watched"}, Sent: 5, Failed: 5},
			{Target: timeline.Target{Name: "streams held", Kind: timeline.Held, Service: "shop/streams"}, Coverage: 1},
		},
		Held: []model.Held{{Target: "streams held", Connections: 4, Stood: 4, Cut: 3,
			Windows: []model.CutWindow{{Window: model.Window{ID: 5, Target: "streams held", Kind: model.CutKind, Failed: 3}}}}},
		Windows: []model.Window{
			window(1, "bad new", 2, 20*ms, "idle-race"), window(2, "worst new", 9, 90*ms, "idle-race"),
			window(3, "worst reused", 10, 10*ms, "route-outlives-pod"),
			window(4, "worst reused", 20, 30*ms, "route-outlives-pod"),
			window(6, "https://shop.example/ new", 7, 50*ms, "idle-race"),
		},
		Incidents: []model.Incident{{ID: 1, Windows: []int{1, 2}}, {ID: 2, Windows: []int{3, 4}}, {ID: 3, Windows: []int{5}}},
	}
	Judge(tl, nil)
	var order []string
	verdicts := map[string]*model.ServiceVerdict{}
	for _, s := range tl.Services {
		order = append(order, s.Name)
		verdicts[s.Name] = s.Verdict
	}
	if diff := cmp.Diff([]string{"shop/worst", "shop/bad", "shop/streams", "shop/well", "shop/watched", ""}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := map[string]*model.ServiceVerdict{
		"shop/worst": {Sent: 200, Failed: 39, Coverage: 1, Incidents: 2,
			Downtime: model.Downtime{Total: model.Length{Min: 90 * ms, Max: 91 * ms}},
			Cause: &model.ServiceCause{Rule: "route-outlives-pod", Confidence: model.High,
				Text: "route-outlives-pod in window worst reused", Fix: "mend it", Failed: 30}},
		"shop/bad": {Sent: 100, Failed: 2, Coverage: 1, Incidents: 1,
			Downtime: model.Downtime{Total: model.Length{Min: 20 * ms, Max: 21 * ms}},
			Cause: &model.ServiceCause{Rule: "idle-race", Confidence: model.High, Text: "idle-race in window bad new",
				Fix: "mend it", Failed: 2}},
		// as short as may have gone unseen
		"shop/well":    {Sent: 100, Coverage: 1, Downtime: model.Downtime{Total: model.Length{Max: ms}}},
		"shop/streams": {Coverage: 1, Held: 4, Cut: 3, Incidents: 1},
		"shop/watched": nil,
		"":             nil, // the recording does not say what it is called: it is no URL
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	urls := &model.ServiceVerdict{Sent: 100, Failed: 7, Coverage: 1,
		Downtime: model.Downtime{Total: model.Length{Min: 50 * ms, Max: 51 * ms}},
		Cause: &model.ServiceCause{Rule: "idle-race", Confidence: model.High,
			Text: "idle-race in window https://shop.example/ new", Fix: "mend it", Failed: 7}}
	if diff := cmp.Diff(urls, Of(tl, "")); diff != "" {
		t.Errorf("of the URLs (-want +got):\n%s", diff)
	}
	if got := Of(tl, "shop/bad"); !cmp.Equal(got, want["shop/bad"]) {
		t.Errorf("of a Service: %+v", got)
	}
}
