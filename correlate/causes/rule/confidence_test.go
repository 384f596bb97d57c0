package rule

import (
	"testing"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

func at(target string, s evidence.Strength) evidence.Sign {
	return s.Target(target, nil, "")
}

func TestConfidenceFollowsFromTheSigns(t *testing.T) {
	event := evidence.Watched.Event(7, nil, "")
	for _, test := range []struct {
		name string
		f    Finding
		want model.Confidence
	}{
		{"close in time and no more", Finding{For: []evidence.Sign{at("new", evidence.Close)}}, model.Low},
		{"one sign of the watch", Finding{For: []evidence.Sign{event, at("new", evidence.Context)}}, model.Medium},
		{"two signs of the watch are one", Finding{For: []evidence.Sign{event, event}}, model.Medium},
		{"the watch and the traffic agree", Finding{For: []evidence.Sign{event, at("new", evidence.Watched)}},
			model.High},
		{"measured where it happened", Finding{For: []evidence.Sign{at("direct", evidence.Measured)}}, model.High},
		{"another cause fits too", Finding{For: []evidence.Sign{at("direct", evidence.Measured)},
			Against: []evidence.Sign{evidence.Close.Doubt("x")}}, model.Medium},
		{"the cause can hardly be", Finding{For: []evidence.Sign{at("direct", evidence.Measured)},
			Against: []evidence.Sign{evidence.Watched.Doubt("x")}}, model.Low},
		{"a sign against it that decides nothing", Finding{For: []evidence.Sign{at("direct", evidence.Measured)},
			Against: []evidence.Sign{evidence.Says("x")}}, model.High},
		{"the measurement is missing", Finding{For: []evidence.Sign{event, at("new", evidence.Watched)},
			Missing: []evidence.Sign{evidence.Measured.Doubt("x")}}, model.Medium},
		{"and what the watch would have said", Finding{For: []evidence.Sign{event, at("new", evidence.Watched)},
			Missing: []evidence.Sign{evidence.Watched.Doubt("x")}}, model.Low},
		{"doubts raise nothing", Finding{For: []evidence.Sign{at("new", evidence.Close)},
			Against: []evidence.Sign{evidence.Close.Doubt("x")}}, model.Low},
	} {
		if got := test.f.confidence(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestRuleSaysWhatItNeedsAndDoesNotGuess(t *testing.T) {
	needs := Rule{
		Needs: []Need{{"nothing was watched", func(*Case) bool { return false }}},
		Test:  func(*Case) Finding { t.Error("tested all the same"); return Finding{} },
	}
	if f := needs.Find(&Case{}); f.Applies() || f.WhyNot() != "nothing was watched" {
		t.Errorf("%+v", f)
	}
}
