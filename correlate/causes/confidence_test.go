package causes

import (
	"testing"

	"lapse/correlate/model"
)

func at(target string, s Strength) Sign { return Sign{model.Evidence{Target: target}, s} }

func TestConfidenceFollowsFromTheSigns(t *testing.T) {
	event := Sign{model.Evidence{Event: 7}, Watched}
	for _, test := range []struct {
		name string
		f    Finding
		want model.Confidence
	}{
		{"close in time and no more", Finding{For: []Sign{at("new", Close)}}, model.Low},
		{"one sign of the watch", Finding{For: []Sign{event, at("new", Context)}}, model.Medium},
		{"two signs of the watch are one", Finding{For: []Sign{event, event}}, model.Medium},
		{"the watch and the traffic agree", Finding{For: []Sign{event, at("new", Watched)}}, model.High},
		{"measured where it happened", Finding{For: []Sign{at("direct", Measured)}}, model.High},
		{"another cause fits too", Finding{For: []Sign{at("direct", Measured)}, Against: []Sign{doubt(Close, "x")}}, model.Medium},
		{"the cause can hardly be", Finding{For: []Sign{at("direct", Measured)}, Against: []Sign{doubt(Watched, "x")}}, model.Low},
		{"a sign against it that decides nothing", Finding{For: []Sign{at("direct", Measured)}, Against: []Sign{says("x")}}, model.High},
		{"the measurement is missing", Finding{For: []Sign{event, at("new", Watched)}, Missing: []Sign{doubt(Measured, "x")}}, model.Medium},
		{"and what the watch would have said", Finding{For: []Sign{event, at("new", Watched)}, Missing: []Sign{doubt(Watched, "x")}}, model.Low},
		{"doubts raise nothing", Finding{For: []Sign{at("new", Close)}, Against: []Sign{doubt(Close, "x")}}, model.Low},
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
	if f := needs.find(&Case{}); f.applies() || f.whyNot() != "nothing was watched" {
		t.Errorf("%+v", f)
	}
}
