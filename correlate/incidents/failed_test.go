package incidents

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

// An incident's first failed request is a fact; the bracket of its window begins long before (D2).
func TestAnIncidentFailedFromItsFirstToItsLastFailedRequest(t *testing.T) {
	const ms = time.Millisecond
	tl := &model.Timeline{
		Windows: []model.Window{{
			ID: 1, Target: "web reused", Failed: 2, Start: model.Instant{Earliest: 4881 * ms, Latest: 5549 * ms}, End: model.Instant{Earliest: 5700 * ms, Latest: 6000 * ms},
		}},
		Failures: []model.Failure{
			{Target: "web reused", Due: 5690 * ms, Done: 5700 * ms}, {Target: "web reused", Due: 5547 * ms, Done: 5549 * ms},
			{Target: "web new", Due: 5000 * ms, Done: 5001 * ms}, {Target: "web reused", Due: 9000 * ms, Done: 9001 * ms},
		},
	}
	list := []model.Incident{{Windows: []int{1, 7}, Triggers: []model.Trigger{{At: model.Instant{Earliest: 5100 * ms, Latest: 5200 * ms}}}}}
	setFailed(list, tl)
	if in := list[0]; in.FailedFrom == nil || *in.FailedFrom != 5547*ms || *in.FailedTo != 5690*ms {
		t.Errorf("failed from %v to %v, want 5.547 s to 5.69 s", in.FailedFrom, in.FailedTo)
	}
	tl.Failures[1].Due = 4900 * ms // under way when it was set off
	list[0].FailedFrom, list[0].FailedTo = nil, nil
	setFailed(list, tl)
	if in := list[0]; *in.FailedFrom != 5549*ms {
		t.Errorf("failed from %v, before what set it off at 5.1 s at the earliest", *in.FailedFrom)
	}
	tl.Windows[0].Failed = 500 // most of which are not listed
	list[0].FailedFrom, list[0].FailedTo = nil, nil
	setFailed(list, tl)
	if in := list[0]; *in.FailedTo != 5700*ms {
		t.Errorf("failed to %v, want the bracket's 5.7 s", *in.FailedTo)
	}
}

func TestAnIncidentWithoutAFailedRequestSaysNoInstant(t *testing.T) {
	tl := &model.Timeline{Windows: []model.Window{{ID: 1, Kind: model.Slow, Slow: 9}}}
	list := []model.Incident{{Windows: []int{1}}}
	if setFailed(list, tl); list[0].FailedFrom != nil || list[0].FailedTo != nil {
		t.Errorf("%+v", list[0])
	}
}
